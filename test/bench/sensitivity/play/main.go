// Command play plays the catalogue of the lab and random scenarios with the selection that it is
// built with, and prints what came of them as JSON. The command sensitivity builds and runs it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"sidestep/internal/sim/lab"
	"sidestep/test/bench/sensitivity/outcome"
)

// policy is what sidestep runs.
const policy = "sidestep/adaptive"

// garbage is how much memory may be used up, in percent of what is needed, before it is
// collected: what is simulated is small and short-lived.
const garbage = 400

func main() {
	var (
		rows   = flag.String("rows", "", "`names` of rows of the catalogue, with commas (all)")
		seeds  = flag.Int("seeds", 2, "runs of each row")
		skip   = flag.Int("skip", 0, "seeds that are left out before the first")
		random = flag.Int("random", 0, "random scenarios")
		seed   = flag.Uint64("seed", 1, "of the random scenarios")
		alone  = flag.Bool("alone", false, "play random scenarios with sidestep alone, without the engine")
	)
	flag.Parse()
	debug.SetGCPercent(garbage)
	out := outcome.Outcome{Rows: map[string]*outcome.Row{}}
	err := catalogue(&out, *rows, *seeds, *skip)
	if err == nil && *random > 0 {
		err = sweep(&out, lab.SweepOptions{N: *random, Seed: *seed, Alone: *alone, Workers: runtime.GOMAXPROCS(0)})
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "play:", err)
		os.Exit(1)
	}
}

// catalogue plays rows of the catalogue.
func catalogue(out *outcome.Outcome, names string, seeds, skip int) error {
	o := lab.Options{Policies: []string{policy}, Seeds: seeds, Skip: skip, Out: io.Discard, Progress: io.Discard}
	if names != "" {
		o.Scenarios = strings.Split(names, ",")
	}
	rows, err := lab.Run(context.Background(), o)
	if err != nil {
		return fmt.Errorf("play the catalogue: %w", err)
	}
	for i := range rows {
		row := &outcome.Row{}
		for _, n := range rows[i].Runs {
			row.P99 = append(row.P99, math.Min(outcome.Never, n.P99))
			row.Failed = append(row.Failed, n.Failed)
		}
		out.Rows[rows[i].Scenario] = row
	}
	return nil
}

// sweep plays random scenarios.
func sweep(out *outcome.Outcome, o lab.SweepOptions) error {
	o.Lines, o.Out, o.Progress = io.Discard, io.Discard, io.Discard
	played, err := lab.Sweep(context.Background(), o)
	if err != nil {
		return fmt.Errorf("play random scenarios: %w", err)
	}
	for i := range played {
		p := &played[i]
		out.Random = append(out.Random, outcome.Scenario{
			P99: p.P99.Sidestep, EngineP99: p.P99.Engine, Failed: p.Failed.Sidestep,
			Attempts: p.Attempts.Sidestep, Ejected: p.Ejected,
		})
	}
	return nil
}
