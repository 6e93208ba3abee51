package selection

import (
	"slices"
	"sync/atomic"
	"time"

	"sidestep/internal/stats"
)

// Node is one node as of a [Selector.Update], with the statistics of it.
type Node struct {
	NodeInfo
	*statistics
}

// NewNode returns a node that no [Selector.Update] named, as a seed before the nodes of the
// cluster are known.
func NewNode(info NodeInfo) *Node {
	n := &Node{info, &statistics{}}
	n.health.state.Store(int32(Fine))
	return n
}

// Same reports whether n and m are the same node of the cluster, whatever else of it changed
// between two updates.
func (n *Node) Same(m *Node) bool { return m != nil && n.statistics == m.statistics }

// in reports whether n is one of nodes.
func (n *Node) in(nodes []*Node) bool { return slices.ContainsFunc(nodes, n.Same) }

// statistics are what is known of a node, whatever else of it changes. Durations are
// milliseconds as float64: sub-millisecond nodes must not score 0.
type statistics struct {
	health  health
	probe   probing
	asking  asking
	leaving atomic.Pointer[mark] // that it is about to leave, as [Selector.Leave] was told; nil: it is not
	joined  atomic.Bool          // after the others: it is to ramp up when it gets copies

	stateAt     atomic.Int64 // ns: when State last changed, 0 if it never did
	polled      atomic.Int32 // State by polls and connections alone
	outstanding atomic.Int64 // searches sent to a set with this node, or together with others, not yet answered
	polledAt    atomic.Int64 // ns: last answered poll
	workedAt    atomic.Int64 // ns: last poll that told of shard queries that were answered, or came after one without a queue
	queuedAt    atomic.Int64 // ns: last poll that told of a queue that was being worked off
	pollsApart  atomic.Int64 // ns: from the last answered poll but one to the last
	seenAt      atomic.Int64 // ns: when another node last told another response time of it: it has answered, or others were preferred to it
	missedAt    atomic.Int64 // ns: last poll that was not answered in time, or not at all
	neededAt    atomic.Int64 // ns: when a choice last found that the others could not carry its load
	// slowEverywhere: no choice since one that found it far slower than the other candidates has found it as fast; of an
	// ejected node, whether that was so when it was ejected.
	slowEverywhere atomic.Bool

	response stats.EWMA   // R: of a shard search on this node as seen from outside of it
	service  stats.EWMA   // S: on the node, from its own counters
	queue    stats.EWMA   // q̄: of the search thread pool
	rate     stats.EWMA   // shard queries completed per ms
	latest   stats.Number // queue at the last poll
	quota    stats.Number // processors that its control group lets it use; 0: all
	used     stats.Number // processors that it keeps busy; 0: not known

	throttled   stats.Number // ms for which it stood still at a time, as its quota ran out
	throttledAt atomic.Int64 // ns: the last poll that told of that
	short       atomic.Bool  // its quota leaves it a small part of the CPU that its peers have

	rejected   stats.EWMA   // share of its search tasks that it rejected
	rejectedAt atomic.Int64 // ns: when that was last much

	coordinating atomic.Int64 // requests sent through this node, not yet answered
	coordinated  stats.Window // all of them
	overhead     stats.EWMA   // response time less `took`: HTTP and coordination
	observedAt   atomic.Int64 // ns: when overhead was last observed
	heardAt      atomic.Int64 // ns: its latest answer to a client
	reach        stats.EWMA   // time of polls: HTTP again, whether it coordinates or not

	searches  atomic.Int64 // searches whose list had this node
	failures  atomic.Int64
	strikes   atomic.Int32 // failures in a row
	failedAt  atomic.Int64 // ns
	lastError atomic.Pointer[NodeError]
	sent      stats.Window
	sentThen  stats.Number // all that was sent until the last answered poll
	own       stats.EWMA   // shard queries sent per ms, of rate
}

// NodeError is the last failure blamed on a node.
type NodeError struct {
	At      time.Time `json:"at"`
	Message string    `json:"message"`
}

// State returns how the node is doing.
func (n *Node) State() State {
	life := State(n.polled.Load())
	switch c := n.health.condition(); {
	case n.Alive() && c != Fine:
		return c
	case life == Fine && n.health.busy.Load():
		return Busy
	}
	return life
}

// Outstanding returns the searches sent to a set with this node that were not
// answered yet.
func (n *Node) Outstanding() int64 { return n.outstanding.Load() }

// Alive reports whether the node can be reached, as far as is known.
func (n *Node) Alive() bool { return State(n.polled.Load()) != Unreachable }

// answersPolls reports whether the last poll was answered. A node that answers clients is not out
// of use for one that was not, but tells nothing of its queue either.
func (n *Node) answersPolls() bool { return n.missedAt.Load() <= n.polledAt.Load() }

// counts reports whether what a poll told of n at the moment told (0: nothing was) counts at the moment at: for so long, or
// until another poll is answered, whichever lasts longer.
func (n *Node) counts(told, at int64, long time.Duration) bool {
	return told != 0 && at-told <= int64(long) || n.saysLastPoll(told)
}

// saysLastPoll reports whether it was the last poll that told what was told at the moment told (0: nothing
// was), and that was answered: it counts until the next one.
func (n *Node) saysLastPoll(told int64) bool {
	return told != 0 && told >= n.polledAt.Load() && n.answersPolls()
}

// hasQueue reports whether the last poll told of a queue that is being worked off.
func (n *Node) hasQueue() bool { return n.saysLastPoll(n.queuedAt.Load()) }

// processors returns how many processors the node may keep busy; 0 while unknown. What the
// engine counts is rounded up to whole ones, and a quota may be far below one.
func (n *Node) processors() float64 {
	if quota := n.quota.Value(); quota > 0 {
		return min(quota, float64(n.Processors))
	}
	return float64(n.Processors)
}

// load returns how many CPUs the node keeps busy: with its shard queries, λ·S, or with all that it
// does, where it tells that.
func (n *Node) load() float64 {
	return max(n.rate.Mean()*n.service.Mean(), min(n.used.Value(), n.processors()))
}

// utilisation returns the part of the time for which the node's CPUs are busy, 0 if it is not known.
func (n *Node) utilisation() float64 {
	if n.Processors == 0 {
		return 0
	}
	return n.load() / n.processors()
}

// full reports whether the node's CPUs are busy for more than fullLoad of the time, as far as is known.
func (n *Node) full() bool { return n.utilisation() > fullLoad }

// serves reports whether the node answers and is not kept out.
func (n *Node) serves() bool { return n.Alive() && !n.health.excluded() }

// usable reports whether nothing is proved against the node at this moment.
func (n *Node) usable() bool { return n.serves() && !n.health.avoided() }

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
