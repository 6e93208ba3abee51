package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"syscall"
)

// command is a sub-command whose flags are in set.
type command struct {
	set   *flag.FlagSet
	usage string
	// validate says what is wrong with the flags.
	validate func() error
	run      func(context.Context) error
}

// newFlags returns the set of a sub-command's flags. Their usage is written by hand.
func newFlags(name string) *flag.FlagSet {
	set := flag.NewFlagSet("sidestep-lab "+name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	return set
}

// execute parses the arguments, runs the command until it ends or a signal comes, and
// returns the exit code.
func (c command) execute(args []string, stdout, stderr io.Writer) int {
	err := c.set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, c.usage)
		return exitOK
	case err == nil && c.set.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", c.set.Arg(0))
	case err == nil:
		err = c.validate()
	}
	if err != nil {
		fmt.Fprintf(stderr, "%[1]s: %[2]v\n%[1]s --help lists the flags.\n", c.set.Name(), err)
		return exitUsage
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if err := c.run(ctx); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", c.set.Name(), err)
		return exitFailure
	}
	return exitOK
}
