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
}

// fixed reports whether sidestep is to do as well as this way.
func (w way) fixed() bool { return w.front && w.nodes > 0 }

const waySidestep = "sidestep"

// ways returns all ways, in the order of the table.
func ways() []way {
	fixed := []way{{name: "round robin", nodes: nodeCount}, {name: "_local", nodes: nodeCount, local: true}, {name: "two nodes", nodes: 2}, {name: "one node", nodes: 1}}
	all := slices.Clone(fixed)
	for _, w := range fixed {
		w.name, w.front = "off, "+w.name, true
		all = append(all, w)
	}
	return append(all, way{name: waySidestep, front: true})
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
	if err := s.Cluster.WarmStatistics(ctx, polling); err != nil {
		return err
	}
	for _, w := range ways() {
		o := harness.Sidestep{Name: w.name}
		if w.fixed() {
			o.Config, o.Upstreams = fixedWay, s.Cluster.URLs()[:w.nodes]
		}
		if !w.front {
			continue
		}
		if _, err := s.StartSidestep(ctx, o); err != nil {
			return err
		}
	}
	return s.AwaitReady(ctx)
}

// tally is what came of a way in one setting.
type tally struct {
	way
	result loadgen.Result
	perSec []float64 // complete answers a second, by turn
	p99    []float64 // ms, by turn
	cpu    []float64 // seconds that each node used
}

// measure gives all ways their turns in a setting.
func (s *stage) measure(ctx context.Context, at setting) (tallies []*tally, usage machine.Usage, err error) {
	if at.quota > 0 {
		defer func() { err = errors.Join(err, s.Cluster.Each((*harness.Node).UnlimitCPU)) }()
		if err := s.Cluster.Each(func(n *harness.Node) error { return n.LimitCPU(at.quota) }); err != nil {
			return nil, usage, err
		}
	}
	for _, w := range ways() {
		tallies = append(tallies, &tally{way: w, cpu: make([]float64, nodeCount)})
		if _, err := s.fire(ctx, w, s.lately, 0); err != nil {
			return nil, usage, err
		}
	}
	began := machine.ReadUsage()
	for round := range s.rounds {
		first := (round + 1) << 20
		for _, i := range rand.Perm(len(tallies)) {
			if err := s.take(ctx, tallies[i], first); err != nil {
				return nil, usage, fmt.Errorf("%s: %w", tallies[i].name, err)
			}
		}
		s.logf("%s: round %d of %d", at.name, round+1, s.rounds)
	}
	usage.Add(began, machine.ReadUsage())
	return tallies, usage, nil
}

// take gives a way one turn.
func (s *stage) take(ctx context.Context, t *tally, first int) error {
	if _, err := s.fire(ctx, t.way, s.lead, first); err != nil {
		return err
	}
	before, err := s.cpu()
	if err != nil {
		return err
	}
	result, err := s.fire(ctx, t.way, s.turn, first+1<<18)
	if err != nil {
		return err
	}
	after, err := s.cpu()
	if err != nil {
		return err
	}
	for i := range after {
		t.cpu[i] += after[i] - before[i]
	}
	t.result.Merge(result)
	t.perSec = append(t.perSec, result.Throughput())
	t.p99 = append(t.p99, harness.Milliseconds(result.Quantile(0.99)))
	return nil
}

// cpu returns the CPU seconds that each node has used so far.
func (s *stage) cpu() ([]float64, error) {
	var used []float64
	for _, node := range s.Cluster.Nodes {
		d, err := node.CPUUsed()
		if err != nil {
			return nil, err
		}
		used = append(used, d.Seconds())
	}
	return used, nil
}

// fire sends searches one way, numbered from first on.
func (s *stage) fire(ctx context.Context, w way, duration time.Duration, first int) (*loadgen.Result, error) {
	if duration <= 0 {
		return &loadgen.Result{}, ctx.Err()
	}
	base := loadgen.NewTransport(s.connections)
	defer base.CloseIdleConnections()
	o := loadgen.Options{
		Targets: s.Cluster.URLs()[:w.nodes], Connections: s.connections, Duration: duration, Transport: base,
		Request: func(i int) *http.Request {
			r := harness.Search(index, first+i)
			if w.local {
				r.URL.RawQuery = "preference=_local"
			}
			return r
		},
	}
	if w.front {
		o.Targets = []string{s.Front(w.name).URL}
	}
	return loadgen.Run(ctx, o)
}
