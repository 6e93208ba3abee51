package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"sidestep/internal/sim/demo"
)

const demoUsage = `sidestep-lab demo compares round robin, the engine's own selection and sidestep on a
simulated cluster with a slow node, and prints a table.

Usage:
  sidestep-lab demo [flags]

  --duration DURATION   how long each of the three is under load (10s)
  --rate SEARCHES       searches per second (150)
  --verbose             show sidestep's log
  --help                print this
`

// runDemo is the sub-command "demo".
func runDemo(args []string, stdout, stderr io.Writer) int {
	o := demo.Options{Out: stdout, Version: buildVersion()}
	set := newFlags("demo")
	set.DurationVar(&o.Duration, "duration", 10*time.Second, "")
	set.Float64Var(&o.Rate, "rate", 150, "")
	verbose := set.Bool("verbose", false, "")
	validate := func() error {
		if o.Duration <= 0 || o.Rate <= 0 {
			return errors.New("--duration and --rate must be more than 0")
		}
		return nil
	}
	return command{set: set, usage: demoUsage, validate: validate, run: func(ctx context.Context) error {
		if *verbose {
			o.Logger = slog.New(slog.NewTextHandler(stderr, nil))
		}
		return demo.Run(ctx, o)
	}}.execute(args, stdout, stderr)
}
