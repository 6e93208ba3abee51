package selection

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Probe is a tiny search that a node is to be sent, so that no client pays for
// finding out how it is.
type Probe struct {
	// Node is whose copy is to serve it.
	Node *Node
	// Via is the coordinating node to send it through: Node itself only if it failed
	// searches, else another, so that the way between nodes is probed, too.
	Via *Node
	// Burst is how many such searches are to be sent at once; the last answer counts.
	Burst int
	sent  int64
	knock bool // it is about Via
}

// AboutVia reports whether it is the time that the way to Via takes that counts.
func (p Probe) AboutVia() bool { return p.knock }

// ProbeOutcome is how a probe ended.
type ProbeOutcome struct {
	Took time.Duration
	// Failed: refused, an error, or not answered within ProbeTimeout.
	Failed bool
	// Full: it failed as a queue was full.
	Full bool
	// Unfit: it could not be sent, or what went wrong is not the node's fault.
	Unfit   bool
	Message string // what went wrong, for operators
}

// ProbeTimeout is the deadline of a probe.
const ProbeTimeout = time.Second

const (
	// probeInterval is between probes of a node that is kept out or ramps, give or take a
	// fifth.
	probeInterval = 400 * time.Millisecond
	// sampleInterval is between probes of nodes that nothing speaks against.
	sampleInterval = time.Second
	// suspicionInterval is between two rounds of probes on suspicion, and
	// suspicionNodes how many nodes one search can bring under it.
	suspicionInterval = 500 * time.Millisecond
	suspicionNodes    = 16
	// probeBurst is how many searches at once decide whether a node may come back: one
	// that is starved of CPU answers one in time, and not eight.
	probeBurst = 8
	// A probe is overdue after doubtFactor times what probes take, but not before
	// doubtAfter (ms): its node is left out from then on.
	doubtFactor = 5
	doubtAfter  = 40.0
	// A probe speaks against its node from badFactor times what probes take plus
	// badSlack (ms) on, and never below the limit for searches.
	badFactor = 3
	badSlack  = 60.0
	// pollsLate is after which time without a poll its absence is a sign, too.
	pollsLate = 500 * time.Millisecond
)

// probing is what is known of the probes of a node.
type probing struct {
	wanted   atomic.Bool          // a search that it takes part in is overdue
	sent     atomic.Int64         // ns: when the one that is awaited was sent; 0: none is
	last     atomic.Int64         // ns: when the last one was sent
	fit      atomic.Int64         // ns: when one last ended that told something
	answered atomic.Int64         // ns: when one was last answered, in time or not
	strikes  atomic.Int32         // in a row that spoke against the node
	via      atomic.Pointer[Node] // that the one that is awaited was sent through
	limit    number               // ms: the limit of searches when it was last suspected
	timed    atomic.Int64         // probes whose time is in spent
	spent    atomic.Int64         // ns: that they took
}

// Timed reports whether Took is a time that a search would have taken, too: a
// failure that came at once is none.
func (o ProbeOutcome) Timed() bool { return !o.Unfit && (!o.Failed || o.Took >= ProbeTimeout) }

// since begins to wait for probes at the moment at, when a node is sent away.
func (p *probing) since(at int64) { raise(&p.fit, at) }

// running reports whether probes of a node that is kept out tell anything.
func (p *probing) running(at int64) bool {
	return at-p.fit.Load() < int64(2*ProbeTimeout)
}

// Suspect notes that a search on d takes much longer than such searches usually
// do: some node of d may be slow, so they are all to be probed.
func (s *Selector) Suspect(d *Decision, now time.Time) {
	at := s.since(now)
	if !s.policy.health || len(d.Nodes) == 0 {
		return
	}
	d.askFor(at)
	if d.pressure > busyQueue || !elapsed(&s.suspectedAt, at, suspicionInterval) {
		return // under pressure all probes would wait in queues, too
	}
	start := int(s.round.Add(1) % uint64(len(d.Nodes))) //nolint:gosec // below len
	for i := range min(len(d.Nodes), suspicionNodes) {
		n := d.Nodes[(start+i)%len(d.Nodes)]
		if !n.health.excluded() { // else it is held to the limit that it was sent away by
			n.probe.limit.set(d.limit)
		}
		n.probe.wanted.Store(true)
	}
}

