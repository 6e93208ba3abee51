package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sidestep/test/harness"
)

// scenario is one row group of the table.
type scenario struct {
	name  string
	title string
	bad   int // nodes that are degraded
	// http: the nodes are bad as coordinating nodes only; using their copies is fine.
	http bool
	// begin degrades the nodes. The function it returns repairs them, also when
	// its context has ended in the meantime; it is called once. Nil: nothing is done.
	begin func(context.Context, []*harness.Node) (repair, error)
	// whole does something to all nodes in turn while the loads run, instead of begin.
	whole       func(context.Context, *stage) error
	connections int           // closed loop with so many clients; 0: open loop
	timeout     time.Duration // of a search; 0: 30 s
	back        time.Duration // at least, how long the recovery is watched
	takes       time.Duration // whole: about how long; else what lost searches add to a round, about
}

type repair func(context.Context) error

const (
	latency = 300 * time.Millisecond
	jitter  = 50 * time.Millisecond
	quota   = 0.05 // of a core
	// hangs bounds searches that may find a node silent for good; swallowed those
	// that are sure to.
	hangs     = 10 * time.Second
	swallowed = 5 * time.Second
)

func scenarios() []scenario {
	return []scenario{
		{name: "healthy", title: "healthy"},
		{name: "transport", title: "transport latency 300 ± 50 ms", bad: 1, begin: toxic(slowTransport)},
		{name: "http", title: "HTTP latency 300 ± 50 ms", bad: 1, http: true, begin: toxic(slowHTTP)},
		{name: "both", title: "transport and HTTP latency 300 ± 50 ms", bad: 1, begin: toxic(slowTransport, slowHTTP)},
		{name: "cpu", title: "CPU quota 5 % of a core", bad: 1, begin: limitCPU},
		{name: "pauses", title: "stopped 1.5 s, running 2.5 s", bad: 1, timeout: hangs, begin: pauses},
		{name: "flapping", title: "transport latency 3 s on, 3 s off", bad: 1, begin: flapping},
		{name: "blackhole", title: "HTTP swallows everything", bad: 1, http: true, timeout: swallowed, takes: swallowed, begin: toxic((*harness.Node).BlackholeHTTP)},
		{name: "refused", title: "HTTP connections refused", bad: 1, http: true, begin: toxic((*harness.Node).RefuseHTTP)},
		{name: "rejects", title: "searches answered 429 and 503 at once", bad: 1, http: true, begin: rejects},
		{name: "kill", title: "killed (-9), then back", bad: 1, timeout: hangs, begin: kill, back: 45 * time.Second},
		{name: "rolling", title: "rolling restart of all nodes", timeout: hangs, takes: 150 * time.Second, whole: rollingRestart},
		{name: "two", title: "two of five: transport latency 300 ± 50 ms", bad: 2, begin: toxic(slowTransport)},
		{name: "closed", title: "healthy, closed loop, 100 connections", connections: 100},
		{name: "closed-cpu", title: "CPU quota 5 % of a core, closed loop, 100 connections", bad: 1, connections: 100, begin: limitCPU},
	}
}

func scenarioNames() []string {
	var names []string
	for _, sc := range scenarios() {
		names = append(names, sc.name)
	}
	return names
}

// chooseScenarios returns the scenarios of a comma list in the order of the table;
// all of them if the list is empty.
func chooseScenarios(list string) ([]scenario, error) {
	if list == "" {
		return scenarios(), nil
	}
	wanted := strings.Split(list, ",")
	for _, name := range wanted {
		if !slices.Contains(scenarioNames(), name) {
			return nil, fmt.Errorf("no scenario %q: want some of %s", name, strings.Join(scenarioNames(), ", "))
		}
	}
	return slices.DeleteFunc(scenarios(), func(sc scenario) bool { return !slices.Contains(wanted, sc.name) }), nil
}

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
	return alternate(ctx, phase{1500 * time.Millisecond, bad[0].Pause}, phase{2500 * time.Millisecond, bad[0].Resume}), nil
}

func flapping(ctx context.Context, bad []*harness.Node) (repair, error) {
	repaired := resetToxics(bad)
	return alternate(ctx,
		phase{3 * time.Second, func() error { return slowTransport(bad[0]) }},
		phase{3 * time.Second, func() error { return repaired(context.WithoutCancel(ctx)) }}), nil
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
			sleep(ctx, now.length)
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
	order, err := s.Cluster.ElectedLast(ctx)
	if err != nil {
		return err
	}
	for _, node := range order {
		s.exclude([]*harness.Node{node})
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

// sleep waits, or until the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
