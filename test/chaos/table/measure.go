package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
	"sidestep/test/machine"
)

const (
	// calm is how long sidestep is watched before a fault begins, and before it ends.
	calm        = 2 * time.Second
	calmBack    = time.Second
	repairLimit = 2 * time.Minute
)

// outcome is what came of one scenario.
type outcome struct {
	bad     []string // names of the nodes
	badIDs  []string
	tallies []*tally
	// onset and recovery are whom sidestep used around the fault's begin and end; nil
	// if it has none.
	onset, recovery *shares
	avoid, back     time.Duration // negative: not seen, or nothing to see
	began, repaired time.Time     // the fault; zero if there is none
	changes         map[string][]string
	counted         map[string]counted // by load, of the sidesteps
	nodes           int                // that hold copies
}

// tally is what came of one load.
type tally struct {
	load    string
	result  loadgen.Result
	turns   []turn
	queries counts // shard queries by node
	blind   bool   // a degraded node did not tell its queries
	usage   machine.Usage
	slowest []slow   // through sidestep alone
	seen    []sample // likewise, of all turns
	pooled  bool     // percentiles are over the searches of all turns
}

// turn is what came of one turn of a load.
type turn struct {
	round         int
	p50, p90, p99 time.Duration
	perSecond     float64   // complete answers
	latencies     []float64 // ms, rising; only if pooled
}

// measurement is one scenario under way.
type measurement struct {
	*stage
	scenario scenario
	bad      []*harness.Node
	sent     int // searches of the load that sent most
	round    int // the last one begun
	order    *rand.Rand
	tallies  map[string]*tally
	readings []func() // what the nodes' counters said, to be waited for
	outcome  *outcome
}

// measure runs a scenario. The nodes are repaired when it returns.
func (s *stage) measure(ctx context.Context, sc scenario) (*outcome, error) {
	from := time.Now()
	if err := s.Cluster.WaitGreen(ctx, index); err != nil {
		return nil, err
	}
	bad, err := s.victims(ctx, sc.bad)
	if err != nil {
		return nil, err
	}
	s.exclude(bad)
	m := s.newMeasurement(sc, bad)
	defer func() { m.outcome.changes = s.changes(from) }()
	switch {
	case sc.whole != nil:
		err = m.during(ctx)
	case sc.begin != nil:
		err = m.degraded(ctx)
	default:
		return m.outcome, m.prepared(ctx)
	}
	if err != nil {
		return nil, err
	}
	_, err = m.fire(ctx, shot{load: loadEngine, duration: s.pause})
	return m.outcome, err
}

func (s *stage) newMeasurement(sc scenario, bad []*harness.Node) *measurement {
	m := &measurement{
		stage: s, scenario: sc, bad: bad, tallies: map[string]*tally{}, order: s.lot(sc.name),
		outcome: &outcome{bad: harness.NodeNames(bad), avoid: -1, back: -1, nodes: len(s.dataNodes())},
	}
	for _, node := range bad {
		m.outcome.badIDs = append(m.outcome.badIDs, node.ID)
	}
	add := func(name string, second bool) {
		m.tallies[name] = &tally{load: name, queries: counts{}, pooled: sc.pooled, blind: second}
		m.outcome.tallies = append(m.outcome.tallies, m.tallies[name])
	}
	for _, load := range s.loads(sc) {
		add(load, sc.second != nil)
		if sc.second != nil {
			add(loadOf(load, sc.second), true)
		}
	}
	return m
}

// loadOf names the load that a tenant of its own sends in a way.
func loadOf(load string, t *tenant) string { return load + ", " + t.name }

// repairAfter ends what was done to the cluster, whatever has happened meanwhile.
func repairAfter(ctx context.Context, end repair) error {
	if end == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), repairLimit)
	defer cancel()
	return end(limited)
}