// Probes appends the probes due at now to dst and counts them as sent: each must
// end in one [Selector.ObserveProbe]. It is to be called every few milliseconds,
// and costs little while nothing is due. It also accuses nodes whose probe is far
// overdue while others were answered.
func (s *Selector) Probes(dst []Probe, nodes []*Node, now time.Time) []Probe {
	if !s.policy.health {
		return dst
	}
	at := s.since(now)
	s.sample(nodes, at)
	for i, n := range nodes {
		p := &n.probe
		s.advance(n, at)
		dst = s.knocks(dst, n, at)
		if p.sent.Load() != 0 && !s.givesUp(n, at) && !s.reroutes(n, at) {
			continue
		}
		if n.out() || !s.due(n, at) {
			continue
		}
		via := n
		if n.health.condition() != Failing {
			if via = s.via(nodes, i, at); via == nil {
				continue
			}
		}
		p.wanted.Store(false)
		p.last.Store(at)
		p.via.Store(via)
		p.sent.Store(at)
		dst = append(dst, Probe{Node: n, Via: via, Burst: n.burst(), sent: at})
	}
	return dst
}

// sample has one node probed every sampleInterval, one after the other, while there
// are searches: suspicion needs to know what probes usually take, and connections
// and code that were used before.
func (s *Selector) sample(nodes []*Node, at int64) {
	if len(nodes) == 0 || !elapsed(&s.sampledAt, at, sampleInterval) {
		return
	}
	if turn := s.turn.Load(); s.sampledTurn.Swap(turn) != turn {
		nodes[int(s.sampled.Add(1)%uint64(len(nodes)))].probe.wanted.Store(true) //nolint:gosec // below len
	}
}

// givesUp reports whether the probe that is awaited is so late that it is not waited
// for any longer. The next one goes through another node: if that is as late, n is
// accused.
func (s *Selector) givesUp(n *Node, at int64) bool {
	p := &n.probe
	sent := p.sent.Load()
	late := millis(time.Duration(at - sent))
	if !s.doubtful(n, at) || late <= s.probeLimit(n) || !p.sent.CompareAndSwap(sent, 0) {
		return false
	}
	s.speakAgainst(n, Slow, at, fmt.Sprintf("no answer to probes, the last for %.0f ms", late))
	return true
}

// speakAgainst notes a probe that was late or failed, and accuses n from the second
// in a row on: one may be chance, or the fault of the node it went through. Of a
// node that is just coming back one is enough: with little to do it may have
// answered in time, and with its share it cannot.
func (s *Selector) speakAgainst(n *Node, as State, at int64, why string) {
	if n.probe.strikes.Add(1) >= 2 || n.health.condition() != Fine {
		s.accuse(n, as, at, why)
		return
	}
	n.probe.wanted.Store(true)
}

// due reports whether n is to be probed at the moment at.
func (s *Selector) due(n *Node, at int64) bool {
	p := &n.probe
	if p.wanted.Load() {
		return true
	}
	jittered := float64(probeInterval) * (0.8 + 0.4*s.random(uint64(at), 1)) //nolint:gosec // a draw, not a number
	return n.health.condition() != Fine && at-p.last.Load() >= int64(jittered)
}

// burst returns how many searches the next probe of n is to be: more than one if its
// answer decides whether n comes back. To go on so while it ramps would be a load
// of its own where there are many sidecars.
func (n *Node) burst() int {
	if n.health.condition() == Slow && n.health.good.Load() == goodProbes-1 {
		return probeBurst
	}
	return 1
}

// via returns a node to send the probe of nodes[i] through: in each round another
// one, and another for each node.
func (s *Selector) via(nodes []*Node, i int, at int64) *Node {
	from := 1 + int(s.round.Load()%uint64(max(1, len(nodes)-1))) //nolint:gosec // below len
	last := nodes[i].probe.via.Load()
	var second *Node
	for j := range nodes {
		n := nodes[(i+from+j)%len(nodes)]
		if n == nodes[i] || !n.serves() || s.coordinatingRank(n, at) > penaltyFirst {
			continue
		}
		if n != last && !s.doubtful(n, at) {
			return n
		}
		second = n
	}
	return second
}

