// Command table measures what clients get while nodes of a real cluster are
// degraded: one row for each scenario and way to send the searches.
//
// The ways take turns in one run, or all are sent at once, so that a disturbance hits all:
// "engine" is a client that goes round robin over all data nodes and leaves the choice
// of copies to the engine; "sidestep" is the same client before sidestep; "oracle"
// is told which nodes are bad and touches them neither as coordinating nor as data
// nodes; "control" is "engine" once more, which tells what the same differs by. Variants
// are further sidesteps with settings of their own. The turns are short and many, in an
// order drawn by lot, and each has a lead-in that counts for nothing: between its turns a
// sidestep has nothing but its polls and probes.
//
// Figures are medians of the turns. Ratios have the 95 % interval of a bootstrap over the
// rounds, and every row says what it asks and whether that holds. Every run counts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"sidestep/test/harness"
)

// options of a run.
type options struct {
	harness.Measured
	trace     string // folder of what tells why searches were slow
	scenarios []scenario
	variants  []harness.Variant
	rounds    int
	lead      time.Duration // of each turn, uncounted
	slice     time.Duration // one load in one round
	settle    time.Duration // from the fault to the first round
	back      time.Duration // from the end of the fault to the end of its watching
	pause     time.Duration // from there to the next scenario
	warm      time.Duration
	rate      float64 // searches/s
	seed      harness.Seed
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
	variants := set.String("variants", "", "further sidesteps, "+harness.VariantList)
	set.IntVar(&o.rounds, "rounds", 6, "`rounds` in which each load has one turn; where sidestep is to be near the oracle, these two have as many again")
	set.DurationVar(&o.lead, "lead", 400*time.Millisecond, "lead-in of each turn, which counts for nothing")
	set.DurationVar(&o.slice, "slice", 2500*time.Millisecond, "length of one turn: p99 of 100 searches is the second longest; some rows have longer ones")
	set.DurationVar(&o.settle, "settle", 3*time.Second, "from the fault to the first round, under load through sidestep")
	set.DurationVar(&o.back, "back", 10*time.Second, "from the end of the fault until sidestep is no longer watched")
	set.DurationVar(&o.pause, "pause", 2*time.Second, "from there to the next scenario, under the engine's load")
	set.DurationVar(&o.warm, "warm", 40*time.Second, "warm-up of the nodes")
	set.Float64Var(&o.rate, "rate", 40, "searches per second of the open loop: half of what two cores carry")
	o.seed.Flag(set)
	if err := o.Parse(set, arguments); err != nil {
		return o, err
	}
	if err := o.seed.Draw(set); err != nil {
		return o, err
	}
	o.command = harness.Command("bin/chaos", set, "sidestep", "out", "trace")
	if o.rounds < 1 || o.slice <= 0 || o.rate <= 0 || o.settle <= 0 || o.back <= 0 || o.lead < 0 {
		return o, errors.New("want at least one round, and times and rate above zero")
	}
	var err error
	if o.variants, err = harness.ParseVariants(*variants, loadEngine, loadSidestep, loadOracle, loadControl); err != nil {
		return o, err
	}
	o.scenarios, err = chooseScenarios(*names)
	return o, err
}

// estimate is about how long scenarios take, with the starts of their clusters.
func (o options) estimate(scenarios []scenario) time.Duration {
	var sum time.Duration
	for _, group := range byShape(scenarios) {
		sum += group[0].shape.takes() + o.warm + polling
		for _, sc := range group {
			sum += o.estimateOne(sc)
		}
	}
	return sum
}

func (o options) estimateOne(sc scenario) time.Duration {
	count, length := o.turns(sc)
	turns, drained := 0, 0 // of those the engine's own, which wait for last answers
	for round := range count {
		for _, load := range o.inRound(sc, round+1) {
			turns++
			if enginesOwn(load) {
				drained++
			}
		}
	}
	drains := sc.drains
	if sc.begin != nil {
		drains = max(drains, lastAnswer)
	}
	sum := time.Duration(turns)*(o.lead+length+sc.period/2) + time.Duration(drained)*drains + 2*time.Second // between the loads
	if sc.connections > 0 {                                                                                 // its lead-in waits, too
		sum += time.Duration(turns*sc.connections)*lastAnswers + time.Duration(drained)*drains
	}
	switch {
	case sc.whole != nil: // all loads at once, for as long as it takes
		return max(time.Duration(count)*(o.lead+length), sc.takes) + o.pause
	case sc.begin != nil:
		return sum + 2*o.lead + calm + o.settle + calmBack + max(o.back, sc.back) + o.pause
	default:
		return sum + sc.takes
	}
}

// lastAnswer is about how long a turn of the engine's waits for its last answer where a node
// is degraded.
const lastAnswer = 600 * time.Millisecond

// lastAnswers is about how long a turn of a closed loop and its lead-in wait for their last
// answers, for each connection.
const lastAnswers = 15 * time.Millisecond

// run measures all scenarios. What it started is gone when it returns, whatever
// ended it.
func (o options) run(ctx context.Context) error {
	further, err := o.further(ctx)
	if err != nil {
		return err
	}
	book, err := openBook(ctx, o)
	if err != nil {
		return err
	}
	defer func() { fmt.Println(book.text()) }() // also what was measured before a failure
	harness.Logf("seed %d", o.seed)
	groups := byShape(o.scenarios)
	for i, group := range groups {
		harness.Logf("%d scenarios on %d nodes; about %.0f min left", len(group), group[0].shape.dataNodes()+group[0].shape.managers,
			o.estimate(slices.Concat(groups[i:]...)).Minutes())
		if err := o.runGroup(ctx, group, further, book); err != nil {
			return err
		}
	}
	return nil
}

// runGroup measures the scenarios of one cluster.
func (o options) runGroup(ctx context.Context, group []scenario, further []harness.Sidestep, book *book) (err error) {
	s := newStage(o, group[0].shape, harness.Logf)
	defer func() { err = errors.Join(err, s.close(err != nil && ctx.Err() == nil)) }()
	if err := s.open(ctx, further); err != nil {
		return err
	}
	for i, sc := range group {
		began := time.Now()
		harness.Logf("%d of %d: %s; about %.0f s", i+1, len(group), sc.title, o.estimateOne(sc).Seconds())
		outcome, err := s.measure(ctx, sc)
		if err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
		if err := book.add(sc, outcome); err != nil {
			return err
		}
		harness.Logf("  took %.0f s", time.Since(began).Seconds())
	}
	return nil
}
