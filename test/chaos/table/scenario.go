package main

import (
	"context"
	"slices"
	"time"

	"sidestep/test/harness"
)

// scenario is one row group of the table.
type scenario struct {
	name  string
	title string
	shape shape // of its cluster
	ways  []string
	asks  asks
	bad   int // nodes that are degraded
	// http: the nodes are bad as coordinating nodes only; using their copies is fine.
	http bool
	// begin degrades the nodes. The function it returns repairs them, also when
	// its context has ended in the meantime; it is called once. Nil: nothing is done.
	begin func(context.Context, []*harness.Node) (repair, error)
	// prepare does something to the cluster that is not watched as it begins and ends,
	// instead of begin.
	prepare func(context.Context, *stage) (repair, error)
	// whole does something to all nodes in turn while the loads run, instead of begin.
	whole func(context.Context, *stage) error
	// disturb does something to the cluster during a turn of such a length: the same in all
	// turns of a round. All is as before when it returns.
	disturb     func(ctx context.Context, s *stage, round int, length time.Duration) error
	second      *tenant       // sends searches of its own beside the usual ones
	connections int           // closed loop with so many clients; 0: open loop
	rate        float64       // of an open loop, searches/s; 0: that of the options
	timeout     time.Duration // of a search; 0: 30 s
	back        time.Duration // at least, how long the recovery is watched
	pooled      bool          // what happens is not in every turn: percentiles are over all searches
	takes       time.Duration // whole, prepare: about how long beside the turns
	drains      time.Duration // about how long a turn of the engine's lasts longer
	stretch     float64       // of its turns: so many times as long as others; 0: 1
	share       float64       // of the rounds that others have; 0: 1
	period      time.Duration // in which what begin does comes again: each turn begins at another moment of it
}

// Times of a search after which a client gives up.
const (
	// hangs bounds searches that may find a node silent for good; swallowed those
	// that are sure to, starves those that wait for a node without CPU.
	hangs     = 10 * time.Second
	swallowed = 2 * time.Second
	starves   = 4 * time.Second
)

func scenarios() []scenario {
	return []scenario{
		{name: "healthy", title: "healthy", asks: nothingWrong()},
		{name: "transport", title: "transport latency 300 ± 50 ms", bad: 1, begin: toxic(slowTransport), asks: nearOracle()},
		{name: "http", title: "HTTP latency 300 ± 50 ms", bad: 1, http: true, begin: toxic(slowHTTP), asks: nearOracle()},
		{name: "both", title: "transport and HTTP latency 300 ± 50 ms", bad: 1, begin: toxic(slowTransport, slowHTTP), asks: nearOracle()},
		{name: "cpu", title: "CPU quota 5 % of a core", bad: 1, timeout: starves, drains: starves, begin: limitCPU, asks: nearOracle()},
		{name: "pauses", title: "stopped 1.5 s, running 2.5 s", bad: 1, timeout: hangs, pooled: true, period: stopped + running, begin: pauses, asks: nearOracle()},
		{name: "flapping", title: "transport latency 3 s on, 3 s off", bad: 1, pooled: true, period: 2 * flap, begin: flapping, asks: nearOracle()},
		{name: "blackhole", title: "HTTP swallows everything", bad: 1, http: true, timeout: swallowed, drains: swallowed, begin: toxic((*harness.Node).BlackholeHTTP), asks: nearOracle()},
		{name: "refused", title: "HTTP connections refused", bad: 1, http: true, begin: toxic((*harness.Node).RefuseHTTP), asks: nearOracle()},
		{name: "rejects", title: "searches answered 429 and 503 at once", bad: 1, http: true, begin: rejects, asks: nearOracle()},
		{name: "kill", title: "killed (-9), then back", bad: 1, timeout: hangs, begin: kill, back: 45 * time.Second, asks: nearOracle()},
		{name: "rolling", title: "rolling restart of all nodes", timeout: hangs, takes: 95 * time.Second, stretch: 2.4, pooled: true, whole: rollingRestart, asks: nearOracle()},
		{name: "announced", title: "rolling restart of all nodes, each drained before", timeout: hangs, takes: 105 * time.Second, stretch: 2.4, pooled: true, whole: announcedRestart, asks: asks{oracle: nearlyOracle}},
		{name: "two", title: "two of five: transport latency 300 ± 50 ms", bad: 2, begin: toxic(slowTransport), asks: nearOracle()},
		{name: "closed", title: "healthy, closed loop, 100 connections", connections: 100, asks: nothingWrong()},
		{
			name: "closed-cpu", title: "CPU quota 5 % of a core, closed loop, 100 connections", bad: 1, connections: 100,
			timeout: starves, drains: starves, begin: limitCPU, asks: asks{oracle: farFromOracle, avoid: time.Second},
		},
		{
			name: "tenants", title: "two tenants, a heavy index on two of five nodes", ways: withoutOracle(), rate: lightRate,
			second: heavy(), stretch: 1.2, share: 1.4, takes: 14 * time.Second, prepare: addHeavy, asks: nothingWrong(),
		},
		{
			name: "collections", title: "every node stands still for 150 ms, once in 15 s", ways: withoutOracle(),
			stretch: 1.2, share: 1.6, pooled: true, disturb: collect, asks: asks{gain: 0.5, attempts: 1.1},
		},
		{
			name: "statistics", title: "statistics of one node 1.5 s late, its searches good", ways: withoutOracle(),
			takes: 10 * time.Second, prepare: slowStatistics, asks: nothingWrong(),
		},
		{
			name: "three", title: "three nodes: transport and HTTP latency 300 ± 50 ms", shape: threeNodes(), bad: 1,
			begin: toxic(slowTransport, slowHTTP), asks: nearOracle(),
		},
		{
			name: "managers", title: "three nodes and three managers, healthy, closed loop, 40 connections", shape: managed(),
			ways: withoutOracle(), connections: 40,
			asks: asks{noWorse: true, noEjection: true, noManager: true},
		},
	}
}

