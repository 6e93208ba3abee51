// Command admission measures overload: searches at a fixed rate, below and above what a
// real cluster can answer, whose nodes are short of CPU.
//
// Five nodes have a share of a core each and short queues. How many searches they can
// answer is measured in the same run, by a closed loop. Then the ways to send searches
// take short turns, in an order drawn by lot: "direct" is a client that goes round robin
// over all nodes, "control" the same once more, which tells what the same differs by,
// "relay" (if it is asked for) the client before HAProxy, which decides nothing,
// "off", "auto" and "target" are the client before a sidestep with that admission.mode.
// A sidestep is started for each of its turns, so that none asks the nodes for anything in
// the turns of others. A client waits for an answer until its deadline and closes the
// connection then.
//
// With -flood each way has turns beside a flood and turns alone: searches of another class,
// that cost more, come as fast as the nodes could answer them if they did nothing else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sidestep/test/harness"
)

// options of a run.
type options struct {
	harness.Measured
	seed        harness.Seed
	trace       string // folder of sidestep's logs; empty: they are not kept
	arms        string // comma list; empty: all that the binary knows
	variants    string // see parseVariants
	loads       []float64
	rounds      int
	turn        time.Duration
	rest        time.Duration // before each turn, in which nothing is sent
	settle      time.Duration // at half of the capacity before each turn
	lead        time.Duration // of each turn, which counts for nothing
	deadline    time.Duration
	patience    time.Duration // after which the client closes the connection
	warm        time.Duration
	flood       float64 // of what the nodes can answer of its searches; 0: there is none
	floodRate   float64 // searches a second that the class of the flood is given by the arm "rate"
	quota       float64 // of a core, of each node
	stressed    float64 // quota of the first node; 0: as the others
	queue       int
	connections int // of the closed loop that measures the capacity
	command     string
}

func main() {
	harness.Main("admission", func(arguments []string) (harness.Run, error) {
		o, err := parse(arguments)
		return o.run, err
	})
}

func parse(arguments []string) (options, error) {
	var o options
	set := flag.NewFlagSet("admission", flag.ContinueOnError)
	o.Flags(set)
	o.ResultFlags(set)
	o.seed.Flag(set)
	set.StringVar(&o.trace, "trace", "", "`folder` for the logs of sidestep, one a turn (default: none are kept)")
	set.StringVar(&o.arms, "arms", "", "comma `list` of direct, control, off, auto, target, rate beside a flood (default: all that sidestep knows), and relay: HAProxy")
	set.StringVar(&o.variants, "variants", "", "further arms, "+harness.VariantList)
	loads := set.String("loads", "0.5,0.8,1,1.5,2", "comma `list` of loads, relative to the capacity")
	set.IntVar(&o.rounds, "rounds", 6, "`rounds` in which each arm has one turn at each load")
	set.DurationVar(&o.turn, "turn", 5*time.Second, "length of one turn")
	set.DurationVar(&o.rest, "rest", 1500*time.Millisecond, "before each turn, in which nothing is sent")
	set.DurationVar(&o.settle, "settle", 2*time.Second, "before each turn at half of the capacity, which counts for nothing")
	set.DurationVar(&o.lead, "lead", 1500*time.Millisecond, "before each turn at its load, which counts for nothing")
	set.DurationVar(&o.deadline, "deadline", time.Second, "within what time an answer is of use")
	set.DurationVar(&o.patience, "patience", 0, "after what time the client closes the connection (default: the deadline)")
	set.DurationVar(&o.warm, "warm", time.Minute, "warm-up, without quotas")
	set.Float64Var(&o.flood, "flood", 0, "beside each turn a flood of costly searches, of a class with a fifth of the weight: so much of what the nodes can answer of these")
	set.Float64Var(&o.floodRate, "flood-rate", 10, "what the arm rate lets pass of the flood, in searches per second")
	set.Float64Var(&o.quota, "quota", 0.3, "what each node has, in cores")
	set.Float64Var(&o.stressed, "stressed", 0, "what one of the nodes has, in cores (default: as the others)")
	set.IntVar(&o.queue, "queue", 50, "thread_pool.search.queue_size")
	set.IntVar(&o.connections, "connections", 20, "connections of the closed loop that measures the capacity")
	if err := o.Parse(set, arguments); err != nil {
		return o, err
	}
	if err := o.seed.Draw(set); err != nil {
		return o, err
	}
	o.command = harness.Command("bin/admission", set, "sidestep", "out", "trace")
	if o.patience == 0 {
		o.patience = o.deadline
	}
	for text := range strings.SplitSeq(*loads, ",") {
		load, err := strconv.ParseFloat(text, 64)
		if err != nil || load <= 0 {
			return o, fmt.Errorf("-loads %s: %q is not a load", *loads, text)
		}
		o.loads = append(o.loads, load)
	}
	if _, err := o.wanted(); err != nil {
		return o, err
	}
	if _, err := harness.ParseVariants(o.variants, names...); err != nil {
		return o, err
	}
	if o.flood == 0 && slices.Contains(strings.Split(o.arms, ","), armRate) {
		return o, errors.New("-arms rate needs a -flood")
	}
	if o.rounds < 1 || o.turn <= 0 || o.rest < 0 || o.settle < 0 || o.lead < 0 || o.deadline <= 0 || o.quota <= 0 || o.stressed < 0 || o.flood < 0 || o.floodRate <= 0 || o.queue < 1 || o.connections < 1 {
		return o, errors.New("want at least one round and connection, and turns, deadline and quota above zero")
	}
	return o, nil
}

// run measures all loads. What it started is gone when it returns, whatever ended it.
func (o options) run(ctx context.Context) (err error) {
	r := &report{options: o, began: time.Now()}
	if r.sidestepVersion, err = o.SidestepVersion(ctx); err != nil {
		return err
	}
	arms, err := o.findArms(ctx, harness.Logf)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(arms, arm.relay) {
		if _, err := harness.FindProxy("haproxy"); err != nil {
			return fmt.Errorf("the arm %s: %w", armRelay, err)
		}
	}
	s := &stage{options: o, arms: arms, logf: harness.Logf}
	defer func() { err = errors.Join(err, s.Close(err != nil && ctx.Err() == nil)) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	if r.capacity, err = s.measureCapacity(ctx, search); err != nil {
		return err
	}
	if s.flood > 0 {
		if r.floodCapacity, err = s.measureCapacity(ctx, aggregation); err != nil {
			return err
		}
		s.floodSends = s.flood * r.floodCapacity
		rated := slices.ContainsFunc(arms, func(a arm) bool { return a.name == armRate })
		if rated && s.floodSends < wantFlood*s.floodRate {
			return fmt.Errorf("the flood is %.0f searches a second, too few to be held to %g: give a higher -flood or a lower -flood-rate", s.floodSends, s.floodRate)
		}
	}
	if r.loads, r.usage, err = s.measure(ctx, r.capacity); err != nil {
		return err
	}
	r.took = time.Since(r.began)
	return r.write(harness.Logf)
}

func (r *report) path(suffix string) string {
	name := "admission-" + r.Engine
	if r.stressed > 0 {
		name += "-stressed"
	}
	if r.flood > 0 {
		name += "-flood"
	}
	return filepath.Join(r.Out, name+suffix)
}