// ObserveProbe feeds how a probe ended.
func (s *Selector) ObserveProbe(p Probe, o ProbeOutcome, now time.Time) {
	n, at := p.Node, s.since(now)
	if p.knock {
		s.observeKnock(p, o, at)
		return
	}
	if o.Timed() {
		n.probe.timed.Add(1)
		n.probe.spent.Add(int64(o.Took))
	}
	if !n.probe.sent.CompareAndSwap(p.sent, 0) {
		return // given up
	}
	if o.Unfit || (o.Failed && p.Via != n && (p.Via.health.excluded() || s.overdue(p.Via, at))) {
		return
	}
	if !o.Failed || o.Full {
		raise(&n.probe.answered, at)
	}
	if o.Full && s.crowded(n) {
		return // they all have more than they can
	}
	raise(&n.probe.fit, at)
	took := millis(o.Took)
	if !o.Failed && took < s.probeLimit(n) {
		if n.health.condition() == Fine {
			s.learnProbeTime(took)
		}
		raise(&s.probedAt, p.sent)
		n.probe.strikes.Store(0)
		n.health.good.Add(1)
		if !n.health.excluded() {
			n.progress(p.sent, at)
		}
		return
	}
	as, why := Slow, fmt.Sprintf("probe took %.0f ms, limit %.0f ms", took, s.probeLimit(n))
	if o.Failed {
		as, why = Failing, "probe failed: "+o.Message
		n.lastError.Store(&NodeError{At: now, Message: why})
		if o.Took >= ProbeTimeout {
			as = Slow
		}
		if took >= s.probeLimit(n) {
			raise(&n.health.late, at)
		}
	}
	// A queue that explains it is known from the next poll on.
	polled := n.polledAt.Load()
	if n.probe.strikes.Load() > 0 && !o.Failed && polled < p.sent && at-polled < int64(pollsLate) {
		n.probe.wanted.Store(true)
		return
	}
	s.speakAgainst(n, as, at, why)
}

// learnProbeTime takes in what a probe of a node that is fine took (ms). A pause that
// queues explain is a handful of long ones, and must not become the usual.
func (s *Selector) learnProbeTime(took float64) {
	if usual, ok := s.probeTime.value(); ok {
		took = min(took, 2*usual+doubtAfter/4)
	}
	s.probeTime.observe(took)
}

// probeLimit returns from which time on, in ms, a probe speaks against n.
func (s *Selector) probeLimit(n *Node) float64 {
	usual, _ := s.probeTime.value()
	return max(badFactor*usual+badSlack, n.probe.limit.value()) + n.queued()
}

// doubtful reports whether n has not answered a probe yet that others, sent no
// earlier, have; unless the node that it was sent through is no better.
func (s *Selector) doubtful(n *Node, at int64) bool {
	return s.overdue(n, at) && !s.misrouted(n, at)
}

// undecided reports whether a probe of n is about to be sent, was sent too lately to be
// answered, or waits at a node that is no better; and none spoke against n before.
func (s *Selector) undecided(n *Node, at int64) bool {
	sent := n.probe.sent.Load()
	switch {
	case n.probe.strikes.Load() > 0:
		return false
	case sent == 0:
		return n.probe.wanted.Load()
	default:
		return !s.late(at-sent) || s.misrouted(n, at)
	}
}

// misrouted reports whether the probe of n that is awaited was sent through a node that
// is no better: it tells nothing of n.
func (s *Selector) misrouted(n *Node, at int64) bool {
	via := n.probe.via.Load()
	return n.probe.sent.Load() != 0 && via != n && (via.health.excluded() || via.probe.strikes.Load() > 0 || s.overdue(via, at))
}

// reroutes gives up an overdue probe that tells nothing of n, so that the next one goes
// through another node.
func (s *Selector) reroutes(n *Node, at int64) bool {
	sent := n.probe.sent.Load()
	if !s.overdue(n, at) || !s.misrouted(n, at) || !n.probe.sent.CompareAndSwap(sent, 0) {
		return false
	}
	n.probe.wanted.Store(true)
	return true
}

// overdue reports whether n has not answered a probe yet that others, sent no
// earlier, have.
func (s *Selector) overdue(n *Node, at int64) bool {
	sent := n.probe.sent.Load()
	return sent != 0 && s.probedAt.Load() >= sent && s.late(at-sent-int64(duration(n.queued())))
}

// late reports whether probes do not usually take as long, in ns.
func (s *Selector) late(took int64) bool {
	usual, _ := s.probeTime.value()
	return millis(time.Duration(took)) > max(doubtAfter, doubtFactor*usual)
}
