package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// shown are the columns of the printed tables.
var shown = map[string]string{
	"scenario": "scenario", "load": "load", "sent": "sent",
	"p50_ms": "p50", "p90_ms": "p90", "p99_ms": "p99", "p99_all_ms": "p99 of all", "max_ms": "max",
	"failed": "failed", "partial": "partial", "searches_per_s": "searches/s",
	"p99_to_oracle": "p99 / oracle", "p99_to_engine": "p99 / engine", "passes": "passes", "bad_share": "bad node's share", "busiest": "busiest",
	"avoid_s": "avoided after, s", "return_s": "back after, s", "attempts": "attempts", "ejected": "ejections", "others_cpu": "others' CPU",
}

// cells returns the shown cells of a row; the scenario's title stands in its first.
func cells(row record, first bool) []string {
	var out []string
	for _, column := range columns {
		if _, ok := shown[column]; !ok {
			continue
		}
		cell := row[column]
		if column == "scenario" {
			cell = ""
			if first {
				cell = title(row[column])
			}
		}
		out = append(out, cell)
	}
	return out
}

func title(name string) string {
	for _, sc := range scenarios() {
		if sc.name == name {
			return sc.title
		}
	}
	return name
}

func head() []string {
	var out []string
	for _, column := range columns {
		if text, ok := shown[column]; ok {
			out = append(out, text)
		}
	}
	return out
}

// text is the table of this run.
func (b *book) text() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(head(), "\t"))
	fresh := slices.DeleteFunc(slices.Clone(b.records), func(r record) bool { return !slices.Contains(b.fresh, r["scenario"]) })
	last := ""
	for _, row := range fresh {
		fmt.Fprintln(w, strings.Join(cells(row, row["scenario"] != last), "\t"))
		last = row["scenario"]
	}
	_ = w.Flush() // to memory
	for _, row := range fresh {
		if row["first_error"] != "" {
			fmt.Fprintf(&out, "first error of %s, %s: %s\n", row["scenario"], row["load"], row["first_error"])
		}
	}
	for _, line := range slices.Concat(asked(fresh), verdict(fresh)) {
		fmt.Fprintln(&out, line)
	}
	if len(b.fresh) > 0 {
		fmt.Fprintln(&out, "slowest searches:", b.slowestPath())
	}
	return out.String()
}

// verdict says for sidestep and each variant how many scenarios pass, and why the
// others do not.
func verdict(records []record) []string {
	type sum struct {
		all  int
		fail []string
	}
	var order []string
	sums := map[string]*sum{}
	for _, row := range records {
		load, watch, _ := strings.Cut(row["load"], ", ")
		if load == loadEngine || load == loadOracle || load == loadControl {
			continue
		}
		name := row["scenario"]
		if watch != watchOnset && watch != watchReturn && watch != "" { // a second tenant
			name, watch = name+", "+watch, ""
		}
		if sums[load] == nil {
			sums[load] = &sum{}
			order = append(order, load)
		}
		s := sums[load]
		if watch == "" && row["passes"] != "" {
			s.all++
		}
		why, fails := strings.CutPrefix(row["passes"], "no: ")
		if !fails {
			continue
		}
		if watch != "" {
			why += " at " + watch
		}
		same := len(s.fail) - 1
		if same >= 0 && strings.HasPrefix(s.fail[same], name+" (") {
			s.fail[same] = strings.TrimSuffix(s.fail[same], ")") + ", " + why + ")"
			continue
		}
		s.fail = append(s.fail, name+" ("+why+")")
	}
	var lines []string
	for _, load := range order {
		s := sums[load]
		line := fmt.Sprintf("%s passes in %d of %d scenarios", load, s.all-len(s.fail), s.all)
		if len(s.fail) > 0 {
			line += "; not in " + strings.Join(s.fail, ", ")
		}
		lines = append(lines, line)
	}
	return lines
}

// asked are the answers of every row that asks something.
func asked(records []record) []string {
	var lines []string
	for _, row := range records {
		if row["asked"] != "" {
			lines = append(lines, fmt.Sprintf("%s, %s: %s", row["scenario"], row["load"], row["asked"]))
		}
	}
	return lines
}

