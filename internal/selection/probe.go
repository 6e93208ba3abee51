package selection

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/internal/stats"
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

// probing is what is known of the probes of a node.
type probing struct {
	wanted     atomic.Bool  // something speaks against it as holder of copies
	askedAt    atomic.Int64 // ns: when that last began
	unanswered atomic.Int64 // ns: since when probes are sent and tell nothing; 0: they do
	aloneAt    atomic.Int64 // ns: since when its probes end in time and are compared with nothing; 0: they are compared
	aloneLast  atomic.Int64 // ns: when the last of these ended
	blindAt    atomic.Int64 // ns: when response times were last taken for proof
	voids      atomic.Int32 // probes in a row that told nothing
	idleAt     atomic.Int64 // ns: when one last told nothing: the node holds no copy, say
	against    atomic.Int64 // ns: since when probes speak against it, late ones since its last queue; 0: they do not
	viaWanted  atomic.Bool  // something speaks against it as coordinating node
	viaAskedAt atomic.Int64 // ns: when that last began
	viaAway    atomic.Int32 // probes of the way to it that are awaited
	silentAt   atomic.Int64 // ns: when a probe through it was last overdue; 0: none is
	timed      atomic.Int64 // probes whose time is in spent
	spent      atomic.Int64 // ns: that they took
	took       stats.Number // ms: that the last of them took
	refused    atomic.Bool  // the last of them failed at once
	overdue    atomic.Int64 // ns: when one was sent that is late and has not ended; 0: there is none
	toldAt     atomic.Int64 // ns: when another sidestep last told of a probe of it
	heardAt    atomic.Int64 // ns: when one that counted was last told of
	weighedAt  atomic.Int64 // ns: when needed was found out
	needed     atomic.Bool  // the others could not carry its load

	// guarded by Selector.probes
	inFlight int
	last     int64 // ns: when the last one was sent
	lateAt   int64 // ns: when one last spoke against it
	lateFor  int64 // ns: for how long they have, and none for it; each counts for suspicionInterval at most
	viaLast  int64 // ns: when the last of these was sent
}

// round is a set of probes that were sent in the same instant, so that their times can
// be compared.
type round struct {
	sent    int64
	local   bool // of two nodes: one is asked through itself
	burst   bool // each is of probeBurst searches
	noted   bool // it is kept for others, or others sent it
	entries []entry
	times   []float64 // scratch
}

// entry is one probe of a round.
type entry struct {
	node, via *Node
	about     bool // it is the way to via that is asked for
	state     entryState
	took      float64 // ms, once answered or failed
	outcome   ProbeOutcome
	judged    bool // it has nothing more to say; while it is awaited: it was late, and is not waited for any longer
	foreign   bool // another sidestep sent it
	single    bool // and it was no burst
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

	sampledAt int64  // ns: when a node that nothing speaks against was last probed for that
	choices   uint64 // how many there were then

	shared
}

// Probers says how many clients probe the same nodes, as far as that is known. It is cheap enough
// to be called at each look.
func (s *Selector) Probers(count int) { s.probers.Store(int64(count)) }

// apart returns how long after the last probe of n the next one is due that is usually due after d, so
// that many clients together do not burden it. Of probeBurst clients that are known each
// probes it as often as one would; of more, and where n is polled so rarely that many must be polling
// it, each more rarely. The moment is drawn anew for each probe, or all would meet that found the
// node bad together.
func (s *Selector) apart(n *Node, d time.Duration, at int64) time.Duration {
	told := time.Duration(s.probers.Load()) * probeInterval / probeBurst
	polled := twice*time.Duration(n.pollsApart.Load()) - ProbeTimeout
	longer := min(max(told, polled), holdMemory) - d
	if longer <= 0 || lately(&s.probes.others, at) {
		return d
	}
	return d + time.Duration(twice*s.random(uint64(n.probe.last), twice)*float64(longer)) //nolint:gosec // a draw, not a number
}

// sample has one node probed every ProbeTimeout, more rarely if many clients probe, one after the
// other, while there are searches: whether probes are permitted, and the cluster allows lists, is known before it
// matters, and what they need has been used before.
func (s *Selector) sample(nodes []*Node, at int64) {
	r := &s.probes
	if r.sampledAt == 0 {
		r.sampledAt = at
	}
	if len(nodes) == 0 || at-r.sampledAt < int64(s.apart(nodes[r.number%len(nodes)], ProbeTimeout, at)) {
		return
	}
	r.sampledAt = at
	if choices := s.turn.Load(); r.choices != choices || lately(&r.others, at) {
		r.choices = choices
		if n := nodes[r.number%len(nodes)]; !s.needed(n, at) {
			n.probe.wanted.Store(true)
		}
	}
}

// ask wants n probed, if that was not asked for a moment ago, and the cluster can do without n. One that is
// avoided is probed anyway.
func (s *Selector) ask(n *Node, at int64) {
	if !n.NoData && !n.health.avoided() && elapsed(&n.probe.askedAt, at, suspicionInterval) && !s.needed(n, at) {
		n.probe.wanted.Store(true)
	}
}

