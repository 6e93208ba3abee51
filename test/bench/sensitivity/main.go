// Command sensitivity finds out what each constant and each rule of internal/selection is good
// for: it plays the lab with every constant halved and doubled, and with every rule switched off,
// and writes down what moved. The tree is not changed: what is built differs by an overlay.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"sidestep/test/harness"
)

// options of a measurement.
type options struct {
	rows            string
	seeds, random   int
	seed            uint64
	only            string
	goOn            bool
	state, out, dir string
	command, commit string
}

func main() {
	harness.Main("sensitivity", func(arguments []string) (harness.Run, error) {
		o := options{dir: "internal/selection"}
		set := flag.NewFlagSet("sensitivity", flag.ContinueOnError)
		set.StringVar(&o.rows, "rows", "", "`names` of rows of the catalogue, with commas (all)")
		set.IntVar(&o.seeds, "seeds", 2, "runs of each row of the catalogue")
		set.IntVar(&o.random, "random", 6, "random scenarios")
		set.Uint64Var(&o.seed, "seed", 1, "of the random scenarios")
		set.StringVar(&o.only, "only", "", "`names` of constants or rules, with commas, or constants, or rules (all)")
		set.BoolVar(&o.goOn, "continue", false, "keep what an earlier run with the same flags has measured")
		set.StringVar(&o.state, "state", ".cache/sensitivity.jsonl", "`file` of what is measured, for -continue")
		set.StringVar(&o.out, "out", "test/bench/results/sensitivity.md", "result `file`")
		err := set.Parse(arguments)
		o.command = harness.Command("bin/sensitivity", set, "continue", "state", "out")
		return func(ctx context.Context) error { return run(ctx, o) }, err
	})
}

// run measures all changes, one at a time, and writes the table.
func run(ctx context.Context, o options) error {
	changes, err := collect(o.dir)
	if err != nil {
		return err
	}
	if changes, err = choose(changes, o.only); err != nil {
		return err
	}
	if o.commit, err = commit(ctx); err != nil {
		return err
	}
	if o.goOn && strings.HasSuffix(o.commit, dirty) {
		return errors.New("-continue needs a tree without changes that are not committed: what was measured before may be of others")
	}
	b, err := newBench(o)
	if err != nil {
		return err
	}
	defer b.close()
	before, err := b.measure(ctx, change{Name: unchanged}, playing{})
	if err != nil {
		return err
	}
	control, err := b.measure(ctx, change{Name: otherSeeds}, playing{skip: o.seeds})
	if err != nil {
		return err
	}
	r := report{options: o, before: before.Outcome, control: control.Outcome}
	for i := range changes {
		m, err := b.measure(ctx, changes[i], playing{alone: true})
		if err != nil {
			return err
		}
		r.lines = append(r.lines, m)
		harness.Logf("%d of %d: %s: %s", i+1, len(changes), changes[i], r.summary(m))
	}
	return harness.WriteResult(o.out, r.render())
}

// choose keeps the changes of which only names one; all if it is empty.
func choose(changes []change, only string) ([]change, error) {
	if only == "" {
		return changes, nil
	}
	var kept []change
	for name := range strings.SplitSeq(only, ",") {
		before := len(kept)
		for i := range changes {
			if changes[i].named(name) {
				kept = append(kept, changes[i])
			}
		}
		if len(kept) == before {
			return nil, fmt.Errorf("no constant and no rule is called %q", name)
		}
	}
	return kept, nil
}
