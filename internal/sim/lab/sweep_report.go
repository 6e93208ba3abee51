package lab

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// Bounds that the summary counts against.
const (
	worse     = 1.10 // p99 of the engine's times this is no worse
	gainable  = 0.4  // the oracle at this part of the engine's p99 can gain much
	gains     = 0.5
	nearBest  = 1.5
	fullLoad  = 0.9
	worstOnes = 10
)

// toEngine is p99 by the engine's, toOracle by the oracle's.
func (p *Played) toEngine() float64 { return p.P99.Sidestep / p.P99.Engine }
func (p *Played) toOracle() float64 { return p.P99.Sidestep / p.P99.Oracle }

// chanceOnly is how far a ratio of the control is from 1, either way.
func (p *Played) chanceOnly() float64 { return math.Max(p.toEngine(), 1/p.toEngine()) }

// printSweep prints what a sweep brought.
func printSweep(out io.Writer, played []Played, control bool) error {
	t := newTable(out)
	fmt.Fprintf(t, "scenarios\t%d\n", len(played))
	fmt.Fprintf(t, "\tp1\tp10\tp50\tp90\tp98\tp99\tlargest\n")
	quantiles(t, "p99, second/first", played, (*Played).toEngine)
	if control {
		printControl(t, played)
	} else {
		printSweepCounts(t, played)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if control {
		return nil
	}
	return printWorst(out, played)
}

func quantiles(t io.Writer, name string, played []Played, of func(*Played) float64) {
	values := sorted(played, of)
	fmt.Fprint(t, name)
	for _, q := range []float64{1, 10, 50, 90, 98, 99, 100} {
		fmt.Fprintf(t, "\t%.3f", ranked(values, q/100))
	}
	fmt.Fprintln(t)
}

// sorted returns a figure of all.
func sorted(played []Played, of func(*Played) float64) []float64 {
	values := make([]float64, len(played))
	for i := range played {
		values[i] = of(&played[i])
	}
	slices.Sort(values)
	return values
}

// ranked returns the value that a share q of sorted values does not exceed.
func ranked(sorted []float64, q float64) float64 {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// printControl says how much of a ratio is chance.
func printControl(t io.Writer, played []Played) {
	below, above := split(played, func(p *Played) bool { return p.Scenario.Load < fullLoad })
	for _, part := range []struct {
		name string
		of   []Played
	}{{"below 90 % load", below}, {"above", above}} {
		if len(part.of) == 0 {
			continue
		}
		quantiles(t, "either way, "+part.name, part.of, (*Played).chanceOnly)
		counted(t, "within 1.10, "+part.name, part.of, func(p *Played) bool { return p.chanceOnly() <= worse })
	}
}

func split(played []Played, in func(*Played) bool) (yes, no []Played) {
	for i := range played {
		if in(&played[i]) {
			yes = append(yes, played[i])
			continue
		}
		no = append(no, played[i])
	}
	return yes, no
}

func counted(t io.Writer, name string, played []Played, is func(*Played) bool) {
	yes, _ := split(played, is)
	fmt.Fprintf(t, "%s\t%d of %d\t%.1f %%\n", name, len(yes), len(played), 100*float64(len(yes))/math.Max(1, float64(len(played))))
}

func printSweepCounts(t io.Writer, played []Played) {
	quantiles(t, "p99, sidestep/oracle", played, (*Played).toOracle)
	quantiles(t, "p99, oracle/engine", played, func(p *Played) float64 { return p.P99.Oracle / p.P99.Engine })
	quantiles(t, "p50, sidestep/engine", played, func(p *Played) float64 { return p.P50.Sidestep / p.P50.Engine })
	quantiles(t, "attempts, sidestep/engine", played, func(p *Played) float64 { return p.Attempts.Sidestep / math.Max(1, p.Attempts.Engine) })
	counted(t, "p99 at most 1.10 × engine", played, func(p *Played) bool { return p.toEngine() <= worse })
	counted(t, "p99 at most 1.5 × engine", played, func(p *Played) bool { return p.toEngine() <= nearBest })
	gain, _ := split(played, func(p *Played) bool { return p.P99.Oracle <= gainable*p.P99.Engine })
	counted(t, "of those with oracle at most 0.4 × engine: at most 0.5 × engine", gain, func(p *Played) bool { return p.toEngine() <= gains })
	counted(t, "  at most 1.5 × oracle", gain, func(p *Played) bool { return p.toOracle() <= nearBest })
	counted(t, "more failed than the engine's", played, func(p *Played) bool { return p.Failed.Sidestep > p.Failed.Engine })
	counted(t, "fewer failed than the engine's", played, func(p *Played) bool { return p.Failed.Sidestep < p.Failed.Engine })
	// Where the engine fails some, which of them is chance.
	answered, _ := split(played, func(p *Played) bool { return p.Failed.Engine == 0 })
	counted(t, "some failed where the engine failed none", answered, func(p *Played) bool { return p.Failed.Sidestep > 0 })
	healthy, faulty := split(played, func(p *Played) bool { return p.Fault == faultNone })
	counted(t, "no ejection, without a fault", healthy, func(p *Played) bool { return p.Ejected == 0 })
	counted(t, "no ejection of a node without a fault, with one elsewhere", faulty, func(p *Played) bool { return p.Ejected == 0 })
	var failed, attempts Figures
	for i := range played {
		for arm := range 3 {
			*failed.of(arm) += *played[i].Failed.of(arm)
			*attempts.of(arm) += *played[i].Attempts.of(arm)
		}
	}
	fmt.Fprintf(t, "\tengine\tsidestep\toracle\n")
	fmt.Fprintf(t, "failed\t%.0f\t%.0f\t%.0f\n", failed.Engine, failed.Sidestep, failed.Oracle)
	fmt.Fprintf(t, "attempts\t%.0f\t%.0f\t%.0f\n", attempts.Engine, attempts.Sidestep, attempts.Oracle)
	printKinds(t, played)
}

// printKinds prints the middle of each kind of fault.
func printKinds(t io.Writer, played []Played) {
	fmt.Fprintf(t, "\nfault, alone or with another\tscenarios\tsidestep/engine, p50\tp90\tsidestep/oracle, p50\tp90\tejected wrongly in\n")
	for _, kind := range append([]string{faultNone}, faultKinds()...) {
		of, _ := split(played, func(p *Played) bool { return slices.Contains(strings.Split(p.Fault, "+"), kind) })
		if len(of) == 0 {
			continue
		}
		at := func(q float64, v func(*Played) float64) float64 { return ranked(sorted(of, v), q) }
		wrong, _ := split(of, func(p *Played) bool { return p.Ejected > 0 })
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%d\n", kind, len(of),
			at(0.5, (*Played).toEngine), at(0.9, (*Played).toEngine), at(0.5, (*Played).toOracle), at(0.9, (*Played).toOracle), len(wrong))
	}
}

// printWorst prints the scenarios with the largest ratios to the engine's p99.
func printWorst(out io.Writer, played []Played) error {
	worst := slices.Clone(played)
	slices.SortFunc(worst, func(a, b Played) int { return cmp.Compare(b.toEngine(), a.toEngine()) })
	t := newTable(out)
	fmt.Fprintf(t, "\nworst by p99\tfault\tengine ms\tsidestep\toracle\tfailed\tattempts\tejected\tnodes\tload\tsidecars\tclass\n")
	for i := range min(worstOnes, len(worst)) {
		p := &worst[i]
		fmt.Fprintf(t, "%d\t%s\t%.4g\t%.4g\t%.4g\t%.0f, %.0f, %.0f\t×%.3f\t%d\t%d\t%.2f\t%d\t%s\n", p.Seed, p.Fault, p.P99.Engine, p.P99.Sidestep, p.P99.Oracle,
			p.Failed.Engine, p.Failed.Sidestep, p.Failed.Oracle, p.Attempts.Sidestep/math.Max(1, p.Attempts.Engine),
			p.Ejected, p.Scenario.DataNodes, p.Scenario.Load, p.Scenario.Sidecars, p.class())
	}
	return t.Flush()
}

// class says what the figures of a bad scenario point at, the first that applies.
func (p *Played) class() string {
	more := p.Attempts.Sidestep / math.Max(1, p.Attempts.Engine)
	switch {
	case p.Failed.Sidestep > p.Failed.Engine:
		return "more searches fail"
	case p.Ejected > 0 && p.Fault == faultNone:
		return "ejects healthy nodes"
	case p.Ejected > 0:
		return "ejects nodes without the fault"
	case p.Scenario.Load >= fullLoad:
		return "full cluster"
	case more > worse:
		return "too many attempts"
	case p.Fault == faultNone:
		return "balance"
	}
	return "what the fault leaves"
}

// plotSweep draws which part of the scenarios is below which ratio.
func plotSweep(path string, played []Played, control bool) error {
	p := newPlot("p99 in random scenarios", "ratio", "part of the scenarios")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Y.Min, p.Y.Max = 0, 1
	p.Legend.Left = true
	curves := []struct {
		name string
		of   func(*Played) float64
	}{{"sidestep/engine", (*Played).toEngine}, {"sidestep/oracle", (*Played).toOracle}}
	if control {
		curves = curves[:1]
		curves[0].name = "engine/engine"
	}
	for i, c := range curves {
		values := sorted(played, c.of)
		var points plotter.XYs
		for k, v := range values {
			points = append(points, plotter.XY{X: math.Min(1000, math.Max(0.001, v)), Y: float64(k+1) / float64(len(values))})
		}
		if err := line(p, c.name, points, i); err != nil {
			return err
		}
	}
	return save(p, path)
}
