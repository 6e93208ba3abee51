package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"sidestep/test/bootstrap"
	"sidestep/test/harness"
	"sidestep/test/machine"
)

// What is required of sidestep, relative to the best fixed way through sidestep.
const (
	wantThroughput = 0.97
	wantP99        = 1.1
)

// wantBusiest is the most CPU that a node may use with ten sidesteps, relative to the mean.
const wantBusiest = 1.5

// report is the result of a run.
type report struct {
	options
	sidestepVersion string
	began           time.Time
	sections        []string
}

// best returns the fixed way through sidestep that answered most.
func (m measured) best() *tally {
	var found *tally
	for _, t := range m.tallies {
		if t.fixed() && (found == nil || bootstrap.Median(t.perSec) > bootstrap.Median(found.perSec)) {
			found = t
		}
	}
	return found
}

// busiest returns the CPU of the busiest node relative to the mean, and the CPU seconds of all.
func (t *tally) busiest() (most, used float64) {
	for _, seconds := range t.cpu {
		used += seconds
		most = max(most, seconds)
	}
	return most * nodeCount / max(used, 1e-9), used
}

// answers returns how many searches were answered completely, at least one.
func (t *tally) answers() float64 {
	return float64(max(1, t.result.OK))
}

// add takes in a setting.
func (r *report) add(m measured) {
	var out strings.Builder
	fmt.Fprintf(&out, "## %s\n\n", m.title)
	to, base := "the best fixed way", m.best()
	if m.half {
		to, base = wayRound, m.of(wayRound)
		fmt.Fprintf(&out, "%.0f searches a second.\n\n", m.rate)
	}
	fmt.Fprintf(&out, "| way | searches/s | to %[1]s | p50 | to %[1]s | p99 | to %[1]s | failed | busiest node | CPU, cores | CPU of the nodes a search, ms | of sidestep, ms |\n", to)
	out.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, t := range m.tallies {
		busiest, used := t.busiest()
		fmt.Fprintf(&out, "| %s | %.0f | %s | %.1f | %s | %.1f | %s | %d | %.2f | %.2f | %.2f | %.2f |\n", t.name,
			bootstrap.Median(t.perSec), bootstrap.Ratio(t.perSec, base.perSec), bootstrap.Median(t.p50), bootstrap.Ratio(t.p50, base.p50),
			bootstrap.Median(t.p99), bootstrap.Ratio(t.p99, base.p99), t.result.Failed+t.result.Partial, busiest,
			used/(float64(len(t.perSec))*r.turn.Seconds()), 1000*used/t.answers(), 1000*t.own/t.answers())
	}
	out.WriteString("\n")
	for _, t := range m.tallies {
		if len(t.doing) > 0 {
			fmt.Fprintf(&out, "%s did: %s.\n\n", t.name, t.doing)
		}
	}
	for _, v := range m.verdicts() {
		fmt.Fprintf(&out, "- %s.\n", v)
	}
	fmt.Fprintf(&out, "- Others' CPU: %s.\n", m.usage.Others())
	r.sections = append(r.sections, out.String())
}

// verdicts say whether sidestep does what is required in a setting.
func (m measured) verdicts() []bootstrap.Verdict {
	if m.half {
		return m.halfVerdicts()
	}
	base, own := m.best(), m.of(waySidestep)
	return []bootstrap.Verdict{
		bootstrap.AtLeast(fmt.Sprintf("searches/s to the best fixed way through sidestep (%s)", base.name), bootstrap.Ratio(own.perSec, base.perSec), wantThroughput),
		bootstrap.AtMost("p99", bootstrap.Ratio(own.p99, base.p99), wantP99),
	}
}

// halfVerdicts say whether sidestep is no worse than round robin, and how evenly ten of it use the nodes.
func (m measured) halfVerdicts() []bootstrap.Verdict {
	base, control, own := m.of(wayRound), m.of(wayControl), m.of(waySidestep)
	busiest, _ := m.of(wayTen).busiest()
	return []bootstrap.Verdict{
		bootstrap.NoHigher("p50 to round robin through sidestep", bootstrap.Ratio(own.p50, base.p50), bootstrap.Ratio(control.p50, base.p50)),
		bootstrap.NoHigher("p99", bootstrap.Ratio(own.p99, base.p99), bootstrap.Ratio(control.p99, base.p99)),
		{About: fmt.Sprintf("the busiest node's CPU with ten sidesteps %.2f of the mean, at most %g", busiest, wantBusiest), Holds: busiest <= wantBusiest},
	}
}

func (r *report) text() string {
	return fmt.Sprintf(`# A cluster that is healthy, full and half full: %s %s

By `+"`make chaos-full`"+`: %d rounds of turns of %s in an order drawn by lot. Five nodes, 5 shards × 2 copies, 20,000 documents.
Full: %d connections, each sending the next search when the last is answered. Those named "off" go through a sidestep that goes that way
and does nothing else. Half full: searches start on schedule, half as many as the nodes answer round robin through sidestep, measured before. Medians over the turns, times in ms; ratios with the interval
that holds them with a probability of 95 %%. "Busiest node" is its CPU relative to the mean.

%s
Measured %s, sidestep %s, on %s: `+"`%s`"+`.
`, r.Engine, r.Version, r.rounds, r.turn, r.connections, strings.Join(r.sections, "\n"), r.began.Format("2006-01-02 15:04"), r.sidestepVersion, machine.Name(), r.command)
}

func (r *report) write() error {
	fmt.Println(r.text())
	return harness.WriteResult(filepath.Join(r.Out, "full-"+r.Engine+".md"), r.text())
}
