package selection

import (
	"fmt"
	"sync/atomic"
	"time"
)

// State is how a node is doing, as far as it is known.
type State int32

// States of a node. An ejected node is not listed while every shard keeps another copy, and neither is a busy one.
const (
	Unknown      State = iota // not polled yet, or its last poll was answered with an error
	Fine                      // nothing is proved against it
	Busy                      // avoided for long: probes take far longer than those of its peers, as it has more to do than it can
	Slow                      // ejected: probes took far longer than those of its peers
	Failing                   // ejected: it failed probes or searches that went well on its peers
	Ramping                   // slow start: back, with a share that grows
	Unresponsive              // did not answer its last poll in time: suspected, and coordinates nothing
	Unreachable               // ejected: refused or reset the connection
)

// States returns the closed set.
func States() []State {
	return []State{Unknown, Fine, Busy, Slow, Failing, Ramping, Unresponsive, Unreachable}
}

// stateNames are the names of states, as shown.
var stateNames = [...]string{"unknown", "fine", "busy", "slow", "failing", "ramping", "unresponsive", "unreachable"}

// String returns the name shown to operators.
func (s State) String() string { return stateNames[s] }

// health is what was proved of a node. Reading takes no lock; what ejects a node or lets it
// in holds Selector.ejecting.
type health struct {
	state atomic.Int32 // Fine, Slow, Failing or Ramping
	badAt atomic.Int64 // ns: the last probe against the node, or failure if it is ejected
	hold  atomic.Int64 // ns: how long it stays ejected after badAt, give or take probeJitter of it
	good  atomic.Int32 // probes as good as those of its peers since badAt
	avoid atomic.Int64 // ns: since when it is avoided, as a probe speaks against it: not listed, not ejected; 0: it is not
	busy  atomic.Bool  // it is so for as long as would be proof, but for a queue or a quota
	why   atomic.Pointer[string]

	returned atomic.Int64 // ns: when it was last let in again, which began its slow start; 0: never
}

// condition returns Fine, Slow, Failing or Ramping.
func (h *health) condition() State { return State(h.state.Load()) }

// avoided reports whether a probe speaks against the node, and nothing is proved.
func (h *health) avoided() bool { return h.avoid.Load() != 0 }

// clear ends that the node is avoided: it is let in again as far as that is concerned.
func (h *health) clear() {
	h.avoid.Store(0)
	h.busy.Store(false)
}

// excluded reports whether the node is ejected by proof.
func (h *health) excluded() bool {
	c := h.condition()
	return c == Slow || c == Failing
}

// Change is a node's way from one state to another.
type Change struct {
	Node          *Node
	Before, After State
	Why           string // what spoke against it, if anything did
}

// changing is [Selector.change] by whoever does not hold s.ejecting.
func (s *Selector) changing(n *Node, at int64, why string, f func()) {
	s.ejecting.Lock()
	defer s.ejecting.Unlock()
	s.change(n, at, why, f)
}

// change runs f, which may change the state of n at the moment at, and reports a change.
func (s *Selector) change(n *Node, at int64, why string, f func()) {
	before := n.State()
	f()
	after := n.State()
	if after == before {
		return
	}
	n.stateAt.Store(max(at, s.probes.lookedAt.Load())) // what another sidestep tells was so before
	if why == "" && after == Busy {                    // it was so before it was what it was until now
		why = *n.health.why.Load()
	}
	if s.o.OnChange != nil {
		s.o.OnChange(Change{Node: n, Before: before, After: after, Why: why})
	}
}

// eject takes n out of the lists as Slow or Failing, on proof, if not too many are out already, and no choice of late
// found that the others cannot carry its load; if it is ejected already it stays so for longer.
func (s *Selector) eject(n *Node, as State, at int64, why string) {
	s.changing(n, at, why, func() {
		h := &n.health
		n.probe.untoldAt.Store(0)
		if h.excluded() {
			raise(&h.badAt, at)
			h.good.Store(0)
			if as == Slow { // it fails, and slowly
				h.state.Store(int32(as))
			}
			return
		}
		if n.NoData || lately(&n.neededAt, at) || n.Alive() && !s.makeRoom(n, true, at) {
			return
		}
		hold := firstHold
		if returned := h.returned.Load(); returned != 0 && at-returned < int64(holdMemory) {
			hold = max(hold, min(twice*time.Duration(h.hold.Load()), holdMemory))
		}
		h.hold.Store(int64(hold))
		raise(&h.badAt, at)
		h.good.Store(0)
		h.clear()
		h.why.Store(&why)
		h.state.Store(int32(as))
	})
}

