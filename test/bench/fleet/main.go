// Command fleet measures what a fleet of sidecars asks a cluster: with a relay, and
// each for itself. Sidecars are what the product runs, without listeners; the cluster
// is simulated, a thousand nodes that change while it is measured; all of it is one
// process without a network.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
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
	o := options{relayed: sizes{1, 10, 100, 500}, alone: sizes{1, 3, 10}}
	flag.IntVar(&o.nodes, "nodes", 1000, "nodes of the cluster")
	flag.IntVar(&o.indices, "indices", 200, "indices of five shards and one replica")
	flag.Var(&o.relayed, "relayed", "`sizes` of fleets with a relay")
	flag.Var(&o.alone, "alone", "`sizes` of fleets without")
	flag.DurationVar(&o.warmup, "warmup", 10*time.Second, "before a measurement, when all are ready to steer")
	flag.DurationVar(&o.window, "window", 20*time.Second, "length of a measurement")
	flag.StringVar(&o.out, "out", "test/bench/results/fleet.md", "result `file`")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}
