// Package lab plays searches against simulated nodes in virtual time: the
// production selection, and what it is compared with, meet the same searches, the
// same service times and the same faults. A run is repeated exactly by its seed.
//
// A node is a bounded FIFO queue before search threads that share its CPUs; a
// search waits at its coordinating node for the slowest of its shard queries. Not
// in the model: fetch phase, caches, and garbage collection other than as a pause.
package lab

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Options says what to run.
type Options struct {
	Scenarios []string // names; all if empty
	Policies  []string // names; all if empty
	Seeds     int      // runs of each scenario with each policy, at least 1
	Skip      int      // so many seeds are left out before the first
	// PollInterval is how often sidecars poll each node; 0: what the scenario says.
	PollInterval time.Duration
	Dir          string // where CSV files and plots go; empty: nowhere
	Out          io.Writer
	Progress     io.Writer
}

// Row is a scenario with a policy: figures over all seeds.
type Row struct {
	Scenario, Policy string
	Min, Median, Max Numbers
	Runs             []Numbers // by seed
	latency          *hdrhistogram.Histogram
	failed           int64
	load             [][]int32 // of the first seed
}

// Validate tells what is wrong with the options, naming the valid values.
func (o Options) Validate() error {
	_, _, err := o.chosen()
	return err
}

// chosen returns what is to be played.
func (o Options) chosen() (scenarios []Scenario, list []policy, err error) {
	if scenarios, err = choose(o.Scenarios); err != nil {
		return nil, nil, err
	}
	if list, err = pick(o.Policies); err != nil {
		return nil, nil, err
	}
	switch {
	case o.Seeds < 1:
		err = fmt.Errorf("seeds must be at least 1, got %d", o.Seeds)
	case o.Skip < 0:
		err = fmt.Errorf("the number of seeds left out must not be negative, got %d", o.Skip)
	case o.PollInterval < 0:
		err = fmt.Errorf("the poll interval must not be negative, got %s", o.PollInterval)
	}
	return scenarios, list, err
}

// Run plays the scenarios, prints a table for each and one of all, and returns the
// rows. It ends early, with the context's error, when ctx ends.
func Run(ctx context.Context, o Options) ([]Row, error) {
	scenarios, list, err := o.chosen()
	if err != nil {
		return nil, err
	}
	if o.Dir != "" {
		if err := prepare(o.Dir); err != nil {
			return nil, err
		}
	}
	var rows []Row
	for i := range scenarios {
		if o.PollInterval > 0 {
			scenarios[i].pollInterval = o.PollInterval
		}
		began := time.Now()
		of, err := play(ctx, &scenarios[i], list, o.Seeds, o.Skip)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(o.Progress, "%d/%d %s: %d runs in %s\n",
			i+1, len(scenarios), scenarios[i].Name, len(list)*o.Seeds, time.Since(began).Round(10*time.Millisecond))
		if err := printScenario(o.Out, &scenarios[i], of); err != nil {
			return nil, err
		}
		if o.Dir != "" {
			if err := plotScenario(o.Dir, &scenarios[i], of); err != nil {
				return nil, err
			}
		}
		for i := range of {
			of[i].latency, of[i].load = nil, nil // the largest scenarios would fill the memory
		}
		rows = append(rows, of...)
	}
	if err := printSummary(o.Out, rows); err != nil {
		return nil, err
	}
	if o.Dir != "" {
		return rows, writeCSV(o.Dir, rows)
	}
	return rows, nil
}

// play runs one scenario with each policy and seed, but for the first skip seeds.
func play(ctx context.Context, sc *Scenario, list []policy, seeds, skip int) ([]Row, error) {
	runs, err := repeat(ctx, sc, list, seeds, skip)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, len(list))
	for i, p := range list {
		rows[i] = summarize(sc, p.name, runs[i])
	}
	return rows, nil
}

// repeat returns the runs of a scenario with each policy, by seed, but for the first skip seeds.
func repeat(ctx context.Context, sc *Scenario, list []policy, seeds, skip int) ([][]*measure, error) {
	runs := make([][]*measure, len(list))
	err := each(ctx, len(list)*seeds, 0, func(i int) *measure {
		return simulate(sc, list[i/seeds], uint64(i%seeds+skip)+1) //nolint:gosec // small and not negative
	}, func(i int, m *measure) error {
		runs[i/seeds] = append(runs[i/seeds], m)
		return nil
	})
	return runs, err
}

// summarize makes a row of the runs with one policy.
func summarize(sc *Scenario, policy string, runs []*measure) Row {
	r := Row{Scenario: sc.Name, Policy: policy, latency: runs[0].latency, load: runs[0].load}
	for i, m := range runs {
		r.Runs = append(r.Runs, m.numbers())
		r.failed += m.failed
		if i > 0 {
			r.latency.Merge(m.latency)
		}
	}
	for _, f := range figures {
		values := make([]float64, len(r.Runs))
		for i := range r.Runs {
			values[i] = *f.of(&r.Runs[i])
		}
		// NaN, "does not apply" or "never", is last: worse than any time.
		slices.SortFunc(values, func(a, b float64) int {
			if math.IsNaN(a) || math.IsNaN(b) {
				return cmp.Compare(b, a) // which has NaN below all
			}
			return cmp.Compare(a, b)
		})
		*f.of(&r.Min), *f.of(&r.Median), *f.of(&r.Max) = values[0], values[len(values)/2], values[len(values)-1]
	}
	return r
}

// figure is one of Numbers, under the name of its column.
type figure struct {
	name string
	of   func(*Numbers) *float64
}

var figures = []figure{
	{"searches_per_second", func(n *Numbers) *float64 { return &n.Throughput }},
	{"p50_ms", func(n *Numbers) *float64 { return &n.P50 }},
	{"p90_ms", func(n *Numbers) *float64 { return &n.P90 }},
	{"p99_ms", func(n *Numbers) *float64 { return &n.P99 }},
	{"p99.9_ms", func(n *Numbers) *float64 { return &n.P999 }},
	{"failed_share", func(n *Numbers) *float64 { return &n.Failed }},
	{"bad_node_share", func(n *Numbers) *float64 { return &n.BadShare }},
	{"time_to_avoid_ms", func(n *Numbers) *float64 { return &n.Avoid }},
	{"time_to_return_ms", func(n *Numbers) *float64 { return &n.Return }},
	{"largest_share", func(n *Numbers) *float64 { return &n.MaxShare }},
	{"share_variation", func(n *Numbers) *float64 { return &n.ShareVariation }},
}
