package main

import (
	"context"
	"errors"
	"flag"
	"io"

	"sidestep/internal/admin/client"
)

const explainUsage = `sidestep explain tells what a running sidestep would do with a search, and why: the
copies of each shard, their ranks with the parts, and which are chosen. Nothing is
sent to the cluster, but a target that is new to sidestep is looked up. With --bulk it
tells the same of a bulk: whether it would be kept on one shard, and on which.

Usage:
  sidestep explain TARGET [flags]

  TARGET is what stands in the path of the search: an index, an alias, a wildcard,
  a list.

  --routing VALUE       the search's routing
  --bulk                TARGET is an index that a bulk writes to
` + adminUsage + `
Example:
  sidestep explain 'logs-*' --routing customer-7
`

// runExplain is the sub-command "explain".
func runExplain(args []string, stdout, stderr io.Writer) int {
	var routing string
	var bulk bool
	return adminCommand{
		name: "explain", usage: explainUsage, failure: "not reachable", timeout: adminTimeout,
		least: 1, most: 1, argument: "a target is missing, such as an index or 'logs-*'",
		flags: func(set *flag.FlagSet) {
			set.StringVar(&routing, "routing", "", "")
			set.BoolVar(&bulk, "bulk", false, "")
		},
		run: func(ctx context.Context, r adminRun) (int, error) {
			if bulk && routing != "" {
				return exitUsage, errors.New("--bulk and --routing do not go together")
			}
			return exitOK, client.Explain(ctx, r.admin, r.stdout, r.format, client.Question{Target: r.args[0], Routing: routing, Bulk: bulk})
		},
	}.execute(args, stdout, stderr)
}
