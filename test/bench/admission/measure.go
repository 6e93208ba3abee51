package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
	"sidestep/test/machine"
)

// turn is what came of one turn of an arm.
type turn struct {
	result *loadgen.Result
	length time.Duration
	usage  machine.Usage // of the machine, by everything
	// The following are of the turn with its lead-in.
	flood    flooded
	sent     float64 // searches of the client
	counters counters
	doing    harness.Doing      // of sidestep
	queues   map[string]float64 // by node, as sidestep sees them at the end
	drained  time.Duration
	// backlog is how many connections the nodes had not accepted at the end of the turn,
	// when the last client had left.
	backlog float64
}

// tally is what came of an arm at one load.
type tally struct {
	arm   string
	turns []turn
}

// level is what came of one load.
type level struct {
	load float64 // relative to the capacity
	rate float64 // searches per second
	arms []*tally
}

// of returns the tally of an arm, nil if there is none.
func (l *level) of(arm string) *tally {
	for _, t := range l.arms {
		if t.arm == arm {
			return t
		}
	}
	return nil
}

// measure has all arms take their turns at all loads.
func (s *stage) measure(ctx context.Context, capacity float64) ([]*level, machine.Usage, error) {
	var levels []*level
	for _, load := range s.loads {
		l := &level{load: load, rate: load * capacity}
		for _, a := range s.arms {
			l.arms = append(l.arms, &tally{arm: a.name})
		}
		levels = append(levels, l)
	}
	var usage machine.Usage
	began := machine.ReadUsage()
	random := s.seed.Random()
	for range s.rounds {
		for _, l := range random.Perm(len(levels)) {
			for _, i := range random.Perm(len(s.arms)) {
				t, err := s.take(ctx, s.arms[i], levels[l], capacity)
				if err != nil {
					return nil, usage, fmt.Errorf("%s at %g times the capacity: %w", s.arms[i].name, levels[l].load, err)
				}
				levels[l].arms[i].turns = append(levels[l].arms[i].turns, t)
				s.logf("%g × %-8s %s", levels[l].load, s.arms[i].name, t)
			}
		}
	}
	usage.Add(began, machine.ReadUsage())
	return levels, usage, nil
}

// take is one turn of an arm.
func (s *stage) take(ctx context.Context, a arm, l *level, capacity float64) (t turn, err error) {
	s.turns++
	first := s.turns * 1_000_000
	targets := s.Cluster.URLs()
	var f *harness.Front
	switch {
	case a.direct():
	case a.relay():
		url, stop, err := s.startRelay(ctx)
		if err != nil {
			return t, err
		}
		defer stop()
		targets = []string{url}
	default:
		if f, err = s.startFront(ctx, a); err != nil {
			return t, err
		}
		defer func() { err = errors.Join(err, s.stopFront(f, a, l)) }()
		targets = []string{f.URL}
	}
	_ = harness.Pause(ctx, s.rest) // until the nodes have done what a sidestep asks when it starts
	before, err := s.readCounters(ctx)
	if err != nil {
		return t, err
	}
	settled := &loadgen.Result{}
	if s.settle > 0 {
		if settled, err = s.send(ctx, targets, stream{capacity / 2, search}, s.settle, first); err != nil {
			return t, err
		}
	}
	flooded := s.startFlood(ctx, targets, a)
	sent, err := s.pair(ctx, targets, stream{l.rate, search}, first+100_000)
	beside, failed := flooded()
	if err := errors.Join(err, failed); err != nil {
		return t, err
	}
	if t.backlog, err = s.backlog(); err != nil {
		return t, err
	}
	t.result, t.length, t.usage, t.sent = sent.counted, s.turn, sent.usage, float64(settled.Sent+sent.led.Sent+sent.counted.Sent+beside.sent)
	t.flood = beside
	if f != nil {
		if t.doing, err = f.Doing(ctx); err != nil {
			return t, err
		}
		t.doing[harness.DoesStates] = statesOf(f)
		if t.queues, err = f.SumBy(ctx, "sidestep_node_queue", "node"); err != nil {
			return t, err
		}
	}
	if t.drained, err = s.drain(ctx); err != nil {
		return t, err
	}
	after, err := s.readCounters(ctx)
	t.counters = after.since(before)
	return t, err
}

