package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// report is the result of a run.
type report struct {
	options
	sidestepVersion string
	began           time.Time
	sections        []string
}

func newReport(ctx context.Context, o options) (*report, error) {
	version, err := o.SidestepVersion(ctx)
	if err != nil {
		return nil, err
	}
	return &report{options: o, began: time.Now(), sidestepVersion: version}, nil
}

// best returns the fixed way through sidestep that answered most.
func best(tallies []*tally) *tally {
	var found *tally
	for _, t := range tallies {
		if t.fixed() && (found == nil || bootstrap.Median(t.perSec) > bootstrap.Median(found.perSec)) {
			found = t
		}
	}
	return found
}

// add takes in a setting.
func (r *report) add(at setting, tallies []*tally, usage machine.Usage) {
	var out strings.Builder
	fmt.Fprintf(&out, "## Full, healthy: %s\n\n", at.title)
	out.WriteString("| way | searches/s | to the best fixed way | p50 | p99 | to the best fixed way | failed | busiest node | CPU, cores |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	base := best(tallies)
	for _, t := range tallies {
		used, most := 0.0, 0.0
		for _, seconds := range t.cpu {
			used += seconds
			most = max(most, seconds)
		}
		fmt.Fprintf(&out, "| %s | %.0f | %s | %.0f | %.0f | %s | %d | %.2f | %.2f |\n", t.name, bootstrap.Median(t.perSec),
			bootstrap.Ratio(t.perSec, base.perSec), harness.Milliseconds(t.result.Quantile(0.5)), bootstrap.Median(t.p99),
			bootstrap.Ratio(t.p99, base.p99), t.result.Failed+t.result.Partial, most*nodeCount/max(used, 1e-9),
			used/(float64(len(t.perSec))*r.turn.Seconds()))
	}
	fmt.Fprintf(&out, "\n- %s\n- Others' CPU: %s.\n", verdict(tallies), usage.Others())
	r.sections = append(r.sections, out.String())
}

// verdict says whether sidestep does as well as the best fixed way.
func verdict(tallies []*tally) string {
	base := best(tallies)
	own := tallies[slices.IndexFunc(tallies, func(t *tally) bool { return t.name == waySidestep })]
	throughput, p99 := bootstrap.Ratio(own.perSec, base.perSec), bootstrap.Ratio(own.p99, base.p99)
	holds := "holds"
	if throughput.Value < wantThroughput || p99.Value > wantP99 {
		holds = "does not hold"
	}
	return fmt.Sprintf("sidestep has %s of the throughput of the best fixed way through sidestep (%s), and %s of its p99: wanted at least %.2f and at most %.2f, %s.",
		throughput, base.name, p99, wantThroughput, wantP99, holds)
}

func (r *report) text() string {
	return fmt.Sprintf(`# A cluster that is full and healthy: %s %s

By `+"`make chaos-full`"+`: %d connections, each sending the next search when the last is answered, %d rounds of turns of %s in an
order drawn by lot. Five nodes, 5 shards × 2 copies, 20,000 documents. The first four ways are without sidestep, the next four
through a sidestep that goes that way and does nothing else, the last is sidestep. Medians over the turns, times in ms; ratios
with the interval that holds them with a probability of 95 %%. "Busiest node" is its CPU relative to the mean.

%s
Measured %s, sidestep %s, on %s: `+"`%s`"+`.
`, r.Engine, r.Version, r.connections, r.rounds, r.turn, strings.Join(r.sections, "\n"), r.began.Format("2006-01-02 15:04"), r.sidestepVersion, machine.Name(), r.command)
}

func (r *report) write() error {
	fmt.Println(r.text())
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.Out, "full-"+r.Engine+".md"), []byte(r.text()), 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}
