package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"sidestep/internal/sim/lab"
)

const labUsage = `sidestep-lab lab plays searches against simulated nodes in virtual time, with the
selection that sidestep runs and with what it is compared with, and prints a table
for each scenario. Nothing is sent to any cluster.

Usage:
  sidestep-lab lab [flags]

  --overload              too many searches, with and without admission; run nothing else. Takes --seeds alone
  --list                  name the scenarios and policies, run nothing
  --scenario NAME[,...]   run these scenarios only (all). May be repeated
  --policy NAME[,...]     run these policies only (all). May be repeated
  --seeds N               runs of each scenario with each policy (5)
  --poll DURATION         how often sidecars poll each node (200ms)
  --out DIR               write runs.csv, summary.csv and plots (SVG) to DIR
  --help                  print this

Tables go to stdout, progress to stderr. The same seeds bring the same figures.
Columns: searches/s answered completely; latency from the start of a search, in ms,
of all searches: one that failed was never answered (∞); failed and bad node in %, the
latter being the share of shard queries that went to bad nodes while they were bad;
avoid and return: s until a bad node got less than a quarter of its fair share for a
second, and half of it again after it recovered; largest share: of a node, as a
multiple of the mean.

Examples:
  sidestep-lab lab --scenario slow_10x --policy ars,c3_naive,oracle
  sidestep-lab lab --seeds 5 --out results
`

// runLab is the sub-command "lab".
func runLab(args []string, stdout, stderr io.Writer) int {
	o := lab.Options{Out: stdout, Progress: stderr}
	set := newFlags("lab")
	list, overload := set.Bool("list", false, ""), set.Bool("overload", false, "")
	names := func(to *[]string) func(string) error {
		return func(v string) error {
			*to = append(*to, strings.Split(v, ",")...)
			return nil
		}
	}
	set.Func("scenario", "", names(&o.Scenarios))
	set.Func("policy", "", names(&o.Policies))
	set.IntVar(&o.Seeds, "seeds", 5, "")
	set.DurationVar(&o.PollInterval, "poll", 0, "")
	set.StringVar(&o.Dir, "out", "", "")
	validate := func() error {
		if *overload && (o.Scenarios != nil || o.Policies != nil || o.PollInterval > 0 || o.Dir != "") {
			return errors.New("--overload has scenarios and policies of its own: of the other flags it takes --seeds alone")
		}
		return o.Validate()
	}
	return command{set: set, usage: labUsage, validate: validate, run: func(ctx context.Context) error {
		switch {
		case *list:
			return lab.PrintList(stdout)
		case *overload:
			return lab.Overload(ctx, o.Seeds, stdout)
		}
		_, err := lab.Run(ctx, o)
		return err
	}}.execute(args, stdout, stderr)
}
