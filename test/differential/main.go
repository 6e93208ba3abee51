// Command differential sends the same requests to a node of a real cluster and
// through sidestep, and compares what comes back: status, headers and body. The
// requests are drawn by lot from a grammar of what clients send, and of what they
// should not; the same seed draws the same requests. A second part does so while
// the cluster changes (see churn.go), a third with bulks that sidestep keeps on one
// shard (see bulks.go).
//
//	go run ./test/differential -engine elasticsearch -count 20000
//	go run ./test/differential -seed 1 -only 4711
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"time"

	"sidestep/test/harness"
)

type options struct {
	harness.Measured
	count, churn, bulks uint64
	seed, only          uint64
	onlySet             bool
	command             string // without what each part has of its own
}

func main() {
	harness.Main("differential", func(arguments []string) (harness.Run, error) {
		var o options
		set := flag.NewFlagSet("differential", flag.ContinueOnError)
		o.Flags(set)
		set.StringVar(&o.Out, "out", filepath.Join("test", "bench", "results"), "folder for the reports, differential-ENGINE.md, differential-churn-ENGINE.md and differential-bulk-ENGINE.md")
		set.Uint64Var(&o.count, "count", 20_000, "requests to compare")
		set.Uint64Var(&o.churn, "churn", 2000, "requests to judge while the cluster changes")
		set.Uint64Var(&o.bulks, "bulks", 2000, "bulks to compare that sidestep keeps on one shard")
		set.Uint64Var(&o.seed, "seed", 1, "seed of the lots")
		set.Uint64Var(&o.only, "only", 0, "compare the conversation of this number alone")
		err := o.Parse(set, arguments)
		o.command = harness.Command("go run ./test/differential", set, "out", "count", "churn", "bulks")
		set.Visit(func(f *flag.Flag) { o.onlySet = o.onlySet || f.Name == "only" })
		return o.run, err
	})
}

func (o options) run(ctx context.Context) (err error) {
	s, err := openStage(ctx, o.Engine, o.Version, harness.Sayf)
	defer func() { err = errors.Join(err, s.close(err != nil)) }()
	if err != nil {
		return err
	}
	if o.onlySet {
		return s.showOnly(ctx, o)
	}
	var differs, worse, lost error
	if o.count > 0 {
		if differs, err = s.quiet(ctx, o); err != nil {
			return err
		}
	}
	if o.churn > 0 {
		if worse, err = s.changing(ctx, o); err != nil {
			return err
		}
	}
	if o.bulks > 0 {
		if lost, err = s.kept(ctx, o); err != nil {
			return err
		}
	}
	return errors.Join(differs, worse, lost)
}

// quiet compares while nothing changes, and writes the report. differs says that
// something does.
func (s *stage) quiet(ctx context.Context, o options) (differs, err error) {
	began := time.Now()
	t, err := s.compareAll(ctx, o.seed, o.count, harness.Sayf)
	if err != nil {
		return nil, err
	}
	harness.Sayf("%d requests in %.0f s: %d differ, %d vary", t.requests, time.Since(began).Seconds(), t.differences, t.varied)
	return t.err(), harness.WriteResult(filepath.Join(o.Out, "differential-"+o.Engine+".md"), report(o, s.Cluster.Version, t))
}

// changing compares while the cluster changes, and writes the report.
func (s *stage) changing(ctx context.Context, o options) (worse, err error) {
	c, err := s.churn(ctx, o.seed, o.churn, harness.Sayf)
	if err != nil {
		return nil, err
	}
	harness.Sayf("%s", c)
	return c.err(), harness.WriteResult(filepath.Join(o.Out, "differential-churn-"+o.Engine+".md"), c.report(o, s.Cluster.Version))
}

// kept compares bulks that are kept on one shard, and writes the report.
func (s *stage) kept(ctx context.Context, o options) (lost, err error) {
	began := time.Now()
	r, err := s.writeBulks(ctx, o.seed, o.bulks, harness.Sayf)
	if err != nil {
		return nil, err
	}
	harness.Sayf("in %.0f s: %s", time.Since(began).Seconds(), r)
	return r.err(), harness.WriteResult(filepath.Join(o.Out, "differential-bulk-"+o.Engine+".md"), r.report(o, s.Cluster.Version))
}

// showOnly has one conversation and shows it.
func (s *stage) showOnly(ctx context.Context, o options) error {
	c := generate(o.seed, o.only, o.Engine, false)
	fmt.Print(c)
	v := s.compare(ctx, c)
	for i := range c.steps {
		for name, a := range map[string]answer{"directly": v.direct[i], "through": v.through[i]} {
			fmt.Printf("step %d %s: %d %v %v %.2000q %s\n", i+1, name, a.status, a.header, a.err, a.body, a.decision)
		}
	}
	if v.how != "" {
		return fmt.Errorf("different: %s", v)
	}
	fmt.Println("the same")
	return nil
}

// err is an error if something differs.
func (t *tally) err() error {
	if t.differences > 0 {
		return fmt.Errorf("%d of %d requests are answered differently", t.differences, t.requests)
	}
	return nil
}
