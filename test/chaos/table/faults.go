package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"sidestep/test/harness"
)

type repair func(context.Context) error

const (
	latency = 300 * time.Millisecond
	jitter  = 50 * time.Millisecond
	quota   = 0.05 // of a core

	// A node that pauses is stopped and running in turn for so long; one that flaps is late, and not, for flap each.
	stopped = 1500 * time.Millisecond
	running = 2500 * time.Millisecond
	flap    = 3 * time.Second

	// A collection stops a node for so long, each node once in such a time in the mean.
	collection      = 150 * time.Millisecond
	collectionEvery = 15 * time.Second
	// late is how late statistics are: later than a poll waits for them.
	late = 1500 * time.Millisecond
	// drained is how long a node is drained before it restarts.
	drained = 2 * time.Second
)

func slowTransport(n *harness.Node) error { return n.SlowTransport(latency, jitter) }
func slowHTTP(n *harness.Node) error      { return n.SlowHTTP(latency, jitter) }

// toxic applies faults on connections.
func toxic(faults ...func(*harness.Node) error) func(context.Context, []*harness.Node) (repair, error) {
	return func(_ context.Context, bad []*harness.Node) (repair, error) {
		var errs []error
		for _, node := range bad {
			for _, apply := range faults {
				errs = append(errs, apply(node))
			}
		}
		return resetToxics(bad), errors.Join(errs...)
	}
}

func resetToxics(bad []*harness.Node) repair {
	return func(ctx context.Context) error {
		var errs []error
		for _, node := range bad {
			errs = append(errs, node.ResetToxics(ctx))
		}
		return errors.Join(errs...)
	}
}

func rejects(ctx context.Context, bad []*harness.Node) (repair, error) {
	return resetToxics(bad), bad[0].FailHTTP(ctx, 429, 503)
}

func limitCPU(_ context.Context, bad []*harness.Node) (repair, error) {
	return func(context.Context) error { return bad[0].UnlimitCPU() }, bad[0].LimitCPU(quota)
}

func pauses(ctx context.Context, bad []*harness.Node) (repair, error) {
	return alternate(ctx, phase{stopped, bad[0].Pause}, phase{running, bad[0].Resume}), nil
}

func flapping(ctx context.Context, bad []*harness.Node) (repair, error) {
	repaired := resetToxics(bad)
	return alternate(ctx,
		phase{flap, func() error { return slowTransport(bad[0]) }},
		phase{flap, func() error { return repaired(context.WithoutCancel(ctx)) }}), nil
}

// phase is one state of an alternating fault.
type phase struct {
	length time.Duration
	enter  func() error
}

// alternate goes from on to off and back until it is repaired, and leaves it off.
func alternate(ctx context.Context, on, off phase) repair {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var failure error
	wg.Go(func() {
		for now, next := on, off; ctx.Err() == nil && failure == nil; now, next = next, now {
			failure = now.enter()
			_ = harness.Pause(ctx, now.length)
		}
	})
	return func(context.Context) error {
		cancel()
		wg.Wait()
		return errors.Join(failure, off.enter())
	}
}

func kill(run context.Context, bad []*harness.Node) (repair, error) {
	return func(ctx context.Context) error {
		needed := bad[0].PID() == 0 && run.Err() == nil
		if !needed {
			return nil
		}
		return bad[0].Restart(ctx)
	}, bad[0].Kill()
}

// rollingRestart restarts the nodes one after the other, the elected one last.
func rollingRestart(ctx context.Context, s *stage) error {
	return s.restartAll(ctx, func(context.Context, *harness.Node) error { return nil })
}

// announcedRestart is rollingRestart of nodes that are drained before.
func announcedRestart(ctx context.Context, s *stage) error { return s.restartAll(ctx, s.drain) }

// drain announces at every sidestep that a node is to restart, and waits until what is in
// flight there has finished.
func (s *stage) drain(ctx context.Context, node *harness.Node) error {
	for _, front := range s.Fronts {
		status, body, err := front.Admin(ctx, http.MethodPut, "/-/drain", fmt.Sprintf(`{"node": %q, "for": "5m"}`, node.Name))
		if err != nil {
			return err
		}
		if status != http.StatusOK {
			return fmt.Errorf("drain %s: %d %s", node.Name, status, body)
		}
	}
	return harness.Pause(ctx, drained)
}

// restartAll restarts the nodes one after the other. Something is done to each before.
func (s *stage) restartAll(ctx context.Context, before func(context.Context, *harness.Node) error) error {
	order, err := s.Cluster.ElectedLast(ctx)
	if err != nil {
		return err
	}
	for _, node := range order {
		s.exclude([]*harness.Node{node})
		if err := before(ctx, node); err != nil {
			return err
		}
		end, cancel := context.WithTimeout(ctx, 20*time.Second)
		err := node.Terminate(end)
		cancel()
		if err != nil {
			return err
		}
		if err := node.Restart(ctx); err != nil {
			return err
		}
		if err := s.Cluster.WaitGreen(ctx, index); err != nil {
			return err
		}
		s.logf("%s is back with all copies", node.Name)
	}
	s.exclude(nil)
	return nil
}

// collect stops every node now and then during a turn, each by itself, at times drawn by
// lot: the same in all turns of a round, as chance would decide between ways otherwise.
func collect(ctx context.Context, s *stage, round int, length time.Duration) error {
	random := s.lot("collections of round " + strconv.Itoa(round))
	began := time.Now()
	failures := make([]error, len(s.Cluster.Nodes))
	var all sync.WaitGroup
	for i, node := range s.Cluster.Nodes {
		stops := collections(random, length)
		all.Go(func() {
			for _, at := range stops {
				_ = harness.Pause(ctx, time.Until(began.Add(at)))
				if ctx.Err() != nil || failures[i] != nil {
					return
				}
				failures[i] = standStill(node, collection)
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

// collections draws when a node stops during a turn.
func collections(random *rand.Rand, length time.Duration) []time.Duration {
	var stops []time.Duration
	for at := time.Duration(0); ; at += collection {
		at += time.Duration(random.ExpFloat64() * float64(collectionEvery))
		if at >= length {
			return stops
		}
		stops = append(stops, at)
	}
}

// standStill stops a node for so long.
func standStill(n *harness.Node, long time.Duration) error {
	if err := n.Pause(); err != nil {
		return err
	}
	time.Sleep(long)
	return n.Resume()
}

// slowStatistics has one node answer late when it is asked for its statistics. What
// answers in its place is there for a while before: clients have their connections again.
func slowStatistics(ctx context.Context, s *stage) (repair, error) {
	slow, err := s.victims(ctx, 1)
	if err != nil {
		return nil, err
	}
	node := slow[0]
	if err := node.DelayStatistics(ctx, 0); err != nil {
		return nil, err
	}
	if err := s.quiet(ctx, scenario{}, loadSidestep, 2*s.settle); err != nil {
		return node.ResetToxics, err
	}
	s.logf("  statistics of %s are %s late from now on", node.Name, late)
	return node.ResetToxics, node.DelayStatistics(ctx, late)
}
