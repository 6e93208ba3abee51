package lab

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Draw is a scenario drawn by lot: a cluster, what is asked of it and what goes wrong.
// It is a pure function of its seed. Counts without a word on how they are drawn are
// log-uniform: a cluster with 3 indices is as likely as one with 30.
type Draw struct {
	// DataNodes hold all shards. Managers are dedicated, CoordinatingOnly hold nothing.
	DataNodes        int `json:"data_nodes"`
	Managers         int `json:"managers"`
	CoordinatingOnly int `json:"coordinating_only"`
	// CPUs of each node. SimulatedCPUs are as many, or fewer, but no less than 2, where the
	// cluster would answer more shard queries than can be played.
	CPUs          int `json:"cpus"`
	SimulatedCPUs int `json:"simulated_cpus"`
	// SlowNodes are the slower tier: the last data nodes, SlowTier times slower. Apart
	// says that an index is on one tier alone; else its copies are on any node.
	SlowNodes int     `json:"slow_nodes"`
	SlowTier  float64 `json:"slow_tier"`
	Apart     bool    `json:"apart"`

	Indices []DrawnIndex  `json:"indices"`
	Tenants []DrawnTenant `json:"tenants"`
	Faults  []DrawnFault  `json:"faults"`

	Load     float64 `json:"load"` // share of the capacity
	Sidecars int     `json:"sidecars"`
	Told     bool    `json:"told"` // each knows how many sidecars there are
	Engine   string  `json:"engine"`
	// Warmup is not measured, Measured is, in seconds.
	Warmup   float64 `json:"warmup_s"`
	Measured float64 `json:"measured_s"`
	// Capacity and Rate are in requests a second.
	Capacity float64 `json:"capacity"`
	Rate     float64 `json:"rate"`
}

// DrawnIndex is an index: its shards, and the replicas of each as far as there are nodes
// for them.
type DrawnIndex struct {
	Shards   int  `json:"shards"`
	Replicas int  `json:"replicas"`
	Slow     bool `json:"slow,omitempty"` // it is on the slower tier
}

// DrawnTenant asks for its indices. Of its requests OneShard search one shard, ByID read a
// document, and the others search all shards of an index.
type DrawnTenant struct {
	Share    float64 `json:"share"` // of all requests
	Mean     float64 `json:"mean_ms"`
	Sigma    float64 `json:"sigma"`
	OneShard float64 `json:"one_shard"`
	ByID     float64 `json:"by_id"`
	Indices  []int   `json:"indices"`
}

// DrawnFault is what goes wrong with some nodes. What the numbers mean depends on the
// kind.
type DrawnFault struct {
	Kind  string `json:"kind"`
	Nodes []int  `json:"nodes"`
	// Factor by which nodes are slower.
	Factor float64 `json:"factor,omitempty"`
	// Delay of each message, poll or failure, in ms.
	Delay float64 `json:"delay_ms,omitempty"`
	// On and Off are how long the fault is there and not, in ms: in the mean where it
	// comes by chance.
	On    float64 `json:"on_ms,omitempty"`
	Off   float64 `json:"off_ms,omitempty"`
	Index int     `json:"index,omitempty"`
	// Chance that a poll is late or lost.
	Chance float64 `json:"chance,omitempty"`
	Whole  bool    `json:"whole,omitempty"` // it fails everything, not shard queries alone
	Seed   uint64  `json:"seed,omitempty"`
}

// Engines by their ranking of copies.
const (
	elasticsearch = "elasticsearch"
	openSearch    = "opensearch"
)

// Kinds of faults.
const (
	faultNone        = "none"
	faultSlow        = "slow"
	faultIndex       = "slow_index"
	faultLatency     = "latency"
	faultPauses      = "pauses"
	faultCollections = "collections"
	faultFlapping    = "flapping"
	faultHanging     = "hanging"
	faultFailsFast   = "fails_fast"
	faultFailsSlowly = "fails_slowly"
	faultSlowStats   = "slow_statistics"
	faultLostPolls   = "lost_polls"
	faultRestart     = "rolling_restart"
)

// faultKinds are the kinds that are drawn.
func faultKinds() []string {
	return []string{
		faultSlow, faultIndex, faultLatency, faultPauses, faultCollections, faultFlapping, faultHanging,
		faultFailsFast, faultFailsSlowly, faultSlowStats, faultLostPolls, faultRestart,
	}
}

// lot draws numbers.
type lot struct{ *rand.Rand }

func (l lot) chance(p float64) bool             { return l.Float64() < p }
func (l lot) uniform(low, high float64) float64 { return low + (high-low)*l.Float64() }
func (l lot) logarithmic(a, b float64) float64  { return a * math.Pow(b/a, l.Float64()) }
func (l lot) logarithmicInt(low, high int) int {
	return int(l.logarithmic(float64(low), float64(high)+1))
}
func (l lot) some(of, count int) (out []int)  { out = l.Perm(of)[:count]; slices.Sort(out); return out }
func (l lot) oneOf(values ...float64) float64 { return values[l.IntN(len(values))] }

// Streams of chance of a seed: each part has one of its own, so that what is drawn for
// one does not move another.
const (
	nodesStream = 0x51de57e9 + iota
	indicesStream
	tenantsStream
	restStream
	layoutStream
	faultsStream
)

// drawScenario draws the scenario of a seed.
func drawScenario(seed uint64) *Draw {
	d := drawCluster(seed)
	l := layOut(d, stream(seed, layoutStream))
	d.scale(l)
	d.drawFaults(stream(seed, faultsStream), l)
	return d
}