// askAgain wants n probed, if it is avoided, as a poll has told something new: whether it is busy. Where another
// sidestep probes it, what that one finds is told.
func (s *Selector) askAgain(n *Node, at int64) {
	if n.health.avoided() && !lately(&n.probe.toldAt, at) {
		n.probe.wanted.Store(true)
	}
}

// blind reports whether probes of n tell nothing, as they are refused, say.
func (s *Selector) blind(n *Node, at int64) bool {
	since := n.probe.unanswered.Load()
	return since != 0 && at-since > int64(roundLife) && n.probe.voids.Load() > 1
}

// alone reports whether probes of n were answered, or failed at once through another node, for roundLife, and there was
// nothing to compare them with: no other node has a copy, say, or all of them reject what they are sent.
func (n *Node) alone() bool {
	since := n.probe.aloneAt.Load()
	return n.probe.aloneLast.Load()-since > int64(roundLife) && since != 0
}

// compared notes that there is something to compare a probe with.
func (p *probing) compared() { p.aloneAt.Store(0) }

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
	if c := d.Coordinator; c != nil {
		s.askVia(c, at)
	}
}

// askVia wants the way through c probed, if it is not wanted already, or nobody has
// probed it for long, and the cluster can do without c.
func (s *Selector) askVia(c *Node, at int64) {
	p := &c.probe
	if (!p.viaWanted.Load() || at-p.viaAskedAt.Load() > int64(ProbeTimeout)) && !s.needed(c, at) {
		p.viaAskedAt.Store(at)
		p.viaWanted.Store(true)
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
	raise(&s.probes.lookedAt, at)
	s.judgeHeard(nodes, at)
	open := s.probes.open[:0]
	for _, r := range s.probes.open {
		s.judge(r, at)
		s.probes.note(s, r)
		if slices.ContainsFunc(r.entries, func(e entry) bool { return e.state == probeAwaited }) && at-r.sent < int64(roundLife) {
			open = append(open, r)
		}
	}
	clear(s.probes.open[len(open):])
	s.probes.open = open
	s.sample(nodes, at)
	var suspects, returning, vias []*Node
	for _, n := range nodes {
		s.advance(n, at)
		if p := &n.probe; p.viaWanted.Load() && !n.out() && p.viaAway.Load() == 0 && at-p.viaLast >= int64(suspicionInterval) && len(vias) < roundSize {
			vias = append(vias, n)
		}
		switch {
		case !s.due(n, at):
		case n.health.excluded() && n.health.good.Load() == twice-1:
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
	fine := n.health.condition() == Fine
	if fine && !n.health.avoided() {
		return false
	}
	again := !fine && n.health.good.Load() == twice-1
	if n.health.condition() != Failing && !again && lately(&p.toldAt, at) {
		return false // another sidestep probes it
	}
	interval := s.jittered(probeInterval, at)
	// What has answered an own probe well once is looked at again soon, and so is what tells nothing.
	if (!again || p.heardAt.Load() >= p.last) && p.voids.Load() == 0 && p.aloneAt.Load() == 0 {
		interval = s.apart(n, interval, at)
	}
	return at-p.last >= int64(interval)
}

// jittered returns d, give or take probeJitter of it, so that many sidesteps do not act at once.
func (s *Selector) jittered(d time.Duration, at int64) time.Duration {
	return time.Duration(float64(d) * (1 - probeJitter + twice*probeJitter*s.random(uint64(at), 1))) //nolint:gosec // a draw, not a number
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
	r := &round{sent: at, burst: o.burst > 1}
	via := s.via(nodes, suspects, vias, at)
	if via == nil {
		return dst
	}
	peers := s.peers(nodes, suspects, via, at)
	for _, n := range peers { // first: they must not be missing where room is short
		r.entries = append(r.entries, entry{node: n, via: via})
	}
	for _, n := range suspects {
		n.probe.last = at
		switch {
		case n.health.condition() == Failing:
			r.entries = append(r.entries, entry{node: n, via: n})
		case n != via: // it has its turn in the next round
			r.entries = append(r.entries, entry{node: n, via: via})
		}
	}
	asked := func(e entry) bool { return e.node == via }
	if len(peers) == 0 && len(r.entries) > 0 && !slices.ContainsFunc(r.entries, asked) { // but two nodes that are well
		r.local = true
		r.entries = append(r.entries, entry{node: via, via: via})
	}
	for _, c := range vias {
		of := c
		if len(peers) > 0 {
			of = peers[0]
		}
		if c != via {
			c.probe.viaWanted.Store(false)
			c.probe.viaLast = at
			c.probe.viaAway.Add(1)
			r.entries = append(r.entries, entry{node: of, via: c, about: true})
		}
	}
	if len(r.entries) == 0 {
		return dst
	}
	for i, e := range r.entries {
		if !e.about {
			p := &e.node.probe
			p.inFlight++
			p.last = at
			p.wanted.Store(false)
			if p.unanswered.Load() == 0 || at-p.idleAt.Load() > int64(roundLife) { // what told nothing is long ago
				p.voids.Store(0)
				p.unanswered.Store(at)
			}
		}
		dst = append(dst, Probe{Node: e.node, Via: e.via, Burst: o.burst, round: r, entry: i})
	}
	s.probes.open = append(s.probes.open, r)
	return dst
}

// peers returns nodes to compare the suspects with, in each round others: those that
// nothing speaks against, and whose probes told something of late; if there are none of
// these, others.
func (s *Selector) peers(nodes, suspects []*Node, via *Node, at int64) []*Node {
	var out, idle []*Node
	for i := range nodes {
		n := nodes[(i+s.probes.number)%len(nodes)]
		switch {
		case n == via || !s.fit(n, at) || slices.Contains(suspects, n):
		case n.probe.voids.Load() > 0 && lately(&n.probe.idleAt, at):
			idle = append(idle, n)
		case len(out) < twice:
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		out = idle[:min(twice, len(idle))]
	}
	return out
}

// via returns the data node to send a round through, in each round another one: if
// possible none of the suspects, and rather one that is suspect as holder of copies than
// as coordinating node. If none is fit it is one that is merely avoided, or does not answer polls, and a suspect only if there is no
// other: the next round goes through another of these. It is nil if all are ejected.
func (s *Selector) via(nodes, suspects, vias []*Node, at int64) *Node {
	var suspect, last, avoided, unfit, unfitSuspect *Node
	for i := range nodes {
		n := nodes[(i+s.probes.number)%len(nodes)]
		fit, suspected := s.fit(n, at), slices.Contains(suspects, n)
		switch {
		case n.NoData || !n.serves():
		case !fit && suspected:
			unfitSuspect = cmp.Or(unfitSuspect, n)
		case !fit && s.answers(n, at):
			avoided = cmp.Or(avoided, n)
		case !fit:
			unfit = cmp.Or(unfit, n)
		case slices.Contains(vias, n):
			last = cmp.Or(last, n)
		case suspected:
			suspect = cmp.Or(suspect, n)
		default:
			return n
		}
	}
	return cmp.Or(suspect, last, avoided, unfit, unfitSuspect)
}

// fit reports whether n may coordinate probes, or be compared with.
func (s *Selector) fit(n *Node, at int64) bool {
	return !n.NoData && n.usable() && s.answers(n, at)
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
		p.Node.probe.tookAsLong(millis(o.Took))
	}
	s.probes.mu.Lock()
	defer s.probes.mu.Unlock()
	e := &p.round.entries[p.entry]
	e.took, e.outcome = millis(o.Took), o
	if e.about {
		e.via.probe.viaAway.Add(-1)
	} else {
		e.node.probe.ended(o.Unfit, e.judged, at) // judged while it was awaited: late
		e.node.probe.overdue.CompareAndSwap(p.round.sent, 0)
		if !o.Unfit && !e.judged && p.round.sent > e.node.health.badAt.Load() {
			e.uncompared(o, at)
		}
	}
	e.state = e.stateAfter(o, at)
	s.judge(p.round, at)
	s.probes.note(s, p.round)
}

// stateAfter returns the state of the probe once it has ended.
func (e *entry) stateAfter(o ProbeOutcome, at int64) entryState {
	switch {
	case o.Unfit, o.Failed && (e.node.rejects(at) || e.via != e.node && !e.via.serves()):
		return probeVoid
	case o.Failed:
		return probeFailed
	default:
		return probeAnswered
	}
}

// awaited returns for how long (ms) a probe has been awaited that is late; 0: there is none.
func (p *probing) awaited(at int64) float64 {
	if sent := p.overdue.Load(); sent != 0 {
		return millis(time.Duration(at - sent))
	}
	return 0
}

// ended notes that a probe of the node ended; void: it told nothing; late: it was given up
// before.
func (p *probing) ended(void, late bool, at int64) {
	if !late {
		p.inFlight--
	}
	if void {
		p.voids.Add(1)
		p.idleAt.Store(at)
		return
	}
	p.voids.Store(0)
	p.unanswered.Store(0)
}

// silent reports whether n, as coordinating node, has not answered a probe that others
// have, or is asked for an answer of its own that others have given.
func (s *Selector) silent(n *Node, at int64) bool {
	return lately(&n.probe.silentAt, at) || n.owes(at)
}

// unheard reports whether nothing came back through the coordinating node of d in
// the second half of the time that d has waited. It must do where nobody sends
// probes, or those of the nodes with the copies tell nothing.
func (s *Selector) unheard(d *Decision, at int64) bool {
	c := d.Coordinator
	asked := at - c.probe.viaAskedAt.Load()
	heard := c.heardAt.Load()
	waits := c.probe.viaWanted.Load() && c.probe.viaAway.Load() == 0 && asked > int64(twice*suspicionInterval) && asked < int64(ProbeTimeout)
	told := slices.ContainsFunc(d.Nodes, func(n *Node) bool { return !s.blind(n, at) })
	return (waits || !told) && heard-d.start <= at-heard
}
