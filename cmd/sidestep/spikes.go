package main

import (
	"context"
	"io"

	"sidestep/internal/admin/client"
)

const spikesUsage = `sidestep spikes lists what a running sidestep has on record of nodes that were slow,
busy, failing or silent; with an ID it shows one record: the cause, what speaks for it,
and how it went.

Usage:
  sidestep spikes [ID] [flags]

` + adminUsage + `
Example:
  sidestep spikes --output json
`

// runSpikes is the sub-command "spikes".
func runSpikes(args []string, stdout, stderr io.Writer) int {
	return adminCommand{
		name: "spikes", usage: spikesUsage, failure: "no such spike, or not reachable", timeout: adminTimeout, most: 1,
		run: func(ctx context.Context, r adminRun) (int, error) {
			if len(r.args) == 0 {
				return exitOK, client.Spikes(ctx, r.admin, r.stdout, r.format)
			}
			return exitOK, client.Spike(ctx, r.admin, r.stdout, r.format, r.args[0])
		},
	}.execute(args, stdout, stderr)
}
