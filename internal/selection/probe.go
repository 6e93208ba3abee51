package selection

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Probe is a tiny search that a node is to be sent, so that no client pays for
// finding out how it is.
type Probe struct {
	// Node is whose copy is to serve it.
	Node *Node
	// Via is the coordinating node to send it through: Node itself only if it failed
	// searches, or is the only other one.
	Via *Node
	// Burst is how many such searches are to be sent at once; the last answer counts.
	Burst int
	round *round
	entry int
}

// AboutVia reports whether it is the time that the way to Via takes that counts.
func (p Probe) AboutVia() bool { return p.round != nil && p.round.entries[p.entry].about }

// ProbeOutcome is how a probe ended.
type ProbeOutcome struct {
	Took time.Duration
	// Failed: refused, an error, or not answered within ProbeTimeout.
	Failed bool
	// Unfit: it could not be sent, or what went wrong is not the node's fault.
	Unfit   bool
	Message string // what went wrong, for operators
}

// Timed reports whether Took is a time that a search would have taken, too: a
// failure that came at once is none.
func (o ProbeOutcome) Timed() bool { return !o.Unfit && (!o.Failed || o.Took >= ProbeTimeout) }

// ProbeTimeout is the deadline of a probe.
const ProbeTimeout = time.Second

// probing is what is known of the probes of a node.
type probing struct {
	wanted     atomic.Bool  // something speaks against it as holder of copies
	askedAt    atomic.Int64 // ns: when that last began
	unanswered atomic.Int64 // ns: since when probes are wanted and have told nothing; 0: they have
	idle       atomic.Bool  // the last one told nothing: it holds no copy, say
	against    atomic.Int32 // probes in a row that spoke against it
	viaWanted  atomic.Bool  // something speaks against it as coordinating node
	viaAskedAt atomic.Int64 // ns: when that last began
	mutedAt    atomic.Int64 // ns: when a probe through it was last overdue; 0: none is
	timed      atomic.Int64 // probes whose time is in spent
	spent      atomic.Int64 // ns: that they took

	// guarded by Selector.probes
	inFlight int
	last     int64 // ns: when the last one was sent
	viaLast  int64 // ns: when the last one through it was sent, to learn about the way
}

// round is a set of probes that were sent in the same instant, so that their times can
// be compared.
type round struct {
	sent    int64
	entries []entry
}

// entry is one probe of a round.
type entry struct {
	node, via *Node
	about     bool // it is the way to via that is asked for
	state     entryState
	took      float64 // ms, once answered or failed
	outcome   ProbeOutcome
	judged    bool
	closed    bool // it is not waited for any longer
}

// refused reports whether the probe failed, and not for want of time.
func (e *entry) refused() bool { return e.state == probeFailed && e.outcome.Took < ProbeTimeout }

type entryState uint8

const (
	probeAwaited entryState = iota
	probeAnswered
	probeFailed
	probeVoid // it tells nothing
)

// rounds are the probes under way.
type rounds struct {
	mu     sync.Mutex
	open   []*round
	number int
}

// ask wants n probed, if that was not asked for a moment ago.
func (s *Selector) ask(n *Node, at int64) {
	if !n.NoData && elapsed(&n.probe.askedAt, at, suspicionInterval) {
		n.probe.wanted.Store(true)
	}
}

// blind reports whether probes of n tell nothing, as they are refused, say.
func (s *Selector) blind(n *Node, at int64) bool {
	since := n.probe.unanswered.Load()
	return since != 0 && at-since > int64(2*ProbeTimeout)
}

// Suspect notes that a search on d takes much longer than such searches usually
// do: some node of d may be slow, or its coordinating node, so they are all to be probed.
func (s *Selector) Suspect(d *Decision, now time.Time) {
	if !s.policy.health {
		return
	}
	at := s.since(now)
	for _, n := range d.Nodes {
		s.ask(n, at)
	}
	if c := d.Coordinator; c != nil && c.probe.viaWanted.CompareAndSwap(false, true) {
		c.probe.viaAskedAt.Store(at)
	}
}