// prepared measures a cluster of which no node is known to be bad.
func (m *measurement) prepared(ctx context.Context) (err error) {
	if m.scenario.prepare != nil {
		var end repair
		defer func() { err = errors.Join(err, repairAfter(ctx, end)) }()
		if end, err = m.scenario.prepare(ctx, m.stage); err != nil {
			return err
		}
	}
	return m.rounds(ctx)
}

func (m *measurement) rounds(ctx context.Context) error {
	before, err := m.account(ctx)
	if err != nil {
		return err
	}
	count, _ := m.turns(m.scenario)
	for range count {
		if err := m.playRound(ctx); err != nil {
			return err
		}
	}
	m.read()
	after, err := m.account(ctx)
	m.outcome.counted = m.count(before, after)
	return err
}

// playRound gives each load of the round its turn, in an order drawn by lot. They send the same searches.
func (m *measurement) playRound(ctx context.Context) error {
	m.round++
	order := m.inRound(m.scenario, m.round)
	m.order.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	most := 0
	for _, load := range order {
		sent, err := m.play(ctx, m.tallies[load])
		if err != nil {
			return err
		}
		most = max(most, sent)
	}
	m.sent += most
	m.progress()
	return nil
}

// progress tells how the scenario goes.
func (m *measurement) progress() {
	var text strings.Builder
	for _, t := range m.outcome.tallies {
		fmt.Fprintf(&text, "  %s %.1f", t.load, t.p99())
		if lost := t.result.Failed + t.result.Partial; lost > 0 {
			fmt.Fprintf(&text, " (%d lost)", lost)
		}
	}
	m.logf("  round %d, p99 in ms, median so far:%s", m.round, text.String())
}

// play gives a load one turn and returns how many searches it sent. The nodes'
// counters are read beside the load: a stopped node answers when it runs again, and
// waiting for it would let every turn begin at that moment.
func (m *measurement) play(ctx context.Context, t *tally) (sent int, err error) {
	var before func() counts
	var began machine.Usage
	_, length := m.turns(m.scenario)
	var disturbing sync.WaitGroup
	var failure error
	at := shot{load: t.load, lead: m.lead, duration: length, first: m.sent, begun: func() {
		before, began = m.reading(ctx), machine.ReadUsage()
		if m.scenario.disturb != nil {
			disturbing.Go(func() { failure = m.scenario.disturb(ctx, m.stage, m.round, length) })
		}
	}}
	if m.scenario.period > 0 {
		_ = harness.Pause(ctx, time.Duration(m.order.Float64()*float64(m.scenario.period)))
	}
	v, second, err := m.fireAll(ctx, at)
	disturbing.Wait()
	if err := errors.Join(err, failure); err != nil {
		return 0, err
	}
	t.usage.Add(began, machine.ReadUsage())
	after := m.reading(ctx)
	m.readings = append(m.readings, func() {
		then, now := before(), after()
		t.queries.add(then, now)
		for _, node := range m.bad {
			t.blind = t.blind || node.PID() != 0 && (missing(then, node.ID) || missing(now, node.ID))
		}
	})
	t.take(v, m.round)
	if m.scenario.second != nil {
		m.tallies[loadOf(t.load, m.scenario.second)].take(second, m.round)
	}
	return int(v.result.Sent), nil
}

// take takes in what came of a turn.
func (t *tally) take(v volley, round int) {
	t.result.Merge(v.result)
	one := turn{round: round, p50: v.result.Quantile(0.5), p90: v.result.Quantile(0.9), p99: v.result.Quantile(0.99), perSecond: v.result.Throughput()}
	if t.pooled {
		one.latencies = latencies(v.result)
	}
	t.turns = append(t.turns, one)
	t.seen = append(t.seen, v.samples...)
	t.keepSlowest(v.samples, round, v.began)
}