// withoutOracle are the ways where no node is bad, or where the row asks nothing about the
// oracle.
func withoutOracle() []string { return []string{loadEngine, loadSidestep, loadControl} }

func nameOf(sc scenario) string { return sc.name }

func scenarioNames() []string { return harness.Names(scenarios(), nameOf) }

// chooseScenarios returns the scenarios of a comma list.
func chooseScenarios(list string) ([]scenario, error) {
	return harness.Choose("scenario", list, scenarios(), nameOf)
}

// loads are the ways to send the searches of the scenario, in the order of the table.
func (o options) loads(sc scenario) []string {
	ways := sc.ways
	if ways == nil {
		ways = []string{loadEngine, loadSidestep, loadOracle, loadControl}
	}
	var loads []string
	for _, way := range ways {
		loads = append(loads, way)
		if way == loadSidestep {
			for _, v := range o.variants {
				loads = append(loads, v.Name)
			}
		}
	}
	return loads
}

// inRound returns the ways that have a turn in a round of the scenario; the first is 1.
func (o options) inRound(sc scenario, round int) []string {
	loads := o.loads(sc)
	if sc.doubles() && round%2 == 0 {
		loads = slices.DeleteFunc(loads, enginesOwn)
	}
	return loads
}

// enginesOwn reports whether a load goes neither through sidestep nor past the bad nodes.
func enginesOwn(load string) bool { return load == loadEngine || load == loadControl }

// doubles reports whether the scenario has twice as many rounds, as p99 is to be near that of the oracle, which
// 100 searches of each hardly tell. The engine, which is far from both, and its control have no turn in the even ones.
func (sc scenario) doubles() bool {
	return sc.asks.oracle > 0 && sc.begin != nil && sc.connections == 0
}

// turns returns how many rounds the scenario has, and how long each turn is.
func (o options) turns(sc scenario) (count int, length time.Duration) {
	count, length = o.rounds, o.slice
	if sc.doubles() {
		count *= 2
	}
	if sc.share > 0 {
		count = max(1, int(sc.share*float64(o.rounds)+0.5))
	}
	if sc.stretch > 0 {
		length = time.Duration(sc.stretch * float64(o.slice))
	}
	return count, length
}

// byShape groups scenarios by their clusters, each of which is started once.
func byShape(list []scenario) [][]scenario {
	var groups [][]scenario
	for _, sc := range list {
		i := slices.IndexFunc(groups, func(g []scenario) bool { return g[0].shape == sc.shape })
		if i < 0 {
			groups = append(groups, []scenario{sc})
			continue
		}
		groups[i] = append(groups[i], sc)
	}
	return groups
}