// Probes appends the probes due at now to dst and counts them as sent: each must
// end in one [Selector.ObserveProbe]. It is to be called every few milliseconds,
// and costs little while nothing is due. It also judges probes that are overdue.
func (s *Selector) Probes(dst []Probe, nodes []*Node, now time.Time) []Probe {
	if !s.policy.health {
		return dst
	}
	at := s.since(now)
	s.probes.mu.Lock()
	defer s.probes.mu.Unlock()
	open := s.probes.open[:0]
	for _, r := range s.probes.open {
		s.judge(r, at)
		if slices.ContainsFunc(r.entries, func(e entry) bool { return e.state == probeAwaited }) && at-r.sent < int64(2*ProbeTimeout) {
			open = append(open, r)
		}
	}
	clear(s.probes.open[len(open):])
	s.probes.open = open
	var suspects, returning, vias []*Node
	for _, n := range nodes {
		s.advance(n, at)
		if n.probe.viaWanted.Load() && !n.out() && at-n.probe.viaLast >= int64(suspicionInterval) {
			n.probe.viaWanted.Store(false)
			n.probe.viaLast = at
			vias = append(vias, n)
		}
		switch {
		case !s.due(n, at):
		case n.health.excluded() && n.health.good.Load() == goodProbes-1:
			returning = append(returning, n)
		case len(suspects) < roundSize:
			suspects = append(suspects, n)
		}
	}
	if len(suspects)+len(vias) > 0 {
		dst = s.begin(dst, nodes, occasion{suspects: suspects, vias: vias, burst: 1}, at)
	}
	if len(returning) > 0 {
		dst = s.begin(dst, nodes, occasion{suspects: returning, burst: probeBurst}, at)
	}
	return dst
}

// due reports whether n is to be probed at the moment at.
func (s *Selector) due(n *Node, at int64) bool {
	p := &n.probe
	if n.out() || n.NoData || p.inFlight > 0 {
		return false
	}
	if p.wanted.Load() {
		return at-p.last >= int64(suspicionInterval)
	}
	jittered := float64(probeInterval) * (0.8 + 0.4*s.random(uint64(at), 1)) //nolint:gosec // a draw, not a number
	return (n.health.condition() != Fine || n.health.avoid.Load()) && at-p.last >= int64(jittered)
}

// occasion is what a round is sent for.
type occasion struct {
	suspects []*Node // as holders of copies
	vias     []*Node // as coordinating nodes
	burst    int     // searches at once of each probe
}

// begin sends a round: the suspects, two peers to compare them with, and a probe through
// each suspect coordinating node.
func (s *Selector) begin(dst []Probe, nodes []*Node, o occasion, at int64) []Probe {
	suspects, vias := o.suspects, o.vias
	s.probes.number++
	r := &round{sent: at}
	via := s.via(nodes, append(slices.Clone(suspects), vias...), at)
	if via == nil {
		return dst
	}
	peers := s.peers(nodes, suspects, via, at)
	for _, n := range suspects {
		switch {
		case n.health.condition() == Failing:
			r.entries = append(r.entries, entry{node: n, via: n})
		case n != via: // it has its turn in the next round
			r.entries = append(r.entries, entry{node: n, via: via})
		}
	}
	for _, n := range peers {
		r.entries = append(r.entries, entry{node: n, via: via})
	}
	if len(r.entries) == 1 && r.entries[0].node != via && !via.probe.idle.Load() { // but two nodes
		r.entries = append(r.entries, entry{node: via, via: via})
	}
	for _, c := range vias {
		of := c
		if len(peers) > 0 {
			of = peers[0]
		} else if len(suspects) > 0 {
			of = suspects[0]
		}
		if c != via {
			r.entries = append(r.entries, entry{node: of, via: c, about: true})
		}
	}
	for i, e := range r.entries {
		if !e.about {
			e.node.probe.inFlight++
			e.node.probe.last = at
			e.node.probe.wanted.Store(false)
			e.node.probe.unanswered.CompareAndSwap(0, at)
		}
		dst = append(dst, Probe{Node: e.node, Via: e.via, Burst: o.burst, round: r, entry: i})
	}
	s.probes.open = append(s.probes.open, r)
	return dst
}

