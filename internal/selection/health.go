package selection

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// State is how a node is doing, as far as it is known.
type State int32

// States of a node. What keeps a node out of lists does so only while every shard
// keeps another copy.
const (
	Unknown      State = iota // not polled yet
	Fine                      // answered its last poll, and nothing speaks against it
	Slow                      // out: far slower than the other candidates, or silent while they answer
	Failing                   // out, if it failed searches; a failed poll alone changes nothing
	Ramping                   // back, and given its share little by little
	Unresponsive              // out: did not answer within the deadline of the poll
	Unreachable               // out: refused or reset the connection
)

// States returns the closed set.
func States() []State {
	return []State{Unknown, Fine, Slow, Failing, Ramping, Unresponsive, Unreachable}
}

// String returns the name shown to operators.
func (s State) String() string {
	switch s {
	case Fine:
		return "fine"
	case Slow:
		return "slow"
	case Failing:
		return "failing"
	case Ramping:
		return "ramping"
	case Unresponsive:
		return "unresponsive"
	case Unreachable:
		return "unreachable"
	default:
		return "unknown"
	}
}

// How long a node stays out after the last that spoke against it, and how it comes
// back. Who is sent away again within holdMemory is flapping and stays out longer:
// still less than ten seconds to its full share.
const (
	firstHold  = 2 * time.Second
	againHold  = 6 * time.Second
	holdMemory = time.Minute
	// goodProbes must have been answered in time since.
	goodProbes = 2
	// rampTime is how long the share of a node that is back, or new, grows, from
	// rampFloor on.
	rampTime  = 3 * time.Second
	rampFloor = 0.1
	// failuresInARow, each within failureMemory of the one before, make a node
	// Failing.
	failuresInARow = 2
	failureMemory  = 10 * time.Second
)

// health is what the policy adaptive knows of a node beyond its numbers. Reading
// takes no lock, changing does: changes are rare.
type health struct {
	mu    sync.Mutex
	state atomic.Int32 // Fine (also 0), Slow, Failing or Ramping
	since atomic.Int64 // ns: when state began
	badAt atomic.Int64 // ns: the last that spoke against the node
	hold  atomic.Int64 // ns: how long it stays out after badAt
	late  atomic.Int64 // ns: when it was last slow, or slow to fail
	good  atomic.Int32 // probes answered in time since badAt
	why   atomic.Pointer[string]

	returnedAt int64 // ns, guarded by mu: when it was last let in again
}

// condition returns Fine, Slow, Failing or Ramping.
func (h *health) condition() State {
	if s := State(h.state.Load()); s != Unknown {
		return s
	}
	return Fine
}

// excluded reports whether the node is kept out for being slow or failing.
func (h *health) excluded() bool {
	c := h.condition()
	return c == Slow || c == Failing
}

// mends reports whether a node that is kept out, or ramps, shows that it is well again:
// it answers probes, and what else it was sent. For a shard whose other copies are on
// nodes that do not it is the best there is, whatever its share.
func (n *Node) mends() bool {
	if n.health.excluded() {
		return n.health.good.Load() > 0
	}
	return !n.unproven()
}

// failsAtOnce reports whether the node is kept out for failing searches and was not slow
// to do so. The engine asks the next copy then, so that such a node costs a search next
// to nothing, and the others less than they lose if the engine is not left to choose
// among them.
func (n *Node) failsAtOnce(at int64) bool {
	late := n.health.late.Load()
	return n.health.condition() == Failing && !n.rejects(at) && (late == 0 || at-late > int64(failureMemory))
}

// Change is a node's way from one state to another.
type Change struct {
	Node          *Node
	Before, After State
	Why           string // what spoke against it, if anything did
}

// changing runs f, which may change the state of n at the moment at, and reports a
// change.
func (s *Selector) changing(n *Node, at int64, why string, f func()) {
	before := n.State()
	f()
	after := n.State()
	if after == before {
		return
	}
	n.stateAt.Store(at)
	if s.onChange != nil {
		s.onChange(Change{Node: n, Before: before, After: after, Why: why})
	}
}

