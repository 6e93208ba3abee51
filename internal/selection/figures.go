package selection

import (
	"math"
	"time"
)

// Figures are what is known of a node at one moment, as operators see it. Durations in milliseconds.
type Figures struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"`
	// Proved is Fine, Slow, Failing or Ramping: what probes and failures proved.
	Proved State `json:"-"`
	// Since is when the state began, null while the node was never seen.
	Since *time.Time `json:"since"`
	// Why says what the node is known by to be in its state; empty while it is fine.
	Why string `json:"why,omitempty"`
	// Leaving is how the node is said to be about to leave: [Drained] or [NodeInfo.Announced];
	// empty if it is not. LeavingUntil is until when it is drained, in whole seconds.
	Leaving      string     `json:"leaving,omitempty"`
	LeavingUntil *time.Time `json:"leaving_until,omitempty"`
	Rank         *float64   `json:"rank"` // null without statistics
	Parts        Parts      `json:"parts"`
	Overhead     float64    `json:"http_overhead_ms"` // of HTTP and coordination
	Outstanding  int64      `json:"outstanding"`
	// Coordinating are the requests sent through the node and not answered yet, steered or not.
	Coordinating int64 `json:"coordinating"`
	Searches     int64 `json:"searches"` // whose list had the node
	Failures     int64 `json:"failures"` // blamed on it
	// Share is its part of the shard queries that all nodes were expected to get in the last minute, 0..1, and Sent
	// are its own.
	Share float64 `json:"share_last_minute"`
	Sent  float64 `json:"-"`
	// PollAge is how long ago, in seconds, the node last answered a poll; null if
	// it never did.
	PollAge *float64 `json:"poll_age_s"`
	// Probes of the node that were answered, or not within [ProbeTimeout], and the time that they took together.
	Probes    int64         `json:"probes"`
	ProbeTime time.Duration `json:"-"`

	LastError *NodeError `json:"last_error"`
}

// Figures returns what is known of n at now, but for its share.
func (s *Selector) Figures(n *Node, now time.Time) Figures {
	at, state, why := s.since(now), n.State(), n.health.why.Load()
	p, timed := n.parts()
	f := Figures{
		ID: n.ID, Name: n.Name, State: state.String(), Proved: n.health.condition(), Parts: p, Overhead: n.overheadAt(at),
		Leaving: n.Announced, Outstanding: n.Outstanding(), Coordinating: n.coordinating.Load(), Searches: n.searches.Load(), Failures: n.failures.Load(),
		Sent: n.sent.Total(at), Probes: n.probe.timed.Load(), ProbeTime: time.Duration(n.probe.spent.Load()),
	}
	if _, polled := n.queue.Value(); timed || polled {
		f.Rank = new(p.Rank(s.n))
	}
	if changed := n.stateAt.Load(); changed != 0 {
		f.Since = new(s.clock(changed, now).Truncate(time.Millisecond))
	}
	if until := s.DrainedUntil(n, now); !until.IsZero() {
		f.Leaving, f.LeavingUntil = Drained, new(s.clock(s.since(until), now).Truncate(time.Second))
	}
	if polled := n.polledAt.Load(); polled != 0 {
		f.PollAge = new(max(0, now.Sub(s.moment(polled)).Seconds()))
	}
	if e := n.lastError.Load(); e != nil {
		f.LastError = &NodeError{At: s.clock(e.at, now), Message: e.message}
		if state == Unknown || state == Unresponsive || state == Unreachable { // what a poll or a connection told
			why = &e.message
		}
	}
	if why != nil && state != Fine {
		f.Why = *why
	}
	return f
}

// clock returns a moment by the clock as it is set now, which may be otherwise than at the epoch.
func (s *Selector) clock(at int64, now time.Time) time.Time {
	return now.Add(time.Duration(at - s.since(now))).UTC()
}

// Candidate is what a decision knew of a node with a copy when it was made, and made of it, as operators see it.
// Durations in milliseconds.
type Candidate struct {
	Of       *Node `json:"-"`
	Position int   `json:"-"` // in Request.Nodes
	Remote   bool  `json:"-"` // it is in another zone

	Node   string `json:"node"`
	NodeID string `json:"node_id"`
	Listed bool   `json:"listed"`
	// Excluded says what speaks against the node or, once it is the verdict on a copy, its copies; Why the same in words.
	Excluded Exclusion `json:"excluded,omitzero"`
	Why      string    `json:"why,omitempty"`
	// Rank in ms; lower is better.
	Rank float64 `json:"rank"`
	// Measured is false where there are no statistics: then Rank is the others' median.
	Measured bool  `json:"measured"`
	Parts    Parts `json:"parts"`
	// QueueEstimate is q̂ = 1 + outstanding × clients + queue.
	QueueEstimate float64 `json:"queue_estimate"`
	// Unqueued is the response time less what the node's queue explains: the figure
	// that is held against the limit.
	Unqueued float64 `json:"response_less_queue_ms"`
	// ShardQueries are those that the search brings the node, in the mean.
	ShardQueries float64 `json:"shard_queries"`
}

// Candidates returns what d knew of each node with a copy, without words.
func (s *Selector) Candidates(d *Decision) []Candidate {
	all := make([]Candidate, len(d.order))
	for i, c := range d.order {
		all[i] = Candidate{
			Of: c.node, Position: c.position, Remote: c.remote, Node: c.node.Name, NodeID: c.node.ID, Listed: c.listed, Excluded: c.why,
			Rank: c.rank, Measured: c.known, Parts: c.Parts, QueueEstimate: c.estimate(s.n), Unqueued: c.unqueued, ShardQueries: c.tasks,
		}
	}
	return all
}

// Limit returns from which response time on (ms), less what its own queue explains, a node
// stands out: FarFactor times the median plus SlowSlack. It returns false while nothing is
// measured.
func (d *Decision) Limit() (float64, bool) { return d.limit, d.limit > 0 && !math.IsInf(d.limit, 1) }

// Verdict says why d does not list the copy of a shard that is on the node at the
// position given; copies are the shard's, as in [Request.Shards]. NotExcluded: it
// does, and nothing speaks against the node.
func (s *Selector) Verdict(d *Decision, copies []int, position int) Exclusion {
	c := &d.candidates[position]
	if c.why != NotExcluded || c.listed {
		return c.why
	}
	may, _ := d.eligible(copies, s.o.ZoneFactor)
	switch {
	case c.remote && !may.remote:
		return OtherZone
	case d.Reason == Affinity:
		return OtherSticks
	default:
		return RanksWorse
	}
}

// Bound is how many of the data nodes are ejected, and how many may be: one in ejectOneIn.
type Bound struct {
	Out    int `json:"out"`
	AtMost int `json:"at_most"`
	Nodes  int `json:"nodes"`
}

// Bound returns the bound on ejected nodes, and how far it is used.
func (s *Selector) Bound() Bound {
	var b Bound
	for _, n := range *s.data.Load() {
		b.Nodes++
		if n.health.excluded() {
			b.Out++
		}
	}
	b.AtMost = (b.Nodes + 1) / ejectOneIn
	return b
}
