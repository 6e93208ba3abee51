package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
	"sidestep/test/machine"
)

const (
	index     = "products"
	nodeCount = 5
	documents = 20_000
	// polling is how long the nodes are asked for their statistics as fast as they answer.
	polling = 10 * time.Second
)

// way is one way to send searches.
type way struct {
	name  string
	nodes int  // that it goes through, in turn; 0: those that sidestep chooses
	local bool // with preference=_local
	front bool // through a sidestep
	count int  // through so many, in turn; 0: one
	// variant is how the sidestep differs from one with the defaults.
	variant harness.Variant
}

// fixed reports whether sidestep is to do as well as this way.
func (w way) fixed() bool { return w.front && w.nodes > 0 }

// fronts returns the names of the sidesteps that a way goes through.
func (w way) fronts() []string {
	switch {
	case !w.front:
		return nil
	case w.count == 0:
		return []string{w.name}
	}
	var names []string
	for i := range w.count {
		names = append(names, fmt.Sprintf("%s, %d", w.name, i+1))
	}
	return names
}

const (
	waySidestep = "sidestep"
	wayRound    = "off, round robin"
	wayControl  = "control: off, round robin"
	wayTen      = "ten sidesteps"
)

// fullWays are those into a full cluster, in the order of the table.
func fullWays() []way {
	fixed := []way{{name: "round robin", nodes: nodeCount}, {name: "_local", nodes: nodeCount, local: true}, {name: "two nodes", nodes: 2}, {name: "one node", nodes: 1}}
	all := slices.Clone(fixed)
	for _, w := range fixed {
		w.name, w.front = "off, "+w.name, true
		all = append(all, w)
	}
	return append(all, way{name: waySidestep, front: true})
}

// halfWays are those into a cluster that is half full.
func halfWays() []way {
	return []way{
		{name: "round robin", nodes: nodeCount},
		{name: wayRound, nodes: nodeCount, front: true},
		{name: wayControl, nodes: nodeCount, front: true},
		{name: waySidestep, front: true},
		{name: wayTen, front: true, count: 10},
	}
}

// ways returns the ways that are played in a setting.
func (o options) ways(at setting) []way {
	all := fullWays()
	if at.half {
		all = halfWays()
	}
	if len(o.variants) == 0 {
		return all
	}
	return append(slices.DeleteFunc(all, func(w way) bool { return !w.front }), o.variants...)
}

// fixedWay is the configuration of a sidestep that takes its upstreams in turn.
const fixedWay = "routing: {mode: \"off\"}\nupstream: {discovery: static}\n"

// stage is the cluster, and the sidesteps before it.
type stage struct {
	options
	harness.Stage
	logf func(string, ...any)
}

func (s *stage) open(ctx context.Context) error {
	err := s.Open(ctx, harness.StageOptions{
		Binary:  s.Sidestep,
		Cluster: harness.ClusterOptions{Distribution: s.Engine, Version: s.Version, Nodes: nodeCount, Processors: 1, Logf: s.logf},
		Indices: []harness.Index{{Name: index, Shards: nodeCount, Replicas: 1, Docs: documents, Seed: 1}},
		Warm:    s.warm,
	})
	if err != nil {
		return err
	}
	return s.Cluster.WarmStatistics(ctx, polling)
}

// start starts the sidesteps of ways that do not run yet.
func (s *stage) start(ctx context.Context, of []way) error {
	for _, w := range of {
		for _, name := range w.fronts() {
			if s.Front(name) != nil {
				continue
			}
			o := harness.Sidestep{Name: name, Binary: w.variant.Binary}
			switch {
			case w.fixed():
				o.Config, o.Upstreams = fixedWay, s.Cluster.URLs()[:w.nodes]
			case len(w.variant.Keys) > 0:
				var err error
				if o.Config, err = w.variant.Config(); err != nil {
					return err
				}
			}
			if _, err := s.StartSidestep(ctx, o); err != nil {
				return err
			}
		}
	}
	return s.AwaitReady(ctx)
}

// tally is what came of a way in one setting.
type tally struct {
	way
	result   loadgen.Result
	perSec   []float64 // complete answers a second, by turn
	p50, p99 []float64 // ms, by turn
	cpu      []float64 // seconds that each node used
	own      float64   // seconds that its sidesteps used
	doing    harness.Doing
}

// measured is what came of a setting.
type measured struct {
	setting
	rate    float64 // searches started a second; 0: a closed loop
	tallies []*tally
	usage   machine.Usage
}

// of returns what came of the way of that name.
func (m measured) of(name string) *tally {
	return m.tallies[slices.IndexFunc(m.tallies, func(t *tally) bool { return t.name == name })]
}