// accuse notes at the moment at that something speaks against n, and keeps it out
// as Slow or Failing unless a third of all nodes is out already.
func (s *Selector) accuse(n *Node, as State, at int64, why string) {
	if as == Slow {
		raise(&n.health.late, at)
	}
	s.changing(n, at, why, func() {
		if n.health.excluded() {
			if !s.missed(n) { // else it is held to what a probe takes while all wait in queues
				raise(&n.health.badAt, at)
				n.health.good.Store(0)
			}
			return
		}
		// Who rejects searches has too many: the others must be able to take them.
		loaded := as == Slow || n.rejects(at)
		if s.mayExclude() && (!loaded || !s.needed(n, s.busy(n), at)) {
			n.sendAway(as, at, why)
		}
	})
}

// sendAway keeps n out from the moment at on.
func (n *Node) sendAway(as State, at int64, why string) {
	h := &n.health
	h.mu.Lock()
	defer h.mu.Unlock()
	hold := firstHold
	if h.returnedAt != 0 && at-h.returnedAt < int64(holdMemory) {
		hold = againHold
	}
	h.hold.Store(int64(hold))
	h.since.Store(at)
	h.badAt.Store(at)
	h.good.Store(0)
	h.why.Store(&why)
	n.probe.since(at)
	h.state.Store(int32(as))
}

// mayExclude reports whether one more node may be kept out for being slow or
// failing: at most a third of them, but one of two.
func (s *Selector) mayExclude() bool {
	all := *s.all.Load()
	out := 1
	for _, n := range all {
		if n.health.excluded() {
			out++
		}
	}
	return 3*out <= len(all)+1
}

// fullLoad is the utilisation of the other nodes' CPUs above which a node is needed.
// For neededFor it is not looked at again.
const (
	fullLoad  = 0.9
	neededFor = 100 * time.Millisecond
)

// needed reports whether the other nodes cannot do without n: they are busy
// already, or with its shard queries, all λ·S̃ of them, with S̃ the median of the
// service times, they would be for more than fullLoad of the time. Not so if n does
// a quarter of the work of the others at best.
func (s *Selector) needed(n *Node, busy bool, at int64) bool {
	if at < n.neededUntil.Load() {
		return true
	}
	var scratch []float64
	service, rate := s.usual(n, &scratch)
	if n.useless(service, rate) || (!busy && s.loadWithout(n, service) <= fullLoad) {
		return false
	}
	n.neededUntil.Store(at + int64(neededFor))
	return true
}

// busy reports whether the others have queues.
func (s *Selector) busy(but *Node) bool {
	sum, count := 0.0, 0
	for _, n := range *s.all.Load() {
		if n != but && n.serves() {
			q, _ := n.queue.value()
			sum, count = sum+q, count+1
		}
	}
	return sum > busyQueue*float64(count)
}

// crowded reports whether most of the others have queues: what is late or rejected then is
// nobody's fault. One node that stands still has a queue, too, and makes the mean large.
func (s *Selector) crowded(but *Node) bool {
	waiting, count := 0, 0
	for _, n := range *s.all.Load() {
		if n != but && n.serves() {
			count++
			if n.waits() {
				waiting++
			}
		}
	}
	return 2*waiting > count
}

// waits reports whether searches wait in the queue of n.
func (n *Node) waits() bool {
	q, _ := n.queue.value()
	return q > busyQueue
}

// missed reports whether the others have more than they can, and n would do its part.
func (s *Selector) missed(n *Node) bool {
	if !s.crowded(n) {
		return false
	}
	var scratch []float64
	service, rate := s.usual(n, &scratch)
	return !n.useless(service, rate)
}

// useFactor says how much less than the others a node does that is of no use.
const useFactor = 4

