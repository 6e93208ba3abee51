package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"sidestep/internal/sim/lab"
)

// garbage is how much memory may be used up, in percent of what is needed, before it is
// collected: a world is small and short-lived.
const garbage = 400

const randomUsage = `sidestep-lab random plays scenarios drawn by lot in virtual time: each with the engine
alone, with sidestep, and with an oracle that knows which nodes are bad and when. It
writes a JSON object a line and prints a summary. Nothing is sent to any cluster.

Usage:
  sidestep-lab random [flags]

  --n N          scenarios (500)
  --seed SEED    of the sweep (1)
  --only SEED    play the one scenario of this seed, as it stands in a line
  --control      play the engine against itself, with other choices of its own
  --workers N    scenarios at a time (the number of CPUs)
  --skip N       leave the first N scenarios out, to play a sweep in pieces
  --read FILE    play nothing: summarize the lines of FILE
  --out FILE     write the lines to FILE (stdout, and the summary to stderr)
  --plot FILE    draw the ratios of p99 as cumulative curves (SVG)
  --help         print this

The same seed brings the same lines. p50 and p99 are in ms, of all requests: one that
failed counts with the 30 s after which clients give up.
`

// runRandom is the sub-command "random".
func runRandom(args []string, stdout, stderr io.Writer) int {
	o := lab.SweepOptions{Lines: stdout, Out: stderr, Progress: stderr}
	set := newFlags("random")
	set.IntVar(&o.N, "n", 500, "")
	set.Uint64Var(&o.Seed, "seed", 1, "")
	set.Uint64Var(&o.Only, "only", 0, "")
	set.BoolVar(&o.Control, "control", false, "")
	set.IntVar(&o.Workers, "workers", 0, "")
	set.StringVar(&o.Plot, "plot", "", "")
	set.IntVar(&o.Skip, "skip", 0, "")
	read := set.String("read", "", "")
	file := set.String("out", "", "")
	validate := func() error { return o.Validate() } //nolint:gocritic // unlambda: o.Validate would be that of the flags before they are read
	return command{set: set, usage: randomUsage, validate: validate, run: func(ctx context.Context) error {
		if *read != "" {
			return summarize(o, *read, stdout)
		}
		return sweep(ctx, o, *file, stdout)
	}}.execute(args, stdout, stderr)
}

// summarize prints the summary of the lines of a file.
func summarize(o lab.SweepOptions, file string, stdout io.Writer) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("read lines: %w", err)
	}
	defer f.Close()
	o.Out = stdout
	return lab.Summarize(f, o)
}

// sweep plays the scenarios; the lines go to the file, if one is named.
func sweep(ctx context.Context, o lab.SweepOptions, file string, stdout io.Writer) (err error) {
	debug.SetGCPercent(garbage)
	if file != "" {
		f, cerr := os.Create(file)
		if cerr != nil {
			return fmt.Errorf("write the lines: %w", cerr)
		}
		defer func() {
			if cerr := f.Close(); err == nil && cerr != nil {
				err = fmt.Errorf("write the lines: %w", cerr)
			}
		}()
		o.Lines, o.Out = f, stdout
	}
	_, err = lab.Sweep(ctx, o)
	return err
}