// comparedWith is how many nodes that nothing speaks against suspects are compared with.
const comparedWith = 2

// peers returns nodes to compare the suspects with, in each round others: those that
// nothing speaks against.
func (s *Selector) peers(nodes, suspects []*Node, via *Node, at int64) []*Node {
	var out []*Node
	for i := range nodes {
		n := nodes[(i+s.probes.number)%len(nodes)]
		if !s.fit(n, at) || n.probe.idle.Load() {
			continue
		}
		if n != via && len(out) < comparedWith && !slices.Contains(suspects, n) {
			out = append(out, n)
		}
	}
	return out
}

// via returns the data node to send a round through, in each round another one: if
// possible none of the suspects; nil if there is none.
func (s *Selector) via(nodes, suspects []*Node, at int64) (via *Node) {
	for i := range nodes {
		n := nodes[(i+s.probes.number)%len(nodes)]
		switch {
		case !s.fit(n, at):
		case !slices.Contains(suspects, n):
			return n
		case via == nil:
			via = n
		}
	}
	return via
}

// fit reports whether n may coordinate probes, or be compared with.
func (s *Selector) fit(n *Node, at int64) bool {
	return !n.NoData && n.serves() && !n.health.avoid.Load() && n.State() != Unresponsive && !s.muted(n, at)
}

// ObserveProbe feeds how a probe ended.
func (s *Selector) ObserveProbe(p Probe, o ProbeOutcome, now time.Time) {
	if p.round == nil {
		return // not one of this selector's
	}
	at := s.since(now)
	if o.Timed() && !p.AboutVia() {
		p.Node.probe.timed.Add(1)
		p.Node.probe.spent.Add(int64(o.Took))
	}
	s.probes.mu.Lock()
	defer s.probes.mu.Unlock()
	e := &p.round.entries[p.entry]
	if !e.about && !e.closed {
		p.Node.probe.inFlight--
	}
	e.took, e.outcome = millis(o.Took), o
	if p.Node.probe.idle.Store(o.Unfit); !o.Unfit {
		p.Node.probe.unanswered.Store(0)
	}
	switch {
	case o.Unfit:
		e.state = probeVoid
	case o.Failed && (e.node.rejects(at) || e.via != e.node && !e.via.serves()):
		e.state = probeVoid
	case o.Failed:
		e.state = probeFailed
	default:
		e.state = probeAnswered
	}
	s.judge(p.round, at)
}

// judge compares the probes of r with each other, as far as they are answered or
// overdue, and notes what they say of their nodes.
func (s *Selector) judge(r *round, at int64) {
	elapsed := millis(time.Duration(at - r.sent))
	for i := range r.entries {
		e := &r.entries[i]
		if e.judged || e.state == probeVoid {
			continue
		}
		took := e.took
		if e.state == probeAwaited {
			took = elapsed
		}
		peers, known, alone := r.peers(i, elapsed)
		good := peerFactor*peers + fineSlack
		if !e.about {
			good += s.excuse(e.node)
		}
		limit := good - fineSlack + e.node.slack()
		switch {
		case alone:
		case e.refused() && known:
			e.judged = true
			s.speaksAgainst(e, took > limit, at, "probe failed: "+e.outcome.Message)
		case e.refused():
		case e.state == probeAnswered && (!known || took <= good):
			e.judged = true
			s.speaksFor(e)
		case e.state != probeAwaited && took <= limit:
			e.judged = true // it tells nothing
		case known && took > limit:
			e.judged = true
			if e.state == probeAwaited && !e.about {
				e.closed = true
				e.node.probe.inFlight--
			}
			s.speaksAgainst(e, true, at, fmt.Sprintf("a probe took %.0f ms or more, those of its peers %.0f ms", took, peers))
		}
	}
}