const explanation = `A row is one scenario and one way to send the searches: **engine** goes round robin over all data nodes and leaves the choice
of copies to the engine, **sidestep** is the same client before sidestep, **oracle** is told which nodes are bad and touches
them neither as coordinating nor as data nodes, **control** is engine once more and tells what the same differs by; other names
are sidesteps with other settings. "heavy" is a second tenant, which sends searches of its own meanwhile. The ways take
turns in rounds of one run, in an order drawn by lot; each turn has a lead-in that is not counted. Where sidestep is to be near
the oracle, and the loop is open, there are twice as many rounds, and engine and control have a turn in every other one. In the rolling restart all
are sent at once, each at its part of the rate, as every node stops once. Five nodes and 5 shards × 2 copies unless a row says
otherwise; open loop likewise, latency in ms from the scheduled start. Percentiles are medians of the turns, but for "p99 of
all", which is over the searches of all turns; in the rolling restart, and where nodes stand still or flap, all are. The nodes stand still at the same moments in all turns
of a round; where one node stops or flaps again and again, each turn begins at a moment of that period that is drawn by lot. A turn of an open loop has 100 searches or more; of 100 the second longest is p99. Ratios have the 95 % interval of
a bootstrap over the rounds. "onset" is sidestep from 2 s before the fault until the first turn, "return" from 1 s before
its end on; their percentiles are of all searches, and only a loss counts. A row passes when all holds that it asks: nothing
failed or was partial; a gain, or nearness to the oracle, holds if the interval's upper end does; "no worse" holds if the ratio
is at most 1.05 or inside the control's interval. The bad node's share is that of the shard queries; "busiest" is the busiest node's relative to an equal
share. A node is avoided when at most a tenth of the searches use it, and back when it has half of its former share, for a
second and from its first fifth on; for faults of HTTP that is about coordinating nodes. Attempts are those of a search in the
mean, ejections those of any node, also between the turns of sidestep. "Others' CPU" is the share of the
machine that programs outside the measurement used meanwhile: where it is not near 0, the times are theirs too.
`

// markdown is the table of all results.
func (b *book) markdown() string {
	var out strings.Builder
	fmt.Fprintf(&out, "# Degraded nodes: %s\n\nBy `make chaos`. %s\n", b.Engine, explanation)
	line := func(cells []string) { fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | ")) }
	line(head())
	line(strings.Split("---|---"+strings.Repeat("|---:", len(head())-2), "|"))
	last := ""
	for _, row := range b.records {
		shown := cells(row, row["scenario"] != last)
		if row["load"] == loadSidestep {
			shown[1] = "**" + shown[1] + "**"
		}
		line(shown)
		last = row["scenario"]
	}
	out.WriteString("\n")
	for _, text := range slices.Concat(verdict(b.records), asked(b.records)) {
		fmt.Fprintf(&out, "- %s\n", text)
	}
	b.errors(&out)
	b.plots(&out)
	b.runs(&out)
	return out.String()
}

func (b *book) errors(out *strings.Builder) {
	titled := false
	for _, row := range b.records {
		if row["first_error"] == "" {
			continue
		}
		if !titled {
			out.WriteString("\n## First errors\n\n")
			titled = true
		}
		fmt.Fprintf(out, "- %s, %s: `%s`\n", title(row["scenario"]), row["load"], strings.ReplaceAll(row["first_error"], "`", "'"))
	}
}

func (b *book) plots(out *strings.Builder) {
	titled := false
	for _, sc := range scenarios() {
		path := b.plotPath(sc.name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if !titled {
			out.WriteString("\n## Whom sidestep uses\n\n")
			titled = true
		}
		fmt.Fprintf(out, "![%s](%s)\n", sc.title, path[strings.LastIndexByte(path, '/')+1:])
	}
}

// runs says what was measured when, with what.
func (b *book) runs(out *strings.Builder) {
	out.WriteString("\n## Runs\n\n")
	var order []string
	of := map[string][]string{}
	for _, row := range b.records {
		key := fmt.Sprintf("%s: %s, sidestep %s, %s, %#q", row["date"], row["engine"], row["sidestep"], row["machine"], row["command"])
		if name := row["scenario"]; !slices.Contains(of[key], name) {
			of[key] = append(of[key], name)
		}
		if !slices.Contains(order, key) {
			order = append(order, key)
		}
	}
	for _, key := range order {
		fmt.Fprintf(out, "- %s: %s\n", key, strings.Join(of[key], ", "))
	}
}
