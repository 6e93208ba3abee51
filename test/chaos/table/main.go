// Command table measures what clients get while nodes of a real cluster are
// degraded: one row for each scenario and way to send the searches.
//
// The ways take turns in one run, or all are sent at once, so that a disturbance hits all:
// "engine" is a client that goes round robin over all nodes and leaves the choice
// of copies to the engine; "sidestep" is the same client before sidestep; "oracle"
// is told which nodes are bad and touches them neither as coordinating nor as data
// nodes. Variants are further sidesteps with routings of their own. Who begins changes
// from round to round, and each turn has a lead-in that counts for nothing: between
// its turns a sidestep has nothing but its polls and probes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"sidestep/test/harness"
)

// options of a run.
type options struct {
	harness.Measured
	trace     string // folder of what tells why searches were slow
	scenarios []scenario
	variants  []variant
	rounds    int
	lead      time.Duration // of each turn, uncounted
	slice     time.Duration // one load in one round
	settle    time.Duration // from the fault to the first round
	back      time.Duration // from the end of the fault to the end of its watching
	pause     time.Duration // from there to the next scenario
	warm      time.Duration
	rate      float64 // searches/s
	command   string
}

func main() {
	harness.Main("table", func(arguments []string) (harness.Run, error) {
		o, err := parse(arguments)
		return o.run, err
	})
}

func parse(arguments []string) (options, error) {
	var o options
	set := flag.NewFlagSet("table", flag.ContinueOnError)
	o.Flags(set)
	o.ResultFlags(set)
	names := set.String("scenarios", "", "comma `list` of the rows to measure, the others are kept (default: all)\n"+strings.Join(scenarioNames(), " "))
	set.StringVar(&o.trace, "trace", ".cache/chaos", "`folder` of the slowest searches and of the logs of sidestep")
	variants := set.String("variants", "", "comma `list` of further sidesteps to measure, each of settings of its section routing:\n"+
		"always/only_nodes,always/prefer_nodes,outlier/only_nodes,outlier/prefer_nodes,policy:prequal,calm=policy:c3/hedge_budget:0")
	set.IntVar(&o.rounds, "rounds", 4, "`rounds` in which each load has one turn")
	set.DurationVar(&o.lead, "lead", time.Second, "lead-in of each turn, which counts for nothing")
	set.DurationVar(&o.slice, "slice", 7500*time.Millisecond, "length of one turn")
	set.DurationVar(&o.settle, "settle", 4*time.Second, "from the fault to the first round, under load through sidestep")
	set.DurationVar(&o.back, "back", 12*time.Second, "from the end of the fault until sidestep is no longer watched")
	set.DurationVar(&o.pause, "pause", 3*time.Second, "from there to the next scenario, under the engine's load")
	set.DurationVar(&o.warm, "warm", 45*time.Second, "warm-up of the nodes")
	set.Float64Var(&o.rate, "rate", 40, "searches per second of the open loop: half of what two cores carry")
	if err := o.Parse(set, arguments); err != nil {
		return o, err
	}
	o.command = harness.Command("bin/chaos", set, "sidestep", "out", "trace")
	if o.rounds < 1 || o.slice <= 0 || o.rate <= 0 || o.settle <= 0 || o.back <= 0 || o.lead < 0 {
		return o, errors.New("want at least one round, and times and rate above zero")
	}
	var err error
	if o.variants, err = parseVariants(*variants); err != nil {
		return o, err
	}
	o.scenarios, err = chooseScenarios(*names)
	return o, err
}

// startTime is about what a cluster and its index take, without the warm-up.
const startTime = 80 * time.Second

// estimate is about how long scenarios take.
func (o options) estimate(scenarios []scenario) time.Duration {
	var sum time.Duration
	turns := time.Duration(o.rounds) * (o.lead + o.slice)
	for _, sc := range scenarios {
		rounds := turns * time.Duration(3+len(o.variants))
		switch {
		case sc.whole != nil:
			sum += max(rounds, sc.takes)
		case sc.begin != nil:
			sum += rounds + 2*o.lead + calm + o.settle + calmBack + max(o.back, sc.back) + o.pause + time.Duration(o.rounds)*sc.takes
		default:
			sum += rounds
		}
		sum += 2 * time.Second // between the loads
	}
	return sum
}

// run measures all scenarios. What it started is gone when it returns, whatever
// ended it.
func (o options) run(ctx context.Context) (err error) {
	if err := o.checkVariants(ctx); err != nil {
		return err
	}
	book, err := openBook(ctx, o)
	if err != nil {
		return err
	}
	harness.Logf("%d scenarios, %d loads: about %.0f min", len(o.scenarios), 3+len(o.variants), (startTime + o.warm + o.estimate(o.scenarios)).Minutes())
	s := newStage(o, harness.Logf)
	defer func() { s.close(err != nil && ctx.Err() == nil) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	defer func() { fmt.Println(book.text()) }() // also what was measured before a failure
	for i, sc := range o.scenarios {
		harness.Logf("%d of %d: %s; about %.0f min left", i+1, len(o.scenarios), sc.title, o.estimate(o.scenarios[i:]).Minutes())
		outcome, err := s.measure(ctx, sc)
		if err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
		if err := book.add(sc, outcome); err != nil {
			return err
		}
	}
	return nil
}