func stream(seed, part uint64) lot { return lot{rand.New(rand.NewPCG(seed, part))} }

// drawCluster draws what needs no layout.
func drawCluster(seed uint64) *Draw {
	d := &Draw{}
	d.drawNodes(stream(seed, nodesStream))
	d.drawIndices(stream(seed, indicesStream))
	d.drawTenants(stream(seed, tenantsStream))
	rest := stream(seed, restStream)
	d.Load = rest.uniform(0.1, 1.1)
	d.Sidecars = int(rest.oneOf(1, 3, 10, 30, 100))
	d.Told = rest.chance(0.5)
	d.Engine = elasticsearch
	if rest.chance(0.5) {
		d.Engine = openSearch
	}
	return d
}

func (d *Draw) drawNodes(l lot) {
	d.DataNodes = l.logarithmicInt(2, 100)
	if l.chance(1.0 / 3) {
		d.Managers = 3
	}
	if l.chance(1.0 / 5) {
		d.CoordinatingOnly = 1 + l.IntN(3)
	}
	d.CPUs = l.logarithmicInt(2, 16)
	d.SimulatedCPUs = d.CPUs
	if l.chance(1.0 / 3) {
		d.SlowTier = l.uniform(2, 4)
		d.SlowNodes = max(1, int(float64(d.DataNodes)*l.uniform(0.2, 0.6)))
		d.Apart = l.chance(0.5)
	}
}

func (d *Draw) drawIndices(l lot) {
	for range l.logarithmicInt(1, 40) {
		i := DrawnIndex{Shards: l.logarithmicInt(1, 50), Replicas: 1}
		if l.chance(0.5) {
			i.Replicas = int(l.oneOf(0, 2, 3))
		}
		slow := l.chance(0.5)
		i.Slow = d.Apart && slow
		d.Indices = append(d.Indices, i)
	}
}

func (d *Draw) drawTenants(l lot) {
	count := 1 + l.IntN(4)
	all := 0.0
	for range count {
		t := DrawnTenant{Share: l.uniform(0.2, 1), Mean: l.logarithmic(0.5, 200), Sigma: l.uniform(0.3, 1.2)}
		one, byID, many := l.ExpFloat64(), l.ExpFloat64(), l.ExpFloat64()
		t.OneShard, t.ByID = one/(one+byID+many), byID/(one+byID+many)
		all += t.Share
		d.Tenants = append(d.Tenants, t)
	}
	for i := range d.Indices {
		of := &d.Tenants[l.IntN(count)]
		of.Indices = append(of.Indices, i)
	}
	for i := range d.Tenants {
		t := &d.Tenants[i]
		t.Share /= all
		if len(t.Indices) == 0 {
			t.Indices = []int{l.IntN(len(d.Indices))}
		}
	}
}

func (d *Draw) drawFaults(l lot, on *layout) {
	if l.chance(0.25) {
		return
	}
	kinds := faultKinds()
	for _, k := range l.Perm(len(kinds))[:1+l.IntN(2)] {
		f := DrawnFault{Kind: kinds[k], Seed: l.Uint64() >> 12} // exact as a float64 of JSON
		f.Nodes = l.some(d.DataNodes, d.struck(l))
		f.drawNumbers(l)
		switch f.Kind {
		case faultIndex:
			f.Index = l.IntN(len(d.Indices))
			holders := on.holders(f.Index)
			f.Nodes = nil
			for _, at := range l.some(len(holders), min(len(holders), d.struck(l))) {
				f.Nodes = append(f.Nodes, holders[at])
			}
		case faultCollections:
			f.Nodes = l.some(d.DataNodes, d.DataNodes)
		}
		d.Faults = append(d.Faults, f)
	}
}

// struck draws how many nodes have a fault: one, or up to a third.
func (d *Draw) struck(l lot) int {
	if l.chance(0.5) {
		return 1
	}
	return 1 + l.IntN(max(1, d.DataNodes/3))
}

// drawNumbers draws how bad the fault is.
func (f *DrawnFault) drawNumbers(l lot) {
	switch f.Kind {
	case faultSlow, faultIndex:
		f.Factor = l.logarithmic(2, 20)
	case faultLatency:
		f.Delay, f.Whole = l.logarithmic(20, 500), l.chance(0.5)
	case faultPauses:
		f.On, f.Off = l.logarithmic(50, 1000), l.logarithmic(500, 5000)
	case faultCollections:
		f.On, f.Off = 150, l.logarithmic(5000, 20000)
	case faultFlapping:
		f.Factor = l.logarithmic(5, 20)
		f.On, f.Off = l.logarithmic(1000, 5000), l.logarithmic(1000, 5000)
	case faultFailsFast:
		f.Whole = l.chance(0.5)
	case faultFailsSlowly:
		f.Delay = l.logarithmic(300, 5000)
	case faultSlowStats:
		f.Delay = l.logarithmic(300, 3000)
	case faultLostPolls:
		f.Chance, f.Delay = l.logarithmic(0.005, 0.05), l.logarithmic(300, 2000)
	case faultRestart:
		f.On, f.Off = l.uniform(3000, 8000), l.uniform(1000, 5000)
	}
}

// fault names the kinds of the draw's faults.
func (d *Draw) fault() string {
	if len(d.Faults) == 0 {
		return faultNone
	}
	var kinds []string
	for _, f := range d.Faults {
		kinds = append(kinds, f.Kind)
	}
	return strings.Join(kinds, "+")
}
