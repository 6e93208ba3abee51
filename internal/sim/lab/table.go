package lab

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"
)

// newTable returns a writer of lines with tabs between their columns.
func newTable(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }

// printScenario prints the rows of one scenario.
func printScenario(out io.Writer, sc *Scenario, rows []Row) error {
	fmt.Fprintf(out, "\n%s: %s\n", sc.Name, sc.About)
	fmt.Fprintf(out, "median (min–max) of %d seeds; times in ms, shares in %%\n", len(rows[0].Runs))
	t := newTable(out)
	fmt.Fprintln(t, "policy\tsearches/s\tp50\tp90\tp99\tp99.9\tfailed\tbad node\tavoid s\treturn s\tlargest share\t")
	for _, r := range rows {
		m := r.Median
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", r.Policy,
			spread(r, perSecond, func(n Numbers) float64 { return n.Throughput }),
			ms(m.P50), ms(m.P90), spread(r, ms, func(n Numbers) float64 { return n.P99 }), ms(m.P999),
			percent(m.Failed), percent(m.BadShare), seconds(m.Avoid), seconds(m.Return), number(m.MaxShare, 2))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if sc.published != nil {
		return printPublished(out, sc.published, rows)
	}
	return nil
}

// printPublished puts Elastic's own figures beside ours.
func printPublished(out io.Writer, p *published, rows []Row) error {
	fmt.Fprintf(out, "\nElastic's table, %s\n", p.title)
	t := newTable(out)
	fmt.Fprintln(t, "\tsearches/s\tp50\tp90\tp99\t")
	line := func(name string, v [4]float64) {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t\n", name, number(v[0], 2), ms(v[1]), ms(v[2]), ms(v[3]))
	}
	ours := func(name string) {
		i := slices.IndexFunc(rows, func(r Row) bool { return r.Policy == name })
		if i < 0 {
			return
		}
		m := rows[i].Median
		line("lab: "+name, [4]float64{m.Throughput, m.P50, m.P90, m.P99})
	}
	line("published, without adaptive selection", p.off)
	ours("round_robin")
	line("published, adaptive selection", p.ars)
	ours("ars_opensearch") // the formula of the engine of then, too
	for _, r := range rows {
		if r.Policy != "round_robin" && r.Policy != "ars_opensearch" {
			ours(r.Policy)
		}
	}
	return t.Flush()
}

// printSummary prints the median p99 of every scenario with every policy.
func printSummary(out io.Writer, rows []Row) error {
	var scenarios, names []string
	at := map[[2]string]float64{}
	for _, r := range rows {
		if !slices.Contains(scenarios, r.Scenario) {
			scenarios = append(scenarios, r.Scenario)
		}
		if !slices.Contains(names, r.Policy) {
			names = append(names, r.Policy)
		}
		at[[2]string{r.Scenario, r.Policy}] = r.Median.P99
	}
	fmt.Fprint(out, "\np99 in ms, median of the seeds; ∞: more than 1 % of the searches failed\n")
	t := newTable(out)
	fmt.Fprint(t, "scenario\t")
	for _, n := range names {
		fmt.Fprintf(t, "%s\t", n)
	}
	fmt.Fprintln(t)
	for _, s := range scenarios {
		fmt.Fprintf(t, "%s\t", s)
		for _, n := range names {
			fmt.Fprintf(t, "%s\t", ms(at[[2]string{s, n}]))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// PrintList prints the scenarios and policies there are.
func PrintList(out io.Writer) error {
	t := newTable(out)
	fmt.Fprintln(t, "Scenarios:")
	for _, sc := range Scenarios() {
		fmt.Fprintf(t, "  %s\t%s\n", sc.Name, sc.About)
	}
	fmt.Fprintln(t, "\nPolicies:")
	for _, p := range policies() {
		fmt.Fprintf(t, "  %s\t%s\n", p.name, p.about)
	}
	return t.Flush()
}

// spread writes a figure as median (min–max).
func spread(r Row, write func(float64) string, of func(Numbers) float64) string {
	if len(r.Runs) == 1 {
		return write(of(r.Median))
	}
	return fmt.Sprintf("%s (%s–%s)", write(of(r.Median)), write(of(r.Min)), write(of(r.Max)))
}

func perSecond(v float64) string { return number(v, 1) }

// ms writes milliseconds with as many digits as matter.
func ms(v float64) string {
	if v < 100 {
		return number(v, 1)
	}
	return number(v, 0)
}

func seconds(v float64) string { return number(v/float64(time.Second/time.Millisecond), 1) }

func percent(share float64) string { return number(100*share, 2) }

func number(v float64, digits int) string {
	if math.IsNaN(v) {
		return "–"
	}
	if math.IsInf(v, 1) {
		return "∞"
	}
	return fmt.Sprintf("%.*f", digits, v)
}