// useless reports whether n does next to none of the work: its shard queries take more than
// useFactor times the usual service time, or it has less than that part of the usual rate
// done while some wait. A node that is starved may be quick about the few that it does.
func (n *Node) useless(service, rate float64) bool {
	own, _ := n.service.value()
	does, _ := n.rate.value()
	return service > 0 && (own > useFactor*service || n.latest.value() >= 1 && useFactor*does < rate)
}

// usual returns the median of all nodes' service times, and that of the rates of those but
// n that serve; 0 where none is known. It overwrites scratch.
func (s *Selector) usual(n *Node, scratch *[]float64) (service, rate float64) {
	all := *s.all.Load()
	values := (*scratch)[:0]
	for _, m := range all {
		if v, ok := m.service.value(); ok {
			values = append(values, v)
		}
	}
	if len(values) > 0 {
		service = median(values)
	}
	values = values[:0]
	for _, m := range all {
		if v, ok := m.rate.value(); ok && m != n && m.serves() {
			values = append(values, v)
		}
	}
	if len(values) > 0 {
		rate = median(values)
	}
	*scratch = values
	return service, rate
}

// loadWithout returns the utilisation of the other nodes' CPUs if n were out, with shard
// queries that take as long as given; 0 if it is not known.
func (s *Selector) loadWithout(n *Node, service float64) float64 {
	var rate, processors float64
	for _, m := range *s.all.Load() {
		r, _ := m.rate.value()
		rate += r
		if m != n && m.serves() {
			processors += float64(m.Processors)
		}
	}
	if processors == 0 {
		return 0
	}
	return rate * service / processors
}

// advance moves a node on that has stayed out, or grown, for long enough.
func (s *Selector) advance(n *Node, at int64) {
	h := &n.health
	switch h.condition() {
	case Slow, Failing:
		served := at-h.badAt.Load() >= h.hold.Load()
		if served && (h.good.Load() >= goodProbes || !n.probe.running(at) || s.missed(n)) {
			s.ramp(n, at)
		}
	case Ramping:
		if at-h.since.Load() >= int64(rampTime) {
			s.changing(n, at, "", func() { h.state.CompareAndSwap(int32(Ramping), int32(Fine)) })
		}
	}
}

// ramp lets a node in, with a share that grows.
func (s *Selector) ramp(n *Node, at int64) {
	s.changing(n, at, "", func() { n.startRamp(at) })
}

// startRamp begins Ramping. What was measured before counts no more: it does not
// say how fast the node is now.
func (n *Node) startRamp(at int64) {
	h := &n.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.condition() == Ramping {
		return
	}
	n.response.reset()
	n.service.reset()
	n.penalty.Store(0)
	n.strikes.Store(0)
	h.returnedAt = at
	h.since.Store(at)
	h.state.Store(int32(Ramping))
}

// grown returns the share that a node is given of what it would get: 1 but while
// it ramps.
func (h *health) grown(at int64) float64 {
	if h.condition() != Ramping {
		return 1
	}
	return max(rampFloor, min(1, float64(at-h.since.Load())/float64(rampTime)))
}

// trials is how many searches a node that is back may owe before it has answered the
// first: while all connections of a client wait, a node that answers probes and nothing
// else would soon hold every one of them.
const trials = 2

// unproven reports whether n, which ramps, has answered no search that began since, and
// owes as many as it may.
func (n *Node) unproven() bool {
	return n.outstanding.Load() >= trials && n.startedAt.Load() <= n.health.since.Load()
}

// fail records a failure that is the node's fault.
func (s *Selector) fail(n *Node, at int64, e *NodeError) {
	n.failures.Add(1)
	n.punish(at)
	if e != nil {
		n.lastError.Store(e)
	}
	if !s.policy.health {
		return
	}
	if at-n.failedAt.Swap(at) > int64(failureMemory) {
		n.strikes.Store(0)
	}
	if n.strikes.Add(1) >= failuresInARow || n.health.excluded() {
		s.accuse(n, Failing, at, fmt.Sprintf("%d failures in a row", n.strikes.Load()))
	}
}