// pair is what came of a lead-in and of its turn, and what was used in the turn.
type pair struct {
	led, counted *loadgen.Result
	usage        machine.Usage
}

// pair sends the lead-in of a turn and the turn, which begins when the lead-in has sent its
// last search, however many of these are under way.
func (s *stage) pair(ctx context.Context, targets []string, of stream, first int) (pair, error) {
	p := pair{led: &loadgen.Result{}}
	leading := make(chan error, 1)
	if s.lead > 0 {
		go func() {
			var failed error
			p.led, failed = s.send(ctx, targets, of, s.lead, first)
			leading <- failed
		}()
		_ = harness.Pause(ctx, s.lead)
	} else {
		leading <- nil
	}
	began := machine.ReadUsage()
	var err error
	p.counted, err = s.send(ctx, targets, of, s.turn, first+100_000)
	p.usage.Add(began, machine.ReadUsage())
	err = errors.Join(err, <-leading) // p.led is there from here on
	return p, err
}

// stream is searches at a rate, per second.
type stream struct {
	rate float64
	of   requests
}

// send sends the searches of a stream.
func (s *stage) send(ctx context.Context, targets []string, of stream, length time.Duration, first int) (*loadgen.Result, error) {
	return loadgen.Run(ctx, loadgen.Options{
		Targets: targets, Rate: of.rate, Duration: length, Deadline: s.deadline, Timeout: s.patience, Request: of.of(first),
		MaxInFlight: max(512, int(2*of.rate*s.patience.Seconds())),
	})
}

// startFront starts the sidestep of an arm.
func (s *stage) startFront(ctx context.Context, a arm) (*harness.Front, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	turn := harness.Stage{Cluster: s.Cluster}
	f, err := turn.StartSidestep(ctx, harness.Sidestep{Name: a.name, Binary: a.binary, Config: a.config})
	if err != nil {
		return nil, err
	}
	if err := f.AwaitReady(ctx); err != nil {
		return nil, errors.Join(err, harness.Close(f, nil, true))
	}
	return f, nil
}

// stopFront stops a sidestep and keeps its log if that is wanted.
func (s *stage) stopFront(f *harness.Front, a arm, l *level) error {
	if s.trace == "" {
		return harness.Close(f, nil, false)
	}
	name := fmt.Sprintf("admission-%s-%g-%s-%d.log", s.Engine, l.load, a.name, s.turns)
	return errors.Join(f.Stop(), f.Panicked(), f.MoveLog(filepath.Join(s.trace, name)))
}

// statesOf counts the states that nodes got into.
func statesOf(f *harness.Front) map[string]float64 {
	changes, _ := f.StateChanges(time.Time{}) // without them the figures stand
	states := map[string]float64{}
	for _, c := range changes {
		states[c.Is]++
	}
	return states
}

// String is the line that tells how a turn went.
func (t turn) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%4.0f/s in time, p50 %4.0f p99 %5.0f ms of accepted, %d refused, %d late, %d partial of %d; %.0f rejections, %.2f shard queries a search, CPU %.2f, %.0f not accepted, drained in %s",
		t.goodput(), harness.Milliseconds(t.result.Accepted(0.5)), harness.Milliseconds(t.result.Accepted(0.99)), t.result.Refused, t.result.TimedOut, t.result.Partial, t.result.Sent,
		t.counters.rejected, t.counters.queries/t.sent, t.counters.cpu, t.backlog, t.drained.Round(10*time.Millisecond))
	if t.flood.sent > 0 {
		fmt.Fprintf(&b, "; flood %d of %d answered, %d refused", t.flood.answered, t.flood.sent, t.flood.refused)
	}
	if t.doing != nil {
		fmt.Fprintf(&b, "; %s; queues %s", t.doing, harness.Counts(t.queues))
	}
	return b.String()
}

// goodput returns the searches a second that were answered in time.
func (t turn) goodput() float64 { return float64(t.result.InTime) / t.length.Seconds() }