// makeRoom reports whether no more than [Bound.AtMost] data nodes are taken out once n
// is, which is not ejected. A node that is merely avoided gives way to one against which there is proof.
func (s *Selector) makeRoom(n *Node, proof bool, at int64) bool {
	bound := s.Bound()
	var avoided *Node
	for _, m := range *s.data.Load() {
		if m.health.avoided() && !m.Same(n) {
			bound.Out++
			avoided = m
		}
	}
	if proof && avoided != nil && bound.Out == bound.AtMost {
		s.change(avoided, at, "", avoided.health.clear)
		bound.Out--
	}
	return bound.Out < bound.AtMost
}

// avoid takes n out of the lists, for as long as probes speak against it, if it is not ejected
// and not too many are out already. Once it is avoided for as long as would be proof, and what it has to do is still more than
// it can, it is busy.
func (s *Selector) avoid(n *Node, late bool, why string, at int64) {
	s.ejecting.Lock()
	defer s.ejecting.Unlock()
	h := &n.health
	switch {
	case h.excluded(), !n.Alive(): // it is out anyway
	case !s.makeRoom(n, false, at):
		s.change(n, at, "", h.clear)
	case !h.avoided():
		h.avoid.Store(at)
	case !h.busy.Load() && late && h.condition() == Fine && at-h.avoid.Load() >= s.enough(n):
		if burden := s.burden(n, at); burden != "" {
			why += ", while " + burden
			h.why.Store(&why)
			s.change(n, at, why, func() { h.busy.Store(true) })
		}
	}
}

// burden says what shows that n has more to do than it can, if anything does: that it is slow is no fault then.
func (s *Selector) burden(n *Node, at int64) string {
	switch {
	case n.hasQueue():
		return "searches wait in its queue"
	case s.exhausted(n, at):
		return "it uses up its CPU quota"
	}
	return ""
}

// advance moves a node on that has been ejected, or has grown, for long enough.
func (s *Selector) advance(n *Node, at int64) {
	h := &n.health
	switch h.condition() {
	case Slow, Failing:
		hold, badAt := time.Duration(h.hold.Load()), h.badAt.Load()
		if n.short.Load() {
			hold = holdMemory
		}
		if at-badAt >= int64(s.jittered(hold, badAt)) && (h.good.Load() >= twice || n.untold() || s.unasked(at)) {
			s.slowStart(n, at)
		}
	case Fine:
		if h.avoided() && (n.untold() || s.unasked(at)) {
			s.changing(n, at, "", h.clear)
			n.probe.against.Store(0)
		}
	case Ramping:
		if at-h.returned.Load() >= int64(SlowStart) {
			s.changing(n, at, "", func() { h.state.CompareAndSwap(int32(Ramping), int32(Fine)) })
		}
	}
}

// unasked reports whether nobody has asked for probes for holdMemory: they are switched off, or this process stood still.
func (s *Selector) unasked(at int64) bool { return at-s.probes.lookedAt.Load() >= int64(holdMemory) }

// slowStart lets a node in, with a share that grows. What was measured before counts no
// more: it does not say how fast the node is now.
func (s *Selector) slowStart(n *Node, at int64) {
	s.changing(n, at, "", func() {
		h := &n.health
		if h.condition() == Ramping {
			return
		}
		n.response.Reset()
		n.service.Reset()
		n.probe.took.Set(0)
		n.strikes.Store(0)
		n.probe.against.Store(0)
		h.clear()
		h.returned.Store(at)
		h.state.Store(int32(Ramping))
	})
}

// fail records a failure that is the node's fault.
func (s *Selector) fail(n *Node, at int64, message string) {
	n.failures.Add(1)
	n.lastError.Store(&NodeError{s.moment(at), message})
	if n.rejects(at) {
		return // a full queue is load, and no fault
	}
	if at-n.failedAt.Swap(at) > int64(failureMemory) {
		n.strikes.Store(0)
	}
	if n.strikes.Add(1) >= twice || n.health.excluded() {
		s.eject(n, Failing, at, fmt.Sprintf("%d failures in a row", n.strikes.Load()))
	} else {
		s.ask(n, at)
	}
}

// rejects reports whether the node rejects searches, its queue being full.
func (n *Node) rejects(at int64) bool {
	return n.counts(n.rejectedAt.Load(), at, time.Second)
}

// lately reports whether the moment in last is set and no longer ago than a second.
func lately(last *atomic.Int64, at int64) bool {
	l := last.Load()
	return l != 0 && at-l < int64(time.Second)
}