// measure gives all ways their turns in a setting.
func (s *stage) measure(ctx context.Context, at setting) (m measured, err error) {
	m.setting = at
	all := s.ways(at)
	if err := s.start(ctx, all); err != nil {
		return m, err
	}
	if at.quota > 0 {
		defer func() { err = errors.Join(err, s.Cluster.Each((*harness.Node).UnlimitCPU)) }()
		if err := s.Cluster.Each(func(n *harness.Node) error { return n.LimitCPU(at.quota) }); err != nil {
			return m, err
		}
	}
	for _, w := range all {
		m.tallies = append(m.tallies, &tally{way: w, cpu: make([]float64, nodeCount), doing: harness.Doing{}})
	}
	if at.half {
		if m.rate, err = s.halfRate(ctx, m.of(wayRound).way); err != nil {
			return m, err
		}
	}
	for _, w := range all {
		if _, err := s.fire(ctx, w, m.rate, s.lately, 0); err != nil {
			return m, err
		}
	}
	began := machine.ReadUsage()
	for round := range s.rounds {
		first := (round + 1) << 20
		for _, i := range rand.Perm(len(m.tallies)) {
			if err := s.take(ctx, m.tallies[i], m.rate, first); err != nil {
				return m, fmt.Errorf("%s: %w", m.tallies[i].name, err)
			}
		}
		s.logf("%s: round %d of %d", at.name, round+1, s.rounds)
	}
	m.usage.Add(began, machine.ReadUsage())
	return m, nil
}

// halfRate returns half of what is answered a second by this way when the cluster is full.
func (s *stage) halfRate(ctx context.Context, w way) (float64, error) {
	if _, err := s.fire(ctx, w, 0, s.lately, 0); err != nil {
		return 0, err
	}
	full, err := s.fire(ctx, w, 0, max(s.lately, s.turn), 1<<19)
	if err != nil {
		return 0, err
	}
	rate := full.Throughput() / 2
	if rate <= 0 {
		return 0, errors.New("no search was answered while the cluster was full")
	}
	s.logf("%.0f searches a second are half of what the cluster answers", rate)
	return rate, nil
}

// take gives a way one turn.
func (s *stage) take(ctx context.Context, t *tally, rate float64, first int) error {
	if _, err := s.fire(ctx, t.way, rate, s.lead, first); err != nil {
		return err
	}
	if err := s.count(ctx, t, -1); err != nil {
		return err
	}
	result, err := s.fire(ctx, t.way, rate, s.turn, first+1<<18)
	if err != nil {
		return err
	}
	if err := s.count(ctx, t, 1); err != nil {
		return err
	}
	t.result.Merge(result)
	t.perSec = append(t.perSec, result.Throughput())
	t.p50 = append(t.p50, harness.Milliseconds(result.Quantile(0.5)))
	t.p99 = append(t.p99, harness.Milliseconds(result.Quantile(0.99)))
	return nil
}

// count adds what nodes and sidesteps have used and done so far, times factor: -1 before a turn,
// and 1 after it.
func (s *stage) count(ctx context.Context, t *tally, factor float64) error {
	for i, node := range s.Cluster.Nodes {
		used, err := node.CPUUsed()
		if err != nil {
			return err
		}
		t.cpu[i] += factor * used.Seconds()
	}
	for _, name := range t.fronts() {
		used, err := s.Front(name).CPUUsed()
		if err != nil {
			return err
		}
		t.own += factor * used.Seconds()
		if t.fixed() {
			continue // it does nothing else
		}
		doing, err := s.Front(name).Doing(ctx)
		if err != nil {
			return err
		}
		t.doing.Add(doing, factor)
	}
	return nil
}

// fire sends searches one way, numbered from first on: rate a second, or if that is 0 as fast as
// they are answered.
func (s *stage) fire(ctx context.Context, w way, rate float64, duration time.Duration, first int) (*loadgen.Result, error) {
	if duration <= 0 {
		return &loadgen.Result{}, ctx.Err()
	}
	base := loadgen.NewTransport(s.connections)
	defer base.CloseIdleConnections()
	o := loadgen.Options{
		Targets: s.Cluster.URLs()[:w.nodes], Rate: rate, Duration: duration, Transport: base,
		Request: func(i int) *http.Request {
			r := harness.Search(index, first+i)
			if w.local {
				r.URL.RawQuery = "preference=_local"
			}
			return r
		},
	}
	if rate == 0 {
		o.Connections = s.connections
	}
	if w.front {
		o.Targets = nil
		for _, name := range w.fronts() {
			o.Targets = append(o.Targets, s.Front(name).URL)
		}
	}
	return loadgen.Run(ctx, o)
}
