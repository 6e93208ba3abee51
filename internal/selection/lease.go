package selection

import (
	"slices"
	"time"

	"sidestep/internal/stats"
)

// Acquire counts a request begun at now on every node of the decision: so many searches that it sends together, 0 for a read by
// id, which is no shard query. It must be followed by exactly one [Decision.Release], on every path. Only of one search a time
// may be observed.
func (s *Selector) Acquire(d *Decision, searches int, now time.Time) {
	d.start, d.items = s.since(now), int64(max(1, searches))
	for i, n := range d.Nodes {
		n.outstanding.Add(d.items)
		n.searches.Add(d.items)
		n.sent.Add(d.start, float64(searches)*d.listed[i].ShardQueries)
	}
	if d.Coordinator != nil {
		d.Coordinator.coordinating.Add(1)
	}
}

// Expected returns how many shard queries of the search the node at position i of Nodes
// may expect, and whether some of them can go to no other node listed.
func (d *Decision) Expected(i int) (tasks float64, sole bool) {
	return d.listed[i].ShardQueries, d.listed[i].sole
}

// Fit reports whether d lists no node that is to be kept out by d, for want of other copies, or by another decision about the
// same copies: where one of these is avoided others may be needed.
func (d *Decision) Fit(other *Decision) bool {
	return !slices.ContainsFunc(d.listed, func(c *Candidate) bool {
		return c.Excluded.KeepsOut() || other.candidates[c.Position].Excluded.KeepsOut()
	})
}

// Release returns the lease. Returning it twice is a mistake that is ignored: a
// count that drops below the truth would make a busy node look idle for ever.
func (d *Decision) Release() {
	if d.items == 0 {
		return
	}
	for _, n := range d.Nodes {
		n.outstanding.Add(-d.items)
	}
	if d.Coordinator != nil {
		d.Coordinator.coordinating.Add(-1)
	}
	d.items = 0
}

// Outcome is how a search was answered, as far as its nodes are concerned. A search
// that the client gave up has no outcome: release its lease and observe nothing.
type Outcome struct {
	// ResponseTime from sending to the head of the answer.
	ResponseTime time.Duration
	// Took is the time the coordinating node says the search took, without HTTP.
	Took    time.Duration
	HasTook bool
}

// Blame notes that a search failed or was partial through no fault of the client's, and on which nodes; message says what
// failed, for operators.
func (s *Selector) Blame(nodes []*Node, message string, now time.Time) {
	for i, n := range nodes {
		if !n.in(nodes[:i]) { // one search is one failure, however many of its attempts were
			s.fail(n, s.since(now), message)
		}
	}
}

// Observe feeds the outcome of a search that was answered into the statistics, at now.
func (s *Selector) Observe(d *Decision, o Outcome, now time.Time) {
	inside := millis(o.ResponseTime) // without HTTP, as far as that is known
	if o.HasTook {
		inside = min(inside, max(leastTime, millis(o.Took)))
	}
	if c := d.Coordinator; c != nil {
		c.strikes.Store(0)
		if o.HasTook {
			c.observeOverhead(max(0, millis(o.ResponseTime-o.Took)), s.since(now))
		}
	}
	if len(d.Nodes) == 1 { // of a set nobody knows who was slow
		d.Nodes[0].response.Observe(inside)
	}
}

// Poll is one poll of one node.
type Poll struct {
	// State is Fine, Unresponsive, Unreachable, or Unknown if the answer was an error: that
	// speaks against the node, and proves nothing.
	State State
	// Took is how long the poll took.
	Took time.Duration
	// Queue of the search thread pool.
	Queue float64
	// ServiceTime is the mean time of a shard query on the node since the poll
	// before, 0 if none completed; Queries how many did, and Elapsed how long ago
	// that poll was, 0 on the first.
	ServiceTime time.Duration
	Queries     int64
	Elapsed     time.Duration
	// Rejected is the share of search tasks that the node rejected since the poll
	// before, from 0 to 1, as its queue was full.
	Rejected float64
	// Quota is how many processors the node's control group lets it use; 0: all that it has.
	Quota float64
	// Used is how many processors it kept busy of late, whatever for; 0: not known.
	Used float64
	// Throttled is for how long at a time the node stood still, as that ran out; 0: it did not.
	Throttled time.Duration
	// Coordinated is the response time of other nodes, by id, as this node saw
	// it when coordinating, where it changed since the poll before.
	Coordinated map[string]Seen
	// Message says what failed, for operators.
	Message string
}

// Seen is an average of response times that a coordinating node keeps of another
// (EWMA with α = 0.3): now, and at the poll before, 0 if there was none.
type Seen struct {
	Now, Before time.Duration
}

