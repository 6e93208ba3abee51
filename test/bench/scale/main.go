// Command scale measures what big clusters cost sidestep: the microbenchmarks of
// placement and resolution at all sizes, the first table and the memory of the
// built binary before a simulated cluster, and a storm of relocations under load
// next to the same load without changes and without sidestep.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sidestep/test/bench/plain"
	"sidestep/test/harness"
)

// options of a measurement.
type options struct {
	sidestep string // the binary to measure
	out      string // where the tables go; the plot is beside them
	count    int    // how often each microbenchmark runs: the fastest counts
	nodes    int
	indices  int
	phase    time.Duration // of searches through sidestep, without changes and in the storm
	rate     float64       // searches a second
	changes  int           // of the cluster state a second, in the storm
	seed     harness.Seed
	benches  bool
	process  bool
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == plain.Command {
		fmt.Fprintln(os.Stderr, "scale:", plain.Serve(os.Args[2:]))
		os.Exit(1)
	}
	harness.Main("scale", func(arguments []string) (harness.Run, error) {
		var o options
		set := flag.NewFlagSet("scale", flag.ContinueOnError)
		set.StringVar(&o.sidestep, "sidestep", "bin/sidestep", "sidestep `binary`")
		set.StringVar(&o.out, "out", "test/bench/results/scale.md", "result `file`")
		set.IntVar(&o.count, "count", 5, "runs of each microbenchmark, of which the fastest counts")
		set.IntVar(&o.nodes, "nodes", 50, "nodes of the simulated cluster")
		set.IntVar(&o.indices, "indices", 10_000, "its indices, of five shards with two copies")
		set.DurationVar(&o.phase, "phase", time.Minute, "length of each phase of the storm's load")
		set.Float64Var(&o.rate, "rate", 500, "searches a second")
		set.IntVar(&o.changes, "changes", 1000, "changes of the cluster state a second in the storm")
		set.BoolVar(&o.benches, "benches", true, "run the microbenchmarks")
		set.BoolVar(&o.process, "process", true, "measure the binary, without changes and in the storm")
		o.seed.Flag(set)
		err := errors.Join(set.Parse(arguments), o.seed.Draw(set))
		return func(ctx context.Context) error { return measure(ctx, o) }, err
	})
}

func measure(ctx context.Context, o options) error {
	report := &report{o: o}
	if o.benches {
		var err error
		if report.micro, err = runBenches(ctx, o.count); err != nil {
			return err
		}
		if err := report.renderMicro(&strings.Builder{}); err != nil { // before all else is measured
			return err
		}
		plot := filepath.Join(filepath.Dir(o.out), "scale-changes.svg")
		if err := plotChanges(plot, report.micro); err != nil {
			return err
		}
	}
	if o.process {
		if err := runStorm(ctx, o, report); err != nil {
			return err
		}
	}
	text, err := report.render()
	if err != nil {
		return err
	}
	fmt.Print(text)
	return harness.WriteResult(o.out, text)
}
