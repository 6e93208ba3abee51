package selection

import "time"

// Figures are what is known of a node at one moment, as operators see it. Durations in milliseconds.
type Figures struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"`
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
	// Coordinated are all that were sent through the node, each attempt of them, and CoordinatedShare is its part of
	// those that were sent through any node in the last ten seconds, 0..1. CoordinatedLately are its own of these.
	Coordinated       int64   `json:"coordinated"`
	CoordinatedShare  float64 `json:"coordinated_share_last_10s"`
	CoordinatedLately float64 `json:"-"`
	Searches          int64   `json:"searches"` // whose list had the node
	Failures          int64   `json:"failures"` // blamed on it
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

// Figures returns what is known of n at now, but for its shares.
func (s *Selector) Figures(n *Node, now time.Time) Figures {
	at, state, why := s.since(now), n.State(), n.health.why.Load()
	p, timed := n.parts()
	f := Figures{
		ID: n.ID, Name: n.Name, State: state.String(), Parts: p, Overhead: n.overheadAt(at),
		Leaving: n.Announced, Outstanding: n.Outstanding(), Coordinating: n.coordinating.Load(), Searches: n.searches.Load(), Failures: n.failures.Load(),
		Coordinated: int64(n.coordinated.All()), CoordinatedLately: n.coordinated.Lately(at),
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
		f.LastError = &NodeError{At: s.clock(s.since(e.At), now), Message: e.Message}
		if state == Unknown || state == Unresponsive || state == Unreachable { // what a poll or a connection told
			why = &e.Message
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

// Candidates returns what d knows of each node with a copy, by position, until d is used again.
func (d *Decision) Candidates() []*Candidate { return d.order }

// QueueEstimate returns q̂ = 1 + outstanding × clients + queue.
func (s *Selector) QueueEstimate(p Parts) float64 { return p.estimate(s.n) }

// Limit returns from which response time on (ms), less what its own queue explains, a node
// stands out: FarFactor times the median plus SlowSlack. It returns false while nothing is
// measured.
func (d *Decision) Limit() (float64, bool) { return d.limit, d.limit > 0 }

// Verdict says why d does not list the copy of a shard that is on the node at the
// position given; copies are the shard's, as in [Request.Shards]. NotExcluded: it
// does, and nothing speaks against the node.
func (s *Selector) Verdict(d *Decision, copies []int, position int) Exclusion {
	c := &d.candidates[position]
	if c.Excluded != NotExcluded || c.Listed {
		return c.Excluded
	}
	may := d.eligible(copies, s.o.ZoneFactor)
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
		if n.health.excluded() && n.Alive() { // what cannot be reached is out anyway
			b.Out++
		}
	}
	b.AtMost = (b.Nodes + 1) / ejectOneIn
	return b
}
