// Command fleet measures what a fleet of sidecars asks a cluster: with a relay, and
// each for itself. Sidecars are what the product runs, without listeners; the cluster
// is simulated, a thousand nodes that change while it is measured; all of it is one
// process without a network.
package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sidestep/test/harness"
)

// options of a measurement.
type options struct {
	nodes, indices int
	relayed, alone sizes
	warmup, window time.Duration
	out            string
}

// sizes of fleets, a flag.
type sizes []int

// String implements flag.Value.
func (s *sizes) String() string { return strings.Trim(fmt.Sprint(*s), "[]") }

// Set implements flag.Value.
func (s *sizes) Set(text string) error {
	*s = nil
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a number of sidecars", field)
		}
		*s = append(*s, n)
	}
	return nil
}

func main() {
	harness.Main("fleet", func(arguments []string) (harness.Run, error) {
		o := options{relayed: sizes{1, 10, 100, 500}, alone: sizes{1, 3, 10}}
		set := flag.NewFlagSet("fleet", flag.ContinueOnError)
		set.IntVar(&o.nodes, "nodes", 1000, "nodes of the cluster")
		set.IntVar(&o.indices, "indices", 200, "indices of five shards and one replica")
		set.Var(&o.relayed, "relayed", "`sizes` of fleets with a relay")
		set.Var(&o.alone, "alone", "`sizes` of fleets without")
		set.DurationVar(&o.warmup, "warmup", 10*time.Second, "before a measurement, when all are ready to steer")
		set.DurationVar(&o.window, "window", 20*time.Second, "length of a measurement")
		set.StringVar(&o.out, "out", "test/bench/results/fleet.md", "result `file`")
		return func(ctx context.Context) error { return run(ctx, o) }, set.Parse(arguments)
	})
}
