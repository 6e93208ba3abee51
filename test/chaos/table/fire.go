package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
)

// volley is what came of one shot.
type volley struct {
	result  *loadgen.Result
	samples []sample // what sidestep did if it was the one
	began   time.Time
}

// fire sends one load after its lead-in.
func (m *measurement) fire(ctx context.Context, at shot) (volley, error) {
	if at.duration <= 0 {
		return volley{result: &loadgen.Result{}}, ctx.Err()
	}
	l := m.line(m.scenario, at)
	defer l.done()
	led, err := m.leadIn(ctx, l)
	if err != nil {
		return volley{}, errors.Join(err, led())
	}
	if at.begun != nil {
		at.begun()
	}
	v := volley{began: time.Now()}
	l.follow(v.began)
	v.result, err = loadgen.Run(ctx, l.Options)
	if err := errors.Join(err, led()); err != nil {
		return volley{}, fmt.Errorf("send the load %s: %w", at.load, err)
	}
	if l.seen != nil {
		v.samples = l.seen.samples
	}
	return v, nil
}

// fireAll is fire with the load of the scenario's second tenant beside, if it has one.
func (m *measurement) fireAll(ctx context.Context, at shot) (first, second volley, err error) {
	if m.scenario.second == nil {
		first, err = m.fire(ctx, at)
		return first, second, err
	}
	beside := at
	beside.tenant, beside.begun = m.scenario.second, nil
	var failure error
	var other sync.WaitGroup
	other.Go(func() { second, failure = m.fire(ctx, beside) })
	first, err = m.fire(ctx, at)
	other.Wait()
	return first, second, errors.Join(err, failure)
}

// quiet sends the loads of a scenario in one way, which count for nothing.
func (s *stage) quiet(ctx context.Context, sc scenario, load string, long time.Duration) error {
	m := &measurement{stage: s, scenario: sc}
	_, _, err := m.fireAll(ctx, shot{load: load, duration: long, first: 2 * leadNumbers})
	return err
}

// leadIn sends the lead-in of a load. An open loop goes on while the last searches
// of its lead-in are under way, and led waits for them; the connections of a closed
// loop are the same ones, so there the wait comes first.
func (m *measurement) leadIn(ctx context.Context, l *line) (led func() error, err error) {
	if l.lead.Duration <= 0 {
		return func() error { return nil }, nil
	}
	done := make(chan error, 1)
	go func() {
		_, err := loadgen.Run(ctx, l.lead)
		done <- err
	}()
	if l.Connections > 0 {
		return func() error { return nil }, <-done
	}
	_ = harness.Pause(ctx, l.lead.Duration)
	return func() error { return <-done }, ctx.Err()
}
