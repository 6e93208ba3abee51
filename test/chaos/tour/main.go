// Command tour degrades the nodes of a real cluster in five ways, one after the other
// and under load, and shows that everything an operator looks at names the node and the
// cause: `make tour`. With -calm it does nothing to the cluster and shows that nothing is
// named: `make calm`.
package main

import (
	"context"
	"errors"
	"flag"
	"path/filepath"
	"strings"
	"time"

	"sidestep/test/chaos"
	"sidestep/test/harness"
)

// options of a tour.
type options struct {
	harness.Measured
	faults      []chaos.Fault
	rate        float64
	warm, limit time.Duration
	lasts       time.Duration
	calm        time.Duration
	keep        bool
}

// errWrong is the end of a tour that was not as it should be; what was wrong is told.
var errWrong = errors.New("not everything was named rightly, or in time")

func main() { harness.Main("tour", parse) }

func parse(arguments []string) (harness.Run, error) {
	var o options
	set := flag.NewFlagSet("tour", flag.ContinueOnError)
	o.Flags(set)
	names := set.String("faults", "", "comma `list` of cpu, pause, merge, transport, queue (default: all)")
	set.Float64Var(&o.rate, "rate", 20, "searches per second through sidestep, and as many directly")
	set.DurationVar(&o.warm, "warm", 45*time.Second, "warm-up of the nodes")
	set.DurationVar(&o.limit, "limit", 5*time.Second, "within which node and cause are to be named")
	set.DurationVar(&o.lasts, "lasts", 12*time.Second, "how long each fault lasts")
	set.DurationVar(&o.calm, "calm", 0, "degrade nothing for so long, and count the records of trouble there are all the same")
	set.BoolVar(&o.keep, "keep", false, "leave everything running at the end, to look around, until Ctrl-C")
	if err := o.Parse(set, arguments); err != nil {
		return nil, err
	}
	if o.rate <= 0 || o.limit <= 0 || o.calm < 0 {
		return nil, errors.New("want rate and times above zero")
	}
	var err error
	o.faults, err = chaos.Choose(*names)
	return o.run, err
}

// usual is for how long the cluster is left alone before the first fault.
const usual = 30 * time.Second

// run goes through it. What it started is gone when it returns.
func (o options) run(ctx context.Context) (err error) {
	s := &chaos.Stage{Logf: harness.Sayf}
	defer func() { err = errors.Join(err, s.Close(err != nil && ctx.Err() == nil && !errors.Is(err, errWrong))) }()
	if err := s.Start(ctx, chaos.StageOptions(o.Engine, o.Version, o.warm, harness.Sayf)); err != nil {
		return err
	}
	if o.calm > 0 {
		return o.watchCalm(ctx, s)
	}
	if err := s.Confine(ctx); err != nil {
		return err
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	desk, err := chaos.OpenDesk(ctx, s, root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, desk.Close()) }()
	harness.Sayf("Open in a browser:\n\n    the web page   %s/\n    Prometheus     %s/\n\n  and in a terminal: bin/sidestep top --admin %s\n",
		s.Sidestep.AdminURL, desk.Prometheus.URL, s.Sidestep.AdminURL)
	err = o.visit(ctx, s, desk)
	if o.keep && (err == nil || errors.Is(err, errWrong)) {
		harness.Sayf("Everything stays until Ctrl-C.")
		load := chaos.StartLoad(ctx, o.rate, s.Sidestep.URL)
		<-ctx.Done()
		_, failure := load.End()
		err = errors.Join(err, failure)
	}
	return err
}

// visit goes through the faults.
func (o options) visit(ctx context.Context, s *chaos.Stage, desk *chaos.Desk) error {
	harness.Sayf("%s of load first: what is unusual is told from what is usual.", usual)
	if _, _, err := s.Calm(ctx, o.rate, usual); err != nil {
		return err
	}
	var wrong []string
	for i, fault := range o.faults {
		harness.Sayf("%d of %d: %s.", i+1, len(o.faults), fault.Title)
		t, err := s.Try(ctx, fault, chaos.Plan{
			Surfaces: desk.Surfaces, Limit: o.limit, Wait: 3 * o.limit, Lasts: o.lasts, Rate: o.rate, Direct: true,
		})
		if err != nil {
			return err
		}
		harness.Sayf("%s, on %s. All nodes are fine again.\n%s", fault.Title, t.Node, t)
		for _, text := range t.Wrong() {
			wrong = append(wrong, fault.Name+": "+text)
		}
	}
	if len(wrong) > 0 {
		harness.Sayf("Wrong:\n  %s", strings.Join(wrong, "\n  "))
		return errWrong
	}
	harness.Sayf("Everything named the node and the cause within %s, %d times.", o.limit, len(o.faults))
	return nil
}

// watchCalm does nothing to the cluster: its nodes have all the CPU there is, and no
// browser takes it from them.
func (o options) watchCalm(ctx context.Context, s *chaos.Stage) error {
	harness.Sayf("Nothing is done to the cluster for %s, at %g searches/s.", o.calm, o.rate)
	made, result, err := s.Calm(ctx, o.rate, o.calm)
	if err != nil {
		return err
	}
	harness.Sayf("%d searches: p50 %s, p99 %s, failed %d, partial %d; records of trouble: %d %v", result.Sent,
		result.Quantile(0.5), result.Quantile(0.99), result.Failed, result.Partial, len(made), made)
	if len(made) > 0 || result.Failed+result.Partial > 0 {
		return errWrong
	}
	return nil
}