// peers returns the lower median of what the other probes of r took (ms), and whether it
// is known yet; alone: there are no others.
func (r *round) peers(i int, elapsed float64) (took float64, known, alone bool) {
	var times [2*roundSize + 4]float64
	all := times[:0]
	open := 0
	for j, o := range r.entries {
		if j == i || o.about || o.state == probeVoid || o.refused() || len(all) == len(times) {
			continue
		}
		if o.state == probeAwaited {
			open++
			all = append(all, elapsed)
			continue
		}
		all = append(all, o.took)
	}
	if len(all) == 0 {
		return 0, false, true
	}
	took = median(all)
	return took, 2*(len(all)-open) >= len(all), false
}

// excuse returns how long (ms) a probe of n may have waited in its queue: behind shard
// queries that take as long as there they do, or, where n is slower than its peers at the
// same work, as they usually do.
func (s *Selector) excuse(n *Node) float64 {
	if !n.slowEverywhere() {
		return n.queued()
	}
	own, _ := n.service.value()
	return n.wait(min(own, s.usualService()))
}

// usualService returns the median of the data nodes' service times (ms).
func (s *Selector) usualService() float64 {
	var values []float64
	for _, m := range *s.all.Load() {
		if v, ok := m.service.value(); ok && !m.NoData {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0
	}
	return median(values)
}

// slack returns by how much (ms) a probe of n may be longer than its peers'.
func (n *Node) slack() float64 {
	if n.slowEverywhere() || n.health.excluded() {
		return fineSlack
	}
	return peerSlack
}

// speaksFor notes a probe that was as good as those of its peers.
func (s *Selector) speaksFor(e *entry) {
	if e.about {
		e.via.probe.mutedAt.Store(0)
		return
	}
	n := e.node
	n.probe.against.Store(0)
	n.health.avoid.Store(false)
	n.health.good.Add(1)
}

// speaksAgainst notes a probe that failed, or took far longer than those of its peers.
func (s *Selector) speaksAgainst(e *entry, late bool, at int64, why string) {
	if e.about {
		e.via.observeOverhead(max(e.took, millis(ProbeTimeout)/10), at)
		e.via.probe.mutedAt.Store(at)
		e.via.probe.viaWanted.Store(true)
		return
	}
	n, as := e.node, Slow
	if e.refused() && !late {
		as = Failing
		n.lastError.Store(&NodeError{At: s.epoch.Add(time.Duration(at)), Message: why})
	}
	against := n.probe.against.Add(1)
	c := n.health.condition()
	if c != Fine || against >= proofs {
		s.eject(n, as, at, why)
		if n.health.excluded() {
			return
		}
	} else {
		n.probe.wanted.Store(true)
	}
	s.ejecting.Lock()
	defer s.ejecting.Unlock()
	n.health.avoid.Store(c == Fine && s.withinCap(n))
}

// muted reports whether n, as coordinating node, has not answered a probe that others
// have.
func (s *Selector) muted(n *Node, at int64) bool { return lately(&n.probe.mutedAt, at) }

// unheard reports whether nothing came back through the coordinating node of d in
// the second half of the time that d has waited. It must do where nobody sends
// probes, or they tell nothing.
func (s *Selector) unheard(d *Decision, at int64) bool {
	c := d.Coordinator
	waits := c.probe.viaWanted.Load() && at-c.probe.viaAskedAt.Load() > int64(2*suspicionInterval)
	return (waits || s.blind(c, at)) && c.heardAt.Load() <= d.start+(at-d.start)/2
}
