package selection

import (
	"math"
	"time"
)

// Figures are what is known of a node at one moment, for those who show it.
type Figures struct {
	State  State
	Proved State     // Fine, Slow, Failing or Ramping: what probes and failures proved
	Why    string    // what speaks against it, while State is Busy or Proved is not Fine
	Since  time.Time // when State began, zero while the node was never seen
	Polled time.Time // when it last answered a poll, zero if it never did
	// Leaving is how the node is said to be about to leave: [Drained] or [NodeInfo.Announced];
	// empty if it is not. LeavingUntil is until when it is drained.
	Leaving      string
	LeavingUntil time.Time

	Parts    Parts
	Measured bool    // some time is known, or the queue
	Rank     float64 // the same under every policy, in ms
	Overhead float64 // ms: of HTTP and coordination

	Searches, Failures int64   // searches whose list had the node, failures blamed on it
	Sent               float64 // expected shard queries of the last minute
	// Probes that were answered, or not within ProbeTimeout, and the time that they took
	// together.
	Probes    int64
	ProbeTime time.Duration
	LastError *NodeError
}

// Figures returns what is known of n at now.
func (s *Selector) Figures(n *Node, now time.Time) Figures {
	at := s.since(now)
	p, timed := n.parts()
	_, polled := n.queue.Value()
	f := Figures{
		State: n.State(), Proved: n.health.condition(), Parts: p, Measured: timed || polled, Rank: p.Rank(s.n), Overhead: n.overheadAt(at),
		Searches: n.searches.Load(), Failures: n.failures.Load(), Sent: n.sent.Total(at),
		Probes: n.probe.timed.Load(), ProbeTime: time.Duration(n.probe.spent.Load()), LastError: n.lastError.Load(),
	}
	if why := n.health.why.Load(); why != nil && (f.State == Busy || f.Proved != Fine) {
		f.Why = *why
	}
	if changed := n.stateAt.Load(); changed != 0 {
		f.Since = s.o.Epoch.Add(time.Duration(changed))
	}
	f.Leaving = n.Announced
	if until := n.leaving.Load(); until > at {
		f.Leaving, f.LeavingUntil = Drained, s.o.Epoch.Add(time.Duration(until))
	}
	if polled := n.polledAt.Load(); polled != 0 {
		f.Polled = s.o.Epoch.Add(time.Duration(polled))
	}
	return f
}

// Assessment is what a decision knew of a node with a copy when it was made.
type Assessment struct {
	Node     *Node
	Position int // in Request.Nodes
	Listed   bool
	Excluded Exclusion // why the node is to be left out, whichever copy is asked for
	Remote   bool      // it is in another zone
	Rank     float64   // lower is better; -Inf under the policy ars without statistics
	Measured bool      // there are statistics: else Rank is the others' median
	Parts    Parts
	Queue    float64 // q̂ = 1 + outstanding × clients + queue
	Unqueued float64 // ms: the response time less what the node's queue explains
	Tasks    float64 // shard queries that the search brings the node, in the mean
}

// Assessments returns what d knew of each node with a copy.
func (s *Selector) Assessments(d *Decision) []Assessment {
	all := make([]Assessment, len(d.order))
	for i, c := range d.order {
		all[i] = Assessment{
			Node: c.node, Position: c.position, Listed: c.listed, Excluded: c.why, Remote: c.remote,
			Rank: c.rank, Measured: c.known, Parts: c.Parts, Queue: c.estimate(s.n), Unqueued: c.unqueued,
		}
		if c.listed {
			all[i].Tasks = c.tasks
		}
	}
	return all
}

// Limit returns from which response time on (ms), less what its own queue explains, a node
// stands out: FarFactor times the median plus SlowSlack. It returns false while nothing is
// measured, and where the policy knows no limit.
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
	for _, n := range *s.all.Load() {
		if n.NoData {
			continue
		}
		b.Nodes++
		if n.health.excluded() {
			b.Out++
		}
	}
	b.AtMost = (b.Nodes + 1) / ejectOneIn
	return b
}
