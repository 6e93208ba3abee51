package lab

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Scenario is a cluster, a load and what goes wrong.
type Scenario struct {
	// Name is what it is asked for by; About says what happens.
	Name, About string

	machine
	nodes     int
	indices   int
	shards    int     // of each index; a search touches all shards of one index
	byID      float64 // share of the requests that read a document
	copies    int
	scattered bool // copies are placed by lot, not in a ring

	demand time.Duration // mean CPU time of a shard query
	sigma  float64       // of its lognormal distribution
	reduce time.Duration // CPU time of a search on its coordinating node

	dedicated bool // a node without data coordinates all searches
	inPhase   bool // where the engine's rotations start, see blog

	connections int     // closed loop, no pause between searches; 0: open loop
	load        float64 // open loop: share of the capacity of the healthy cluster
	steps       []step  // changes of the load

	sidecars                  int
	untold                    bool // no sidecar is told how many there are
	relayed                   bool // one polls, and probes, for all
	pollInterval, pollTimeout time.Duration

	warmup, length time.Duration // measured is [warmup, length)
	faults         []fault
	vary           time.Duration // interval at which all nodes change their speed

	published *published

	// drawn says what was drawn by lot, and laid where its copies are; nil: the figures
	// above say what there is.
	drawn *Draw
	laid  *layout
	// patience is after what time a client gives up; 0: never.
	patience time.Duration
	// repeats is how often a client sends again at once what no server could answer.
	repeats int

	// deadline is after what time, exactly, a client closes its connection; 0: never.
	deadline time.Duration
	flood    flood
	again    int // how often a client of an open loop sends again what failed
}

// flood is a second stream of searches, in a class of its own.
type flood struct {
	load   float64 // share of the capacity
	factor float64 // of the CPU time that a shard query of the others takes
}

// step multiplies the load from a moment on.
type step struct {
	at     time.Duration
	factor float64
}

// fault changes nodes in [from, to), all the time or on and off.
type fault struct {
	nodes     []int
	from, to  time.Duration
	on, off   time.Duration // 0: all the time
	byChance  uint64        // seed of on and off; each node for itself, off is the mean. 0: not by chance
	index     int           // 1 + the index that alone is concerned; 0: everything is
	set       func(n *node, on bool)
	avoidedOn bool // as avoided, but only while the fault is on
	avoided   bool // a client in the know would not use the nodes at all
	hidden    bool // not what the scenario's bad node is about
}

// forever is later than any scenario's end.
const forever = 24 * time.Hour

func slower(factor float64) func(*node, bool) {
	return func(n *node, on bool) {
		if on {
			n.setSpeed(n.speed / factor)
			return
		}
		n.setSpeed(n.speed * factor)
	}
}

func transportLatency(d time.Duration) func(*node, bool) {
	return func(n *node, on bool) {
		n.transport += signed(d, on)
	}
}

func httpLatency(d time.Duration) func(*node, bool) {
	return func(n *node, on bool) {
		n.http += signed(d, on)
	}
}

func signed(d time.Duration, on bool) time.Duration {
	if on {
		return d
	}
	return -d
}

func pausing(n *node, on bool)   { n.setPaused(on) }
func rejecting(n *node, on bool) { n.rejects.set(on) }
func failing(n *node, on bool)   { n.fails.set(on) }
func missing(n *node, on bool)   { n.setAbsent(on) }

// bad returns the nodes that faults touch, and from when to when.
func (sc *Scenario) bad() (nodes []int, from, to time.Duration) {
	from = forever
	for _, f := range sc.faults {
		if f.hidden {
			continue
		}
		for _, n := range f.nodes {
			if !slices.Contains(nodes, n) {
				nodes = append(nodes, n)
			}
		}
		from, to = min(from, f.from), max(to, f.to)
	}
	return nodes, from, to
}

// place returns the nodes of the copies of a shard.
func (sc *Scenario) place(rng *rand.Rand, index, shard int) []int {
	if sc.scattered {
		return rng.Perm(sc.nodes)[:sc.copies]
	}
	out := make([]int, sc.copies)
	for j := range out {
		out[j] = (index + shard + j) % sc.nodes
	}
	return out
}

// capacity returns how many searches a second all nodes, healthy, can answer. A document that is read beside them costs
// hardly anything.
func (sc *Scenario) capacity() float64 {
	if sc.drawn != nil {
		return sc.drawn.Capacity
	}
	cost := float64(sc.shards)*sc.demand.Seconds() + sc.reduce.Seconds()
	if sc.dedicated {
		cost -= sc.reduce.Seconds()
	}
	cost *= 1 - sc.byID
	return float64(sc.nodes) * sc.cpus / cost
}

// rateAt returns the searches a second that arrive at t in an open loop.
func (sc *Scenario) rateAt(t time.Duration) float64 {
	factor := 1.0
	for _, s := range sc.steps {
		if t >= s.at {
			factor = s.factor
		}
	}
	return math.Max(1e-9, sc.load*sc.capacity()*factor)
}