// playTogether has all loads sent at once, each at its part of the rate: what happens
// once, to one node after the other, is to happen to all of them. Whose the shard
// queries are cannot be told then.
func (m *measurement) playTogether(ctx context.Context) error {
	loads := m.loads(m.scenario)
	volleys, failures := make([]volley, len(loads)), make([]error, len(loads))
	m.round++
	_, length := m.turns(m.scenario)
	began := machine.ReadUsage()
	var all sync.WaitGroup
	for i, load := range loads {
		all.Go(func() {
			volleys[i], failures[i] = m.fire(ctx, shot{
				load: load, lead: m.lead, duration: length, rate: m.rate / float64(len(loads)), first: m.sent,
			})
		})
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	ended, most := machine.ReadUsage(), int64(0)
	for i, load := range loads {
		m.tallies[load].take(volleys[i], m.round)
		m.tallies[load].usage.Add(began, ended)
		most = max(most, volleys[i].result.Sent)
	}
	m.sent += int(most)
	m.progress()
	return nil
}

// read waits for the counters of all turns so far.
func (m *measurement) read() {
	for _, wait := range m.readings {
		wait()
	}
	m.readings = nil
}

func missing(c counts, id string) bool {
	_, ok := c[id]
	return !ok
}

// add adds what the nodes did between two readings. A counter that went down began
// anew.
func (c counts) add(before, after counts) {
	for id, now := range after {
		then, ok := before[id]
		switch {
		case !ok:
		case now < then:
			c[id] += now
		default:
			c[id] += now - then
		}
	}
}

// degraded measures while some nodes are bad, and watches sidestep before and after.
func (m *measurement) degraded(ctx context.Context) (err error) {
	var repair repair
	defer func() { err = errors.Join(err, repairAfter(ctx, repair)) }()
	o := m.outcome
	onset, err := m.watch(ctx, watch{calm, m.settle, func() error {
		o.began = time.Now()
		var err error
		repair, err = m.scenario.begin(ctx, m.bad)
		return err
	}})
	if err != nil {
		return err
	}
	m.tally(watchOnset, onset, o.began)
	o.onset = newShares(onset.samples, span{zero: o.began, from: -calm, to: m.settle}, harness.NodeNames(m.dataNodes()), m.scenario.http)
	if err := m.rounds(ctx); err != nil {
		return err
	}
	long := max(m.back, m.scenario.back)
	recovery, err := m.watch(ctx, watch{calmBack, long, func() error {
		now := repair
		repair = nil
		err := now(ctx)
		o.repaired = time.Now()
		return err
	}})
	if err != nil {
		return err
	}
	m.tally(watchReturn, recovery, o.repaired)
	o.recovery = newShares(recovery.samples, span{zero: o.repaired, from: -calmBack, to: long}, harness.NodeNames(m.dataNodes()), m.scenario.http)
	o.avoid = o.onset.timeToAvoid(o.bad)
	o.back = o.recovery.timeToReturn(o.bad, o.onset)
	return nil
}

// watch is a load through sidestep in the middle of which something happens.
type watch struct {
	before, after time.Duration
	act           func() error
}

func (m *measurement) watch(ctx context.Context, w watch) (volley, error) {
	var acting sync.WaitGroup
	var failure error
	begun := func() {
		acting.Go(func() {
			_ = harness.Pause(ctx, w.before)
			if ctx.Err() == nil {
				failure = w.act()
			}
		})
	}
	v, err := m.fire(ctx, shot{load: loadSidestep, lead: m.lead, duration: w.before + w.after, begun: begun})
	acting.Wait()
	return v, errors.Join(failure, err)
}

// tally takes in what a watch of sidestep gave; zero is when the fault began or ended.
func (m *measurement) tally(name string, v volley, zero time.Time) {
	t := &tally{load: loadSidestep + ", " + name, result: *v.result, blind: true}
	t.keepSlowest(v.samples, 0, zero)
	m.outcome.tallies = append(m.outcome.tallies, t)
}

// during has all loads sent for as long as the scenario takes.
func (m *measurement) during(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- m.scenario.whole(ctx, m.stage) }()
	for {
		err := m.playTogether(ctx)
		select {
		case failure := <-done:
			return errors.Join(failure, err)
		default:
		}
		if err != nil {
			return errors.Join(<-done, err)
		}
	}
}
