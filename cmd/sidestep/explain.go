package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"sidestep/internal/terminal"
)

const explainUsage = `sidestep explain tells what a running sidestep would do with a search, and why: the
copies of each shard, their ranks with the parts, and which are chosen. Nothing is
sent to the cluster, but a target that is new to sidestep is looked up.

Usage:
  sidestep explain TARGET [flags]

  TARGET is what stands in the path of the search: an index, an alias, a wildcard,
  a list.

  --routing VALUE       the search's routing
` + adminUsage + `
Example:
  sidestep explain 'logs-*' --routing customer-7
`

// runExplain is the sub-command "explain".
func runExplain(args []string, stdout, stderr io.Writer) int {
	var routing string
	return adminCommand{
		name: "explain", usage: fmt.Sprintf(explainUsage, "5s", "not reachable"), timeout: 5 * time.Second,
		least: 1, most: 1, argument: "a target is missing, such as an index or 'logs-*'",
		flags: func(set *flag.FlagSet) { set.StringVar(&routing, "routing", "", "") },
		run: func(ctx context.Context, r adminRun) (int, error) {
			return exitOK, terminal.Explain(ctx, r.client, stdout, r.format, terminal.Question{Target: r.args[0], Routing: routing})
		},
	}.execute(args, stdout, stderr)
}
