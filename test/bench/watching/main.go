// Command watching measures what it costs clients that sidestep watches: the recorder of
// spikes, traces of one request in a hundred, a line in the access log for each, a page
// that is open and a Prometheus, all at once, against the same sidestep with all of that
// off. Both stand before the same simulated cluster and take turns, so that a disturbance
// of the machine hits both; first all nodes are well, then one is slow. Page and Prometheus
// look, and CPU is counted, in the turns of each side alone.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"time"

	simcluster "sidestep/internal/sim/cluster"
	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
)

// options of a comparison.
type options struct {
	sidestep string        // the binary to measure
	out      string        // where the table goes
	rounds   int           // turns of each side in each situation
	slice    time.Duration // length of one turn
	rate     float64       // searches/s
}

const index = "products"

func main() {
	harness.Main("watching", func(arguments []string) (harness.Run, error) {
		var o options
		set := flag.NewFlagSet("watching", flag.ContinueOnError)
		set.StringVar(&o.sidestep, "sidestep", "bin/sidestep", "sidestep `binary`")
		set.StringVar(&o.out, "out", "test/bench/results/watching.md", "result `file`")
		set.IntVar(&o.rounds, "rounds", 10, "turns of each side in each situation")
		set.DurationVar(&o.slice, "slice", 4*time.Second, "length of one turn")
		set.Float64Var(&o.rate, "rate", 250, "searches per second")
		return func(ctx context.Context) error { return compare(ctx, o) }, set.Parse(arguments)
	})
}

// compare measures both sides in both situations and writes the table.
func compare(ctx context.Context, o options) error {
	cluster, err := simcluster.Start(simcluster.Options{
		Nodes: 5, Seed: 1, Adaptive: true, Indices: []simcluster.IndexSpec{{Name: index, Shards: 5, Replicas: 1}},
	})
	if err != nil {
		return err
	}
	defer cluster.Stop()
	sides, stop, err := startSides(ctx, o.sidestep, cluster.URLs())
	if err != nil {
		return err
	}
	defer stop()
	if err := o.turns(ctx, sides, 2, func(*side, taken) {}); err != nil { // to warm up
		return err
	}
	var text strings.Builder
	o.header(&text)
	for _, situation := range []struct {
		name  string
		fault simcluster.Fault
	}{
		{"all nodes well", simcluster.Fault{}},
		{"one node slow: 300 ± 50 ms on its transport", simcluster.Fault{Extra: 300 * time.Millisecond, Jitter: 50 * time.Millisecond}},
	} {
		cluster.Nodes()[2].SetFault(situation.fault)
		if err := o.turns(ctx, sides, 1, func(*side, taken) {}); err != nil { // to find out
			return err
		}
		rows, err := o.measure(ctx, sides)
		if err != nil {
			return err
		}
		render(&text, situation.name, rows)
	}
	fmt.Print(text.String())
	return harness.WriteResult(o.out, text.String())
}

// turns gives each side so many turns. Who begins changes.
func (o options) turns(ctx context.Context, sides []*side, count int, done func(*side, taken)) error {
	for round := range count {
		for i := range sides {
			s := sides[(round+i)%len(sides)]
			t, err := o.take(ctx, s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			done(s, t)
		}
	}
	return nil
}

// taken is what came of one turn.
type taken struct {
	result *loadgen.Result
	cpu    time.Duration // of sidestep
}

// take gives a side one turn.
func (o options) take(ctx context.Context, s *side) (t taken, err error) {
	defer s.watch(ctx)()
	before, err := s.front.CPUUsed()
	if err != nil {
		return t, err
	}
	t.result, err = loadgen.Run(ctx, loadgen.Options{
		Targets: []string{s.front.URL}, Rate: o.rate, Duration: o.slice, Transport: s.transport,
		Request: func(int) *http.Request { return search(ctx) },
	})
	if err != nil {
		return t, err
	}
	if t.result.Failed+t.result.Partial > 0 {
		return t, fmt.Errorf("%d failed, %d partial: %v", t.result.Failed, t.result.Partial, t.result.FirstErrors)
	}
	after, err := s.front.CPUUsed()
	t.cpu = after - before
	return t, err
}

// measured is what came of one side in one situation.
type measured struct {
	name   string
	result loadgen.Result
	p99    []float64     // of each turn, in ms
	cpu    time.Duration // of sidestep in its turns
}

func (o options) measure(ctx context.Context, sides []*side) ([]*measured, error) {
	rows := make([]*measured, len(sides))
	of := map[*side]*measured{}
	for i, s := range sides {
		rows[i] = &measured{name: s.name}
		of[s] = rows[i]
	}
	return rows, o.turns(ctx, sides, o.rounds, func(s *side, t taken) {
		m := of[s]
		m.result.Merge(t.result)
		m.p99 = append(m.p99, harness.Milliseconds(t.result.Quantile(0.99)))
		m.cpu += t.cpu
	})
}
