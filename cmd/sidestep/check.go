package main

import (
	"context"
	"io"
	"time"

	"sidestep/internal/admin/client"
)

const checkUsage = `sidestep check has a running sidestep look at its cluster, and prints what it finds:
can the cluster be reached, at which addresses; what does sidestep's account lack;
versions, roles, zones, clocks; settings of the engine that matter; and how much of
what passes is steered, or would be, and why not the rest. It changes nothing.

Usage:
  sidestep check [flags]

` + adminUsage + `
Findings are ok, note (worth knowing) or problem (with what to do about it).

Example:
  sidestep check && echo fit
`

// runCheck is the sub-command "check".
func runCheck(args []string, stdout, stderr io.Writer) int {
	return adminCommand{
		name: "check", usage: checkUsage, failure: "a problem, or sidestep is not reachable", timeout: 30 * time.Second,
		run: func(ctx context.Context, r adminRun) (int, error) {
			problem, err := client.Check(ctx, r.admin, r.stdout, r.format)
			if problem {
				return exitFailure, err
			}
			return exitOK, err
		},
	}.execute(args, stdout, stderr)
}
