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
	wanted     atomic.Bool  // something speaks against it
	askedAt    atomic.Int64 // ns: when that last began; of one that nobody polls, when it was tried again
	vain       atomic.Int32 // times in a row that it did, and probes did not speak against it
	untoldAt   atomic.Int64 // ns: since when its probes tell nothing, as they are refused or there is nothing to compare them with; 0: they do
	untoldLast atomic.Int64 // ns: when the last of these ended
	unfit      atomic.Int32 // probes in a row that could not be sent, or went wrong through no fault of the node
	against    atomic.Int64 // ns: since when probes speak against it, late ones since its last queue; 0: they do not
	timed      atomic.Int64 // probes whose time is in spent
	spent      atomic.Int64 // ns: that they took
	took       stats.Number // ms: that the last of them took; +Inf: it failed at once
	overdue    atomic.Int64 // ns: when one was sent that is late and has not ended; 0: there is none
	toldAt     atomic.Int64 // ns: when another sidestep last told of a probe of it
	heardAt    atomic.Int64 // ns: when one that counted was last told of

	// guarded by Selector.probes
	inFlight int
	last     int64 // ns: when the last one was sent
	lateFor  int64 // ns: for how long they have, and none for it; each counts for suspicionInterval at most
}

// round is a set of probes that were sent in the same instant, so that their times can
// be compared.
type round struct {
	sent    int64
	local   bool // of two nodes: one is asked through itself
	burst   bool // each is of probeBurst searches
	entries []entry
	times   []float64 // scratch
}

// awaited reports whether some probe of the round has not ended.
func (r *round) awaited() bool {
	return slices.ContainsFunc(r.entries, func(e entry) bool { return !e.ended })
}

// entry is one probe of a round.
type entry struct {
	node, via *Node
	outcome   ProbeOutcome // once it has ended
	ended     bool
	void      bool // it tells nothing
	judged    bool // it has nothing more to say; while it is awaited: it was late, and is not waited for any longer
	foreign   bool // another sidestep sent it, and it says something
}

// took returns how long (ms) the probe took, or has taken, where that many have elapsed since it was sent.
func (e *entry) took(elapsed float64) float64 {
	if !e.ended {
		return elapsed
	}
	return millis(e.outcome.Took)
}

// refused reports whether the probe failed, and not for want of time.
func (e *entry) refused() bool { return !e.void && !e.outcome.Timed() }

