package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"
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
	set := flag.NewFlagSet("sidestep-lab demo", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.DurationVar(&o.Duration, "duration", 10*time.Second, "")
	set.Float64Var(&o.Rate, "rate", 150, "")
	verbose := set.Bool("verbose", false, "")
	err := set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, demoUsage)
		return exitOK
	case err == nil && set.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", set.Arg(0))
	case err == nil && (o.Duration <= 0 || o.Rate <= 0):
		err = errors.New("--duration and --rate must be more than 0")
	}
	if err != nil {
		fmt.Fprintf(stderr, "sidestep-lab demo: %v\nsidestep-lab demo --help lists the flags.\n", err)
		return exitUsage
	}
	if *verbose {
		o.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if err := demo.Run(ctx, o); err != nil {
		fmt.Fprintf(stderr, "sidestep-lab demo: %v\n", err)
		return exitFailure
	}
	return exitOK
}
