// Command watching measures what it costs clients that sidestep watches: the recorder of
// spikes, traces of one request in a hundred, a line in the access log for each, a page
// that is open and a Prometheus, all at once, against the same sidestep with all of that
// off. Both stand before the same simulated cluster and take turns, so that a disturbance
// of the machine hits both; first all nodes are well, then one is slow.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
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
	if err := o.turns(ctx, sides, 2, func(*side, *loadgen.Result) {}); err != nil { // to warm up
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
		if err := o.turns(ctx, sides, 1, func(*side, *loadgen.Result) {}); err != nil { // to find out
			return err
		}
		rows, err := o.measure(ctx, sides)
		if err != nil {
			return err
		}
		render(&text, situation.name, rows)
	}
	fmt.Print(text.String())
	return os.WriteFile(o.out, []byte(text.String()), 0o644)
}

// turns gives each side so many turns. Who begins changes.
func (o options) turns(ctx context.Context, sides []*side, count int, done func(*side, *loadgen.Result)) error {
	for round := range count {
		for i := range sides {
			s := sides[(round+i)%len(sides)]
			result, err := loadgen.Run(ctx, loadgen.Options{
				Targets: []string{s.front.URL}, Rate: o.rate, Duration: o.slice, Transport: s.transport,
				Request: func(int) *http.Request { return search(ctx) },
			})
			if err != nil {
				return err
			}
			if result.Failed+result.Partial > 0 {
				return fmt.Errorf("%s: %d failed, %d partial: %v", s.name, result.Failed, result.Partial, result.FirstErrors)
			}
			done(s, result)
		}
	}
	return nil
}

// measured is what came of one side in one situation.
type measured struct {
	name   string
	result loadgen.Result
	p99    []time.Duration // of each turn
	cpu    time.Duration   // of sidestep, for each search
}

func (o options) measure(ctx context.Context, sides []*side) ([]*measured, error) {
	rows := make([]*measured, len(sides))
	of := map[*side]*measured{}
	for i, s := range sides {
		rows[i] = &measured{name: s.name}
		of[s] = rows[i]
	}
	before, err := cpuOf(ctx, sides)
	if err != nil {
		return nil, err
	}
	err = o.turns(ctx, sides, o.rounds, func(s *side, result *loadgen.Result) {
		m := of[s]
		m.result.Merge(result)
		m.p99 = append(m.p99, result.Quantile(0.99))
	})
	if err != nil {
		return nil, err
	}
	after, err := cpuOf(ctx, sides)
	if err != nil {
		return nil, err
	}
	for i := range sides {
		rows[i].cpu = (after[i] - before[i]) / time.Duration(max(1, rows[i].result.Sent))
	}
	return rows, nil
}

// cpuOf is the CPU time that each side has used.
func cpuOf(ctx context.Context, sides []*side) ([]time.Duration, error) {
	used := make([]time.Duration, len(sides))
	for i, s := range sides {
		seconds, err := s.front.Sum(ctx, "process_cpu_seconds_total", nil)
		if err != nil {
			return nil, err
		}
		used[i] = time.Duration(seconds * float64(time.Second))
	}
	return used, nil
}
