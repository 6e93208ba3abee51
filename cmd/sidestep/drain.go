package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"sidestep/internal/admin/client"
	"sidestep/internal/config"
)

// drainLength is for how long a node is drained if nobody says, drainLongest the most.
const (
	drainLength  = 10 * time.Minute
	drainLongest = 24 * time.Hour
)

const drainUsage = `sidestep drain tells a running sidestep that a node is about to leave or to restart: it
is given no new searches while every shard keeps another copy, and coordinates nothing.
What is in flight there finishes. That ends when the node has restarted, or with its time.

Usage:
  sidestep drain NODE [flags]

  NODE is the name or the id of the node.

  --for DURATION        for how long at most, up to 24h; 0s: no longer (10m)
  --token-file FILE     the token of the admin listener (admin.token_file), if it has one
` + adminUsage + `
Example:
  sidestep drain node-3 --for 5m && sleep 30 && systemctl restart elasticsearch
`

// runDrain is the sub-command "drain".
func runDrain(args []string, stdout, stderr io.Writer) int {
	length, tokenFile := drainLength, ""
	return adminCommand{
		name: "drain", usage: drainUsage, failure: "not done", timeout: adminTimeout,
		least: 1, most: 1, argument: "a node is missing: sidestep top lists them",
		flags: func(set *flag.FlagSet) {
			set.DurationVar(&length, "for", length, "")
			set.StringVar(&tokenFile, "token-file", "", "")
		},
		run: func(ctx context.Context, r adminRun) (int, error) {
			if length < 0 || length > drainLongest {
				return exitUsage, errors.New("--for must be from 0s to 24h")
			}
			token := ""
			if tokenFile != "" {
				var err error
				if token, err = config.ReadSecret(tokenFile); err != nil {
					return exitUsage, fmt.Errorf("--token-file: %w", err)
				}
			}
			return exitOK, client.Drain(ctx, r.admin, r.stdout, r.format, client.Draining{Node: r.args[0], Length: length, Token: token})
		},
	}.execute(args, stdout, stderr)
}