// sample returns, in ms, the response time that moved the average. An average that
// falls was moved by less than itself, however high it still is: a node that has
// recovered must not be held to its past.
func (c Seen) sample() float64 {
	now, before := millis(c.Now), millis(c.Before)
	if before <= now {
		return now
	}
	return max(0, stats.Sample(before, now))
}

// ObservePoll feeds a poll of the node with this id. A poll that fails is a fact
// about the node. A node that is not known is none.
func (s *Selector) ObservePoll(id string, p Poll, now time.Time) {
	nodes := *s.known.Load()
	n := nodes[id]
	if n == nil {
		return
	}
	at := s.since(now)
	if p.State != Fine {
		raise(&n.missedAt, at)
		n.lastError.Store(&NodeError{s.moment(at), p.Message})
	}
	if p.State == Unresponsive && (!n.Alive() || n.heardAt.Load() > at-int64(p.Took)) {
		// It is not back as it does not answer. Or it answers clients while it owes the poll: it is busy, which
		// is no proof.
		return
	}
	s.setLife(n, p.State, p.Message, at)
	s.advance(n, at)
	if p.State != Fine {
		return
	}
	if p.Queries > 0 || n.latest.Value() == 0 {
		raise(&n.workedAt, at)
	}
	if p.Queue > 0 && at-n.workedAt.Load() < int64(ProbeTimeout) {
		raise(&n.queuedAt, at)
	}
	n.latest.Set(p.Queue)
	raise(&n.polledAt, at)
	n.reach.Observe(millis(p.Took))
	n.queue.Observe(p.Queue)
	n.quota.Set(p.Quota)
	n.used.Set(p.Used)
	n.short.Store(s.short(n, at))
	if p.Throttled > 0 {
		n.throttled.Set(millis(p.Throttled))
		raise(&n.throttledAt, at)
	}
	if n.rejected.Observe(p.Rejected); n.rejected.Mean() >= rejectsMuch {
		raise(&n.rejectedAt, at)
	}
	sent := n.sent.All()
	if p.Elapsed > 0 {
		n.pollsApart.Store(int64(p.Elapsed))
		n.rate.Observe(float64(p.Queries) / millis(p.Elapsed))
		n.own.Observe((sent - n.sentThen.Value()) / millis(p.Elapsed))
	}
	n.sentThen.Set(sent)
	if s := millis(p.ServiceTime); s > 0 {
		n.service.Observe(s)
	}
	for other, r := range p.Coordinated {
		// What a node says of itself has no network in it.
		if m := nodes[other]; m != nil && other != id {
			m.response.Observe(max(r.sample(), m.service.Mean()))
			raise(&m.seenAt, at)
		}
	}
	if n.pollsApart.Load() > int64(probeInterval) && !n.hasQueue() { // else probes come as soon
		s.askAgain(n, at)
	}
}

// Heard notes that a node answered a request of a client at now, well or not, or, if it could not be reached before, a
// probe that went through it.
func (s *Selector) Heard(n *Node, now time.Time) {
	at := s.since(now)
	raise(&n.heardAt, at)
	if !n.Alive() && n.unpolled() {
		s.changing(n, at, "", func() { n.polled.Store(int32(Fine)) })
	}
}

// unpolled reports whether nobody polls n, as an address that was given: no poll tells that it is well again.
func (n *Node) unpolled() bool { return n.polledAt.Load() == 0 && n.missedAt.Load() == 0 }

// setLife notes what a poll or a connection said of the node's life. A node that
// is back must answer probes before it gets its share little by little.
func (s *Selector) setLife(n *Node, life State, why string, at int64) {
	var was State
	s.changing(n, at, why, func() {
		if was = State(n.polled.Swap(int32(life))); life == Unreachable {
			n.health.clear()
		} else if was == Unreachable {
			n.health.state.Store(int32(Fine)) // whether there is room to eject it is found out anew
		}
	})
	if life != was {
		n.probe.vain.Store(0) // that is new
	}
	if life != Fine { // only one of these asks
		s.askAgain(n, at)
		if life != Unknown || was != Unknown { // one error after the other tells nothing new of a node that answers its probes well
			s.ask(n, at)
		}
	}
	if was == Unreachable && life != Unreachable { // what was measured before counts no more
		n.response.Reset()
		n.service.Reset()
		n.queue.Reset()
		n.rejected.Reset()
		n.probe.took.Set(millis(ProbeTimeout)) // until one tells more
		if s.eject(n, Slow, at, "was unreachable"); !n.health.excluded() {
			n.health.why.Store(new("was unreachable"))
			s.slowStart(n, at)
		}
	}
}

// MarkUnreachable notes that a connection to n was refused or reset: it stays out
// until a poll reaches it again. Where nobody polls it, it is tried again, by one request, after holdMemory.
func (s *Selector) MarkUnreachable(n *Node, message string, now time.Time) {
	s.setLife(n, Unreachable, message, s.since(now))
	s.fail(n, s.since(now), message)
}
