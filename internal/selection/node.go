package selection

import (
	"math"
	"sync/atomic"
	"time"
)

// Penalty for failures, in milliseconds of rank: the first failure costs
// penaltyFirst, each further one doubles what is left of it up to penaltyMax, and
// it halves every penaltyHalfLife. So a failure is never fast, and a node that
// recovered is back within ten seconds.
const (
	penaltyFirst    = 250.0
	penaltyMax      = 8000.0
	penaltyHalfLife = time.Second
)

// Node holds the statistics of one node. Durations are milliseconds as
// float64: sub-millisecond nodes must not score 0.
type Node struct {
	NodeInfo

	health health
	probe  probing
	joined atomic.Bool // after the others: it is to ramp up when it gets copies

	stateAt     atomic.Int64 // ns: when State last changed, 0 if it never did
	polled      atomic.Int32 // State by polls and connections alone
	outstanding atomic.Int64 // searches sent to a set with this node, not yet answered
	alone       atomic.Int64 // those of them sent to this node only
	together    atomic.Int64 // searches of requests with many, not yet answered; not in outstanding
	recent      decaying     // those sent to sets or together, as far as the node has likely not answered
	served      atomic.Bool  // whether it answered shard queries before its last poll
	polledAt    atomic.Int64 // ns: last answered poll
	neededAt    atomic.Int64 // ns: when a choice last found that the others could not carry its load
	overSince   atomic.Int64 // ns: since when every choice found it far slower than others; 0: not so
	progressAt  atomic.Int64 // ns: last answer, or when outstanding last rose from 0
	startedAt   atomic.Int64 // ns: latest start of a search that has been answered

	response ewma   // R: of a shard search on this node as seen from outside of it
	service  ewma   // S: on the node, from its own counters
	queue    ewma   // q̄: of the search thread pool
	active   ewma   // search threads at work
	rate     ewma   // shard queries completed per ms
	latest   number // queue at the last poll

	rejected   ewma         // share of its search tasks that it rejected
	rejectedAt atomic.Int64 // ns: when that was last much

	coordinating  atomic.Int64  // requests sent through this node, not yet answered
	overhead      ewma          // response time less `took`: HTTP and coordination
	observedAt    atomic.Int64  // ns: when overhead was last observed
	coordinatedAt atomic.Int64  // ns: latest start of a search that it answered as coordinator
	heardAt       atomic.Int64  // ns: its latest answer to a client
	reach         ewma          // time of polls: HTTP again, whether it coordinates or not
	pulledAt      atomic.Int64  // ns: when a lost choice last moved response
	penalty       atomic.Uint64 // float64 bits, ms, as of penaltyAt
	penaltyAt     atomic.Int64

	searches  atomic.Int64 // searches whose list had this node
	failures  atomic.Int64
	strikes   atomic.Int32 // failures in a row
	failedAt  atomic.Int64 // ns
	lastError atomic.Pointer[NodeError]
	sent      window
}

// NodeError is the last failure blamed on a node.
type NodeError struct {
	At      time.Time `json:"at"`
	Message string    `json:"message"`
}

// State returns how the node is doing.
func (n *Node) State() State {
	life := State(n.polled.Load())
	if c := n.health.condition(); !n.out() && c != Fine {
		return c
	}
	return life
}

// Outstanding returns the searches sent to a set with this node that were not
// answered yet.
func (n *Node) Outstanding() int64 { return n.outstanding.Load() + n.together.Load() }

// out reports whether the node cannot be reached or does not answer.
func (n *Node) out() bool {
	return State(n.polled.Load()) == Unreachable
}

// serves reports whether the node answers and is not kept out.
func (n *Node) serves() bool { return !n.out() && !n.health.excluded() }

// usable reports whether nothing is proved against the node at this moment.
func (n *Node) usable() bool { return n.serves() && !n.health.avoid.Load() }

// acquire counts a search sent to this node, alone or in a set.
func (n *Node) acquire(at int64, alone bool) {
	if n.outstanding.Add(1) == 1 {
		n.progressAt.Store(at)
	}
	if alone {
		n.alone.Add(1)
		return
	}
	r, _ := n.response.value()
	n.recent.add(1, at, duration(r))
}

// acquireItems counts searches sent together, to this node alone or to a set.
func (n *Node) acquireItems(at, items int64) {
	n.together.Add(items)
	r, _ := n.response.value()
	n.recent.add(float64(items), at, duration(r))
}

// release is the counterpart of acquire.
func (n *Node) release(alone bool) {
	if alone {
		n.alone.Add(-1)
	}
	n.outstanding.Add(-1)
}

// owed returns os, the searches that this node itself is likely to owe an answer
// to. A search sent to it alone counts until it is answered. A search sent to a
// set is outstanding for as long as the slowest node of the set takes; to hold
// that against the others would make all of them look like the slow one. So it
// counts for about as long as this node usually takes: in the mean λ·R, by
// Little's law. So do searches that were sent together.
func (n *Node) owed(at int64) float64 {
	alone := float64(n.alone.Load())
	shared := float64(n.Outstanding()) - alone
	if shared <= 0 {
		return alone
	}
	r, ok := n.response.value()
	if !ok {
		return alone + shared
	}
	return alone + min(shared, n.recent.value(at, duration(r)))
}

// progress notes that the node took part in an answered search that began at
// start: it is not silent.
func (n *Node) progress(start, at int64) {
	raise(&n.progressAt, at)
	raise(&n.startedAt, start)
}

// silence returns for how long, in ms, nothing that the node takes part in has
// been answered; 0 if nothing is outstanding. It is the only signal that sees a
// node that says nothing at all.
func (n *Node) silence(at int64) float64 {
	if n.outstanding.Load() <= 0 {
		return 0
	}
	return max(0, millis(time.Duration(at-n.progressAt.Load())))
}

// punish raises the penalty after a failure.
func (n *Node) punish(at int64) {
	left := n.penaltyLeft(at)
	n.penaltyAt.Store(at)
	n.penalty.Store(math.Float64bits(min(penaltyMax, max(penaltyFirst, 2*left))))
}

// penaltyLeft returns what is left of the penalty, in ms.
func (n *Node) penaltyLeft(at int64) float64 {
	p := math.Float64frombits(n.penalty.Load())
	if p == 0 {
		return 0
	}
	age := max(0, at-n.penaltyAt.Load())
	return p * math.Exp2(-float64(age)/float64(penaltyHalfLife))
}

// raise sets a to v unless it is larger already.
func raise(a *atomic.Int64, v int64) {
	for {
		old := a.Load()
		if old >= v || a.CompareAndSwap(old, v) {
			return
		}
	}
}

// millis returns d in milliseconds without truncation.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// duration is the inverse of millis.
func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// Alive reports whether the node is worth a connection.
func (n *Node) Alive() bool { return !n.out() }