// rounds are the probes under way, and what sidesteps tell each other of theirs. All that is not atomic is guarded by mu.
type rounds struct {
	mu     sync.Mutex
	open   []*round
	number int

	sampledAt int64  // ns: when a node that nothing speaks against was last probed for that
	sampled   int    // which node is next
	choices   uint64 // how many there were then

	findings []Finding    // the last rounds that were sent here
	found    int64        // the number of the last one
	lookedAt atomic.Int64 // ns: when probes due here were last asked for
	others   atomic.Int64 // ns: when others last said what they suspect, or that they search
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
// matters, and what they need has been used before. It returns the node, nil if none has its turn.
func (s *Selector) sample(nodes []*Node, at int64) *Node {
	r := &s.probes
	if r.sampledAt == 0 {
		r.sampledAt = at
	}
	if len(nodes) == 0 {
		return nil
	}
	n := nodes[r.sampled%len(nodes)]
	if !n.usable() { // it is probed anyway, or cannot be: the next one has its turn
		r.sampled++
		return nil
	}
	if at-r.sampledAt < int64(s.apart(n, ProbeTimeout, at)) {
		return nil
	}
	r.sampledAt = at
	if choices := s.turn.Load(); r.choices != choices || lately(&r.others, at) {
		r.choices = choices
		r.sampled++
		n.probe.wanted.Store(true)
		return n
	}
	return nil
}

// ask wants n probed, if that was not asked for a moment ago. Where probes find nothing again and again it is asked more
// rarely, once in ProbeTimeout in the end: a node may be slower for good, as it serves a heavier index. One that is ejected or
// avoided is probed anyway.
func (s *Selector) ask(n *Node, at int64) {
	if n.NoData || n.health.excluded() || n.health.avoided() {
		return
	}
	p := &n.probe
	vain := min(p.vain.Load(), twice*twice+1)
	if at-p.askedAt.Load() > int64(failureMemory) {
		vain = 0
	}
	if elapsed(&p.askedAt, at, min(suspicionInterval<<max(0, vain-1), ProbeTimeout)) {
		p.vain.Store(vain + 1)
		p.wanted.Store(true)
	}
}

// askAgain wants n probed, if it is avoided, as a poll has told something new: whether it is busy. Where another
// sidestep probes it, what that one finds is told.
func (s *Selector) askAgain(n *Node, at int64) {
	if n.health.avoided() && !lately(&n.probe.toldAt, at) {
		n.probe.wanted.Store(true)
	}
}

// untold reports whether probes of n have told nothing for roundLife: they are refused, say, or there was nothing to
// compare them with, as no other node has a copy, or all of them reject what they are sent.
func (n *Node) untold() bool {
	since := n.probe.untoldAt.Load()
	return since != 0 && n.probe.untoldLast.Load()-since > int64(roundLife)
}

// told notes that a probe of the node could be compared, or was not answered, whatever others do.
func (p *probing) told() {
	p.untoldAt.Store(0)
	p.unfit.Store(0)
}

// Permitted notes that probes are permitted that were refused: that those before told nothing says nothing of their nodes.
func (s *Selector) Permitted() {
	for _, n := range *s.data.Load() {
		n.probe.told()
	}
}

// Suspect notes that a search on d takes much longer than such searches usually
// do: some node of d may be slow, so they are all to be probed.
func (s *Selector) Suspect(d *Decision, now time.Time) {
	at := s.since(now)
	for _, n := range d.Nodes {
		s.ask(n, at)
	}
}

// Probes appends the probes due at now to dst and counts them as sent: each must
// end in one [Selector.ObserveProbe]. It is to be called every few milliseconds,
// and costs little while nothing is due. It also judges probes that are overdue.
func (s *Selector) Probes(dst []Probe, now time.Time) []Probe {
	at := s.since(now)
	s.probes.mu.Lock()
	defer s.probes.mu.Unlock()
	raise(&s.probes.lookedAt, at)
	for _, r := range s.probes.open {
		s.judge(r, at)
	}
	s.probes.open = slices.DeleteFunc(s.probes.open, func(r *round) bool { return !r.awaited() || at-r.sent >= int64(roundLife) })
	nodes := *s.data.Load()
	sampled := s.sample(nodes, at)
	var suspects, returning []*Node
	var all carried
	for _, n := range nodes {
		s.advance(n, at)
		switch {
		case !s.due(n, at):
		case n != sampled && n.usable() && all.needs(n, nodes): // what speaks against it could not be acted upon
			n.probe.wanted.Store(false)
		case n.health.excluded() && n.health.good.Load() == twice-1:
			returning = append(returning, n)
		default:
			suspects = append(suspects, n)
		}
	}
	dst = s.begin(dst, nodes, suspects, 1, at)
	return s.begin(dst, nodes, returning, probeBurst, at)
}

// due reports whether n is to be probed at the moment at.
func (s *Selector) due(n *Node, at int64) bool {
	p := &n.probe
	if !n.Alive() {
		return false
	}
	if p.wanted.Load() { // a second one, as the first may wait at the node that it was sent through, but not of what is ejected
		return (p.inFlight == 0 || p.inFlight < twice && !n.health.excluded()) && at-p.last >= int64(suspicionInterval)
	}
	fine := n.health.condition() == Fine
	if fine && !n.health.avoided() || p.inFlight > 0 {
		return false
	}
	again := !fine && n.health.good.Load() == twice-1
	if n.health.condition() != Failing && !again && lately(&p.toldAt, at) {
		return false // another sidestep probes it
	}
	interval := s.jittered(probeInterval, at)
	// What has answered an own probe well once is looked at again soon, and so is what tells nothing.
	if (!again || p.heardAt.Load() >= p.last) && p.untoldAt.Load() == 0 && p.unfit.Load() == 0 {
		interval = s.apart(n, interval, at)
	}
	return at-p.last >= int64(interval)
}

// jittered returns d, give or take probeJitter of it, so that many sidesteps do not act at once.
func (s *Selector) jittered(d time.Duration, at int64) time.Duration {
	return time.Duration(float64(d) * (1 - probeJitter + twice*probeJitter*s.random(uint64(at), 1))) //nolint:gosec // a draw, not a number
}

// begin sends a round: the suspects, if there are any, roundSize of them at most, and two peers to compare them with. Each
// probe is of burst searches at once.
func (s *Selector) begin(dst []Probe, nodes, suspects []*Node, burst int, at int64) []Probe {
	if len(suspects) == 0 {
		return dst
	}
	suspects = suspects[:min(len(suspects), roundSize)]
	s.probes.number++
	via, peers := s.companions(nodes, suspects, at)
	if via == nil {
		return dst
	}
	r := &round{sent: at, burst: burst > 1}
	for _, n := range peers { // first: they must not be missing where room is short
		r.entries = append(r.entries, entry{node: n, via: via})
	}
	for _, n := range suspects {
		switch {
		case n.health.condition() == Failing:
			r.entries = append(r.entries, entry{node: n, via: n})
		case n != via: // else there are no peers, see below
			r.entries = append(r.entries, entry{node: n, via: via})
		}
	}
	asked := func(e entry) bool { return e.node == via }
	if len(peers) == 0 && !slices.ContainsFunc(r.entries, asked) { // but two nodes that are well, or the only one that is left
		r.local = len(r.entries) > 0
		r.entries = append(r.entries, entry{node: via, via: via})
	}
	for i, e := range r.entries {
		p := &e.node.probe
		p.inFlight++
		p.last = at
		p.wanted.Store(false)
		dst = append(dst, Probe{Node: e.node, Via: e.via, Burst: burst, round: r, entry: i})
	}
	s.probes.open = append(s.probes.open, r)
	return dst
}

// companions returns the data node to send a round through, and two others to compare the suspects with, in each round
// others: nodes that nothing speaks against, and peers of which probes told something of late. If there are no such peers,
// others are; via then is one of the suspects, else one that is avoided, or does not answer polls. What is ejected is the
// last resort. It is nil if none can be reached.
func (s *Selector) companions(nodes, suspects []*Node, at int64) (via *Node, peers []*Node) {
	var suspect, unfit, ejected *Node
	var idle []*Node
	for i := range nodes {
		n := nodes[(i+s.probes.number)%len(nodes)]
		switch {
		case !n.Alive():
		case !n.serves():
			ejected = cmp.Or(ejected, n)
		case !n.usable() || !n.answers(at):
			unfit = cmp.Or(unfit, n)
		case slices.Contains(suspects, n):
			suspect = cmp.Or(suspect, n)
		case via == nil:
			via = n
		case n.probe.unfit.Load() > 0 && lately(&n.probe.untoldLast, at):
			idle = append(idle, n)
		case len(peers) < twice:
			peers = append(peers, n)
		}
	}
	if len(peers) == 0 {
		peers = idle[:min(twice, len(idle))]
	}
	return cmp.Or(via, suspect, unfit, ejected), peers
}

// ObserveProbe feeds how a probe ended.
func (s *Selector) ObserveProbe(p Probe, o ProbeOutcome, now time.Time) {
	at := s.since(now)
	if o.Timed() {
		p.Node.probe.timed.Add(1)
		p.Node.probe.spent.Add(int64(o.Took))
		p.Node.probe.took.Set(millis(o.Took))
	}
	s.probes.mu.Lock()
	defer s.probes.mu.Unlock()
	e := &p.round.entries[p.entry]
	e.outcome = o
	e.node.probe.overdue.CompareAndSwap(p.round.sent, 0)
	if !e.judged { // else it was late, and is not waited for any longer
		e.node.probe.inFlight--
		e.uncompared(p.round.sent, at)
	}
	e.end(at)
	s.judge(p.round, at)
	s.note(p.round)
}

// end notes that the probe has ended, and whether its outcome tells anything.
func (e *entry) end(at int64) {
	o := e.outcome
	e.ended, e.void = true, o.Unfit || o.Failed && (e.node.rejects(at) || e.via != e.node && !e.via.serves())
}

// awaited returns for how long (ms) a probe has been awaited that is late; 0: there is none.
func (p *probing) awaited(at int64) float64 {
	if sent := p.overdue.Load(); sent != 0 {
		return millis(time.Duration(at - sent))
	}
	return 0
}
