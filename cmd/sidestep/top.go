package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"sidestep/internal/admin/client"
)

const topUsage = `sidestep top shows the nodes as a running sidestep sees them, and what it makes
of it, over and over.

Usage:
  sidestep top [flags]

  --once                print one table and end; so it is where stdout is no terminal
  --interval DURATION   how often to ask (1s)
` + adminUsage + `
Columns: state; rank (lower is better); response and service time of a shard search
in ms; queue; searches outstanding; share of the shard queries of the last minute;
searches per second; failures; seconds since the last answered poll. Below a node
that is not fine stands what spoke against it.
Keys: q quit, left and right choose the column to sort by, r reverses, up and down
scroll, p pauses. Without colours if NO_COLOR is set.

Example:
  sidestep top --admin http://10.0.0.5:9211
`

// runTop is the sub-command "top".
func runTop(args []string, stdout, stderr io.Writer) int {
	var once bool
	var interval time.Duration
	return adminCommand{
		name: "top", usage: topUsage, failure: "not reachable", timeout: adminTimeout,
		flags: func(set *flag.FlagSet) {
			set.BoolVar(&once, "once", false, "")
			set.DurationVar(&interval, "interval", time.Second, "")
		},
		run: func(ctx context.Context, r adminRun) (int, error) {
			if interval <= 0 {
				return exitUsage, errors.New("--interval must be more than 0")
			}
			if r.format == client.JSON {
				return exitOK, client.Status(ctx, r.admin, r.stdout)
			}
			out, isFile := stdout.(*os.File)
			if once || !isFile || !term.IsTerminal(int(out.Fd())) || !term.IsTerminal(int(os.Stdin.Fd())) {
				return exitOK, client.TopOnce(ctx, r.admin, r.stdout, interval)
			}
			return exitOK, client.Top(ctx, r.admin, client.TopOptions{Interval: interval, Input: os.Stdin, Output: out})
		},
	}.execute(args, stdout, stderr)
}
