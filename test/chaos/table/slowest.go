package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sidestep/test/harness"
)

// kept is how many of the slowest searches of a load are told of.
const kept = 20

// slow is one of the slowest searches of a load.
type slow struct {
	sample
	round  int           // 0: not in a round
	offset time.Duration // from the turn's begin, or from the fault's begin or end, to when it was due
}

// keepSlowest takes in samples; their offsets count from zero.
func (t *tally) keepSlowest(samples []sample, round int, zero time.Time) {
	for _, s := range samples {
		t.slowest = append(t.slowest, slow{sample: s, round: round, offset: s.due.Sub(zero)})
	}
	slices.SortStableFunc(t.slowest, func(x, y slow) int { return int(y.latency - x.latency) })
	t.slowest = slices.Clip(t.slowest[:min(kept, len(t.slowest))])
}

// touches says how the search had to do with bad nodes.
func (s *slow) touches(bad []string) string {
	var how []string
	switch {
	case !s.answered:
		return "?"
	case len(s.nodes) == 0:
		how = append(how, "unlisted")
	case slices.ContainsFunc(s.nodes, func(name string) bool { return slices.Contains(bad, name) }):
		how = append(how, "listed")
	}
	if slices.Contains(bad, s.coordinator) {
		how = append(how, "coordinator")
	}
	if len(how) == 0 {
		return "-"
	}
	return strings.Join(how, ", ")
}

const slowestExplanation = `# The slowest searches through sidestep, for each scenario and load.
# offset: when the search was due, in seconds from the begin of its turn; at onset and return from the fault's begin and end.
# latency: from when it was due to its last byte, of which "late" went by before it was sent (the load generator's share).
# bad: how it met a degraded node: in its list, as the coordinating node; "unlisted": the engine chose, among all.
# time: of day. Below the searches stands when each sidestep changed its mind about a node; its whole log is beside this file.
`

// slowestPath is where the slowest searches of this run are.
func (b *book) slowestPath() string { return filepath.Join(b.trace, "chaos-"+b.Engine+"-slowest.txt") }

// addSlowest appends the slowest searches of a scenario to what this run has told.
func (b *book) addSlowest(sc scenario, o *outcome) error {
	if b.slowest.Len() == 0 {
		b.slowest.WriteString(slowestExplanation)
	}
	fmt.Fprintf(&b.slowest, "\n== %s: %s", sc.name, sc.title)
	if len(o.bad) > 0 {
		fmt.Fprintf(&b.slowest, "; degraded: %s, from %s to %s", strings.Join(o.bad, ", "), o.began.Format(clock), o.repaired.Format(clock))
	}
	b.slowest.WriteString("\n")
	for _, t := range o.tallies {
		if len(t.slowest) == 0 {
			continue
		}
		fmt.Fprintf(&b.slowest, "\n%s: p99 %s ms of %d\n", t.load, ms(t.result.Quantile(0.99)), t.result.Sent)
		w := tabwriter.NewWriter(&b.slowest, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "  round\toffset, s\tlatency, ms\tlate, ms\tstatus\tbad\ttime\tdecision")
		for _, s := range t.slowest {
			fmt.Fprintf(w, "  %d\t%.3f\t%s\t%s\t%d\t%s\t%s\t%s\n", s.round, s.offset.Seconds(), ms(s.latency),
				ms(s.at.Sub(s.due)), s.status, s.touches(o.bad), s.due.Format(clock), s.decision)
		}
		_ = w.Flush() // to memory
	}
	for _, load := range slices.Sorted(maps.Keys(o.changes)) {
		if lines := o.changes[load]; len(lines) > 0 {
			fmt.Fprintf(&b.slowest, "\n%s about the nodes:\n  %s\n", load, strings.Join(lines, "\n  "))
		}
	}
	return harness.WriteResult(b.slowestPath(), b.slowest.String())
}
