// Package selection is the adaptive core: statistics of each node, a rank for
// each node, and from ranks the set of nodes that serves a search. It is pure:
// no I/O, no clock, no goroutine. Time and chance are arguments.
//
// A [Selector] is safe for concurrent use. Its hot path takes no lock, but when a node
// changes its state: all statistics of a node are atomics.
package selection

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/internal/draw"
	"sidestep/internal/stats"
)

// Options configures a [Selector].
type Options struct {
	// Clients is n in C3's q̂ = 1 + os·n + q: how many clients like this one send
	// to the same nodes; fewer than 1 are 1.
	Clients int
	// Seed makes draws repeatable. It is the number of the first turn, so that clients that begin together do
	// not send to the same nodes at the same moments.
	Seed uint64
	// Epoch is the moment from which time is counted; it should carry a monotonic
	// reading (time.Now()), so that a step of the wall clock is not taken for
	// silence.
	Epoch time.Time
	// Zone is where this client is; empty: zones do not count. A copy elsewhere is
	// used when the best one in Zone ranks ZoneFactor times worse, or more.
	Zone       string
	ZoneFactor float64
	// OnChange is told of every change of a node's state, if it is set. It must be
	// quick, may be called concurrently, and must not call the Selector.
	OnChange func(Change)
}

// Selector ranks nodes and chooses who serves a search.
type Selector struct {
	o      Options
	n      float64       // Options.Clients
	turn   atomic.Uint64 // choices
	passed atomic.Uint64 // requests that were not steered
	// chosenAt (ns) is when something was last chosen by what polls tell; 0: never.
	chosenAt atomic.Int64

	probes   rounds
	probers  atomic.Int64 // see [Selector.Probers]; 0: not told
	ejecting sync.Mutex   // held to eject a node or let it in: two at once must not exceed the cap

	coordinatingOnly atomic.Bool  // whether some node is [NodeInfo.CoordinatingOnly]
	expectedUntil    atomic.Int64 // ns: until when some node may get copies that is not known yet; 0: none

	processors   stats.Number // of a data node, the median
	processorsAt atomic.Int64 // ns: when that was found out

	mu       sync.Mutex                       // guards expected; held to change known and data
	known    atomic.Pointer[map[string]*Node] // by id
	expected map[string]int64                 // ns: when data nodes left or joined that have no copies since, by id
	data     atomic.Pointer[[]*Node]          // those that may hold shards, in the order of the last Update
}

// New returns a Selector without nodes.
func New(o Options) *Selector {
	s := &Selector{o: o, n: float64(max(1, o.Clients)), expected: map[string]int64{}}
	s.known.Store(&map[string]*Node{})
	s.data.Store(new([]*Node))
	return s
}

// NodeInfo identifies a node and says what the selection needs to know of it.
type NodeInfo struct {
	ID, Name   string
	Processors int    // that the engine has; 0 while unknown
	Zone       string // empty: none
	// NoData: it holds no shards, as a dedicated manager.
	NoData bool
	// CoordinatingOnly: searches may be sent through it although it holds no shards.
	CoordinatingOnly bool
	// EphemeralID is of the node's process; empty while unknown.
	EphemeralID string
	// Announced is how the cluster, or the relay that is followed, says that the node is about to leave; empty: neither does.
	Announced string
}

// Update makes the selector know exactly these nodes from now on and returns them in the
// order given. Nodes known before keep their statistics, whatever else of them changed; those of nodes
// that left, that begin to hold shards or cease to, are forgotten, so that a node that comes back starts without statistics.
func (s *Selector) Update(infos []NodeInfo, now time.Time) []*Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := *s.known.Load(), make(map[string]*Node, len(infos))
	out := make([]*Node, len(infos))
	for i, info := range infos {
		n, ok := before[info.ID]
		switch {
		case !ok || n.NoData != info.NoData:
			n = NewNode(info)
			n.joined.Store(len(before) > 0)
		case n.NodeInfo != info:
			n = &Node{info, n.statistics}
		}
		known[info.ID] = n
		out[i] = n
	}
	data := slices.DeleteFunc(slices.Clone(out), func(n *Node) bool { return n.NoData })
	s.expect(before, known, s.since(now))
	s.data.Store(&data)
	s.coordinatingOnly.Store(slices.ContainsFunc(infos, func(i NodeInfo) bool { return i.CoordinatingOnly }))
	s.known.Store(&known)
	return out
}

// since returns the time passed from the epoch to now, in nanoseconds.
func (s *Selector) since(now time.Time) int64 { return int64(now.Sub(s.o.Epoch)) }

// moment returns the time so many nanoseconds after the epoch.
func (s *Selector) moment(at int64) time.Time { return s.o.Epoch.Add(time.Duration(at)) }

// random returns draw i of a turn, in [0, 1). No state is shared.
func (s *Selector) random(turn, i uint64) float64 { return draw.Number(s.o.Seed, turn, i) }
