// Command bulk measures what writers get: bulks to a real cluster of three nodes, of
// which one is degraded in most cases.
//
// The ways to send them take turns in one run, in an order drawn by lot: "direct" is a
// client that goes round robin over all nodes; "engine" is the same on an index that
// lets OpenSearch choose the shard of a bulk; "even" is the client before a sidestep
// that sends each bulk to one shard, whichever; "aware" before one that avoids slow
// shards; "control" is "direct" once more, which tells what the same differs by. Each
// has an index of its own, and all indices have the same layout: the node that is
// degraded holds only primaries, or only replicas, of two of six shards.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"sidestep/test/harness"
)

// options of a run.
type options struct {
	harness.Measured
	scenarios   []scenario
	seed        harness.Seed
	rounds      int
	turn        time.Duration
	settle      time.Duration // turn of each arm before the rounds that count
	warm        time.Duration // each arm's part of the warm-up
	connections int
	documents   int // of a bulk
	fill        float64
	command     string
}

// usualClients is how many clients there are by default: with more of them a bulk waits for
// a core of the machine.
const usualClients = 4

func main() {
	harness.Main("bulk", func(arguments []string) (harness.Run, error) {
		o, err := parse(arguments)
		return o.run, err
	})
}

func parse(arguments []string) (options, error) {
	var o options
	set := flag.NewFlagSet("bulk", flag.ContinueOnError)
	o.Flags(set)
	o.ResultFlags(set)
	o.seed.Flag(set)
	names := set.String("cases", "", "comma `list` of the cases (default: all)\n"+strings.Join(scenarioNames(), " "))
	set.IntVar(&o.rounds, "rounds", 8, "`rounds` in which each arm has one turn")
	set.DurationVar(&o.turn, "turn", 2*time.Second, "length of one turn")
	set.DurationVar(&o.settle, "settle", 2*time.Second, "turn of each arm after the fault begins, which counts for nothing")
	set.DurationVar(&o.warm, "warm", 5*time.Second, "each arm's part of the warm-up")
	set.IntVar(&o.connections, "connections", usualClients, "clients, each sending its next bulk when the last is answered; those of another number have results of their own")
	set.IntVar(&o.documents, "documents", 200, "documents of a bulk, of about 300 bytes each")
	set.Float64Var(&o.fill, "fill", 4, "what an index begins with, relative to what its turns may add")
	if err := o.Parse(set, arguments); err != nil {
		return o, err
	}
	if err := o.seed.Draw(set); err != nil {
		return o, err
	}
	o.command = harness.Command("bin/bulk", set, "sidestep", "out")
	if o.rounds < 1 || o.turn <= 0 || o.settle < 0 || o.warm <= 0 || o.connections < 1 || o.documents < 1 || o.fill < 0 {
		return o, errors.New("want at least one round, connection and document, and turns above zero")
	}
	var err error
	o.scenarios, err = chooseScenarios(*names)
	return o, err
}

// run measures all cases. What it started is gone when it returns, whatever ended it.
func (o options) run(ctx context.Context) (err error) {
	r := &report{options: o, began: time.Now()}
	if r.sidestepVersion, err = o.SidestepVersion(ctx); err != nil {
		return err
	}
	s := &stage{options: o, logf: harness.Logf, bodies: newBodies(o.documents), random: o.seed.Random()}
	defer func() { err = errors.Join(err, s.Close(err != nil && ctx.Err() == nil)) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	for i, sc := range o.scenarios {
		harness.Logf("case %d of %d: %s", i+1, len(o.scenarios), sc.title)
		outcome, err := s.measure(ctx, sc)
		if err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
		r.outcomes = append(r.outcomes, outcome)
		fmt.Println(r.section(outcome)) // also when a later case fails
	}
	r.took = time.Since(r.began)
	if err := r.draw(r.path(".svg")); err != nil {
		return fmt.Errorf("plot the results: %w", err)
	}
	fmt.Println(strings.Join(r.verdicts(), "\n"))
	if err := harness.WriteResult(r.path(".md"), r.markdown()); err != nil {
		return err
	}
	harness.Logf("written to %s after %s", r.path(".md"), r.took.Round(time.Second))
	return nil
}

func (r *report) path(suffix string) string { return filepath.Join(r.Out, r.name()+suffix) }

// name is that of the files of the results.
func (r *report) name() string {
	if r.connections == usualClients {
		return "bulk-" + r.Engine
	}
	return fmt.Sprintf("bulk-%s-%d-clients", r.Engine, r.connections)
}
