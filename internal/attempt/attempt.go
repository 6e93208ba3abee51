// Package attempt decides what is done next with a request: send it to chosen copies,
// send it as the client wrote it, wait, hedge, or answer. It is pure: no I/O, no clock,
// no goroutine. Events go in as method calls, an [Action] comes out; whoever drives a
// [Machine], the data plane or a simulation, carries it out and reports how it ended.
package attempt

import (
	"time"

	"sidestep/internal/selection"
)

// Cause says why an answer to an attempt should not be the last word; empty if it may
// be. The set is closed: it is a metric label.
type Cause string

// Causes of a further attempt.
const (
	Good        Cause = ""
	Unreachable Cause = "unreachable"  // nothing was sent: no connection, no handshake, a stale connection
	Transport   Cause = "transport"    // the connection broke after something was sent
	Rejected    Cause = "rejected"     // 429
	EngineError Cause = "engine_error" // 5xx
	Breaker     Cause = "breaker"      // a circuit breaker of the engine
	NoCopy      Cause = "no_copy"      // 400: the placement proved wrong
	Partial     Cause = "partial"      // _shards.failed > 0
	Forbidden   Cause = "forbidden"    // 403: strict weighted routing
	Refused     Cause = "refused"      // 400 or 405: what it says may come from the preference
	Request     Cause = "request"      // it speaks of the request, not of a node: final
)

// Causes returns the closed set but for [Good].
func Causes() []Cause {
	return []Cause{Unreachable, Transport, Rejected, EngineError, Breaker, NoCopy, Partial, Forbidden, Refused, Request}
}

// final reports whether no other attempt can bring a better answer.
func (c Cause) final() bool { return c == Good || c == Request }

// Rule says how a kind of request is attempted: one row of the table of the data plane.
type Rule struct {
	// Steered is how many sets of copies are tried before the request is sent as the
	// client wrote it; 0: it is sent so at once.
	Steered int
	// Hedged: an overdue first attempt may be accompanied by a second one.
	Hedged bool
	// Repeatable: the request may be sent again although it may have been received,
	// as it changes nothing and its body is at hand.
	Repeatable bool
	// Answers: a bad answer, too, is followed by another attempt. Without it only what
	// concerns the preference is: then the engine has done nothing.
	Answers bool
}

// Do is what an [Action] asks for.
type Do uint8

// What to do.
const (
	Answer    Do = iota // with the attempt Action.Attempt; -1: there is no answer
	Steer               // send it to copies, others than those tried before
	Unchanged           // send it as the client wrote it
	Pause               // as Unchanged, after Action.After, to any node again
	Wait                // an attempt is still under way
	Suspect             // the search is overdue: find out why, and ask again After
	Hedge               // as Steer, beside the attempt that is under way
)

// Action is what is to be done next.
type Action struct {
	Do      Do
	Attempt int
	After   time.Duration
}

// Result is how an attempt ended.
type Result struct {
	Cause Cause
	// Answered: there is an answer that a client could be given.
	Answered bool
	// Failed shards of a partial answer.
	Failed int
	// Unavailable: the status is 500 or 503, which may pass while nodes come and go.
	Unavailable bool
	// Late: nothing was sent as a connection was not made in time.
	Late bool
	// Elapsed since the request came.
	Elapsed time.Duration
}

const (
	// settleTime is how long a cluster that loses a node while it gets another back is
	// given before a request is sent once more.
	settleTime = 250 * time.Millisecond
	// connectPatience is for how long a request is kept whose connections could not be
	// made in time. The time limit for one connection is short, so that another node is
	// tried soon, but on a machine without a processor to spare it passes at every
	// node: a client without sidestep waits longer than for all of them.
	connectPatience = 30 * time.Second
	// maxBroken is how many nodes may break the connection of one request before that is
	// taken to be what it does to them.
	maxBroken = 2
	// maxSteered bounds [Rule.Steered] and with it the attempts with other copies.
	maxSteered = 2
)

// Machine is the state of one request. Make it with [New]. It is not safe for
// concurrent use.
type Machine struct {
	rule   Rule
	budget *Budget
	// narrowed: some attempt was sent with a list of nodes that leaves copies out.
	narrowed bool
	gone     bool // the client has left
	spent    bool // the body cannot be sent again
	late     bool // a connection was not made in time
	hedged   bool
	settled  bool
	done     bool

	steered   int // sets of copies tried
	underWay  int
	failed    int // attempts that were sent and failed
	breakers  int
	broken    int // connections that broke after something was sent
	looks     int
	unchanged bool // the client's own request is being sent
	best      int
	quality   float64
	own       []bool // by attempt: as the client wrote it
	room      [4]bool
}

// New returns the machine of a request that follows rule. budget bounds what is sent
// again after failures; it is shared by requests of a kind.
func New(rule Rule, budget *Budget) Machine {
	rule.Steered = min(rule.Steered, maxSteered)
	return Machine{rule: rule, budget: budget, best: -1}
}

// Begin returns the first action.
func (m *Machine) Begin() Action {
	if m.rule.Steered == 0 {
		return m.asWritten()
	}
	return Action{Do: Steer}
}

// Sent notes that an attempt is sent and returns its number. narrowed says that it has
// a list of nodes that leaves copies out, own that it goes out as the client wrote it
// because [Unchanged] asked for that.
func (m *Machine) Sent(narrowed, own bool) int {
	if m.own == nil {
		m.own = m.room[:0]
	}
	m.own = append(m.own, own)
	m.narrowed = m.narrowed || narrowed
	m.underWay++
	return len(m.own) - 1
}

// Gone notes that the client has left: nothing more is sent.
func (m *Machine) Gone() { m.gone = true }

// Spent notes that the body has been read from the client and is not at hand.
func (m *Machine) Spent() { m.spent = true }

// Ended notes how attempt i ended and returns what to do next.
func (m *Machine) Ended(i int, r Result) Action {
	m.underWay--
	if m.done {
		return m.answer() // it lost
	}
	m.late = m.late || r.Late
	if !m.own[i] && r.Cause != Unreachable && !m.steersAside(i) {
		m.steered++
	}
	if q := m.qualityOf(i, r); q > m.quality || q == m.quality && q > 0 {
		m.best, m.quality = i, q
	}
	if r.Cause.final() && r.Answered {
		m.best, m.done = i, true
		if r.Cause == Good {
			m.budget.Succeeded()
		}
		return m.answer()
	}
	if r.Cause != Unreachable && r.Cause != Forbidden && r.Cause != Refused {
		m.failed++
		if m.failed > 1 && !m.gone {
			m.budget.Failed()
		}
	}
	switch r.Cause {
	case Breaker:
		m.breakers++
	case Transport:
		m.broken++
	}
	switch {
	case m.gone || m.spent:
		return m.answer()
	case m.underWay > 0:
		return Action{Do: Wait}
	case r.Cause == Unreachable && m.own[i]:
		return Action{Do: Unchanged}
	case r.Cause == Unreachable:
		return Action{Do: Steer} // nothing was sent: through another node, free
	case m.own[i]:
		return m.afterOwn(r)
	}
	return m.afterSteered(r)
}

// steersAside reports whether attempt i is one of a hedged pair that has been counted.
func (m *Machine) steersAside(i int) bool { return m.hedged && i == 1 }

// afterSteered returns what follows an attempt on chosen copies that failed.
func (m *Machine) afterSteered(r Result) Action {
	switch {
	case r.Cause == Forbidden || r.Cause == Refused:
		return m.asWritten()
	case !m.rule.Answers:
		if r.Cause == Transport && m.rule.Repeatable {
			return m.asWritten()
		}
		return m.answer()
	case !m.rule.Repeatable && r.Cause == Transport:
		return m.answer()
	case r.Cause == Breaker && (m.breakers > 1 || !m.narrowed):
		return m.answer() // there is no memory elsewhere, either
	case !m.budget.Allows():
		// Failures are general. What a list caused is not left to the client.
		if m.narrowed {
			return m.asWritten()
		}
		return m.answer()
	case m.steered < m.rule.Steered:
		return Action{Do: Steer}
	}
	return m.asWritten()
}

// afterOwn returns what follows the client's own request that failed: the engine's
// verdict on it stands, but a node that broke the connection gave none.
func (m *Machine) afterOwn(r Result) Action {
	switch {
	case !m.rule.Repeatable || !m.budget.Allows():
	case r.Cause == Transport && m.broken > maxBroken:
	case r.Cause == Transport:
		return Action{Do: Unchanged}
	case r.Unavailable && m.rule.Answers && m.rule.Steered > 0 && !m.settled:
		m.settled = true
		return Action{Do: Pause, After: settleTime}
	}
	return m.answer()
}

// NoOther notes that [Steer] or [Hedge] could not be carried out as there are no other
// copies, or the list of nodes does not fit in a request; overloaded: as all copies are
// on nodes that reject searches.
func (m *Machine) NoOther(overloaded bool) Action {
	if overloaded && m.quality > 0 && !m.narrowed {
		return m.answer() // the attempt before was the client's own request in all but name
	}
	return m.asWritten()
}

// NoNode notes that there is no node left to send to. elapsed is since the request came.
func (m *Machine) NoNode(elapsed time.Duration) Action {
	switch {
	case m.gone || m.spent:
		return m.answer()
	case !m.unchanged:
		return m.asWritten()
	case m.late && elapsed < connectPatience:
		m.late = false
		return Action{Do: Pause, After: settleTime}
	}
	return m.answer()
}

// Overdue returns what to do about a first attempt that takes longer than such requests
// usually do. It is asked again after each [Suspect]; worthwhile says that a second
// attempt may be sooner by now and that the hedge budget allows it.
func (m *Machine) Overdue(worthwhile bool) Action {
	switch {
	case !m.rule.Hedged || m.underWay != 1 || m.hedged || m.done || m.gone || len(m.own) != 1:
		return Action{Do: Wait}
	case m.looks > 0 && worthwhile:
		m.hedged = true
		return Action{Do: Hedge}
	}
	m.looks++
	return Action{Do: Suspect, After: selection.HedgeWait(m.looks - 1)}
}

// asWritten begins to send the client's own request.
func (m *Machine) asWritten() Action {
	m.unchanged = true
	return Action{Do: Unchanged}
}

func (m *Machine) answer() Action {
	m.done = true
	return Action{Do: Answer, Attempt: m.best}
}

// qualityOf orders answers: complete, or the engine's verdict on the client's own
// request; partial with few failures; its verdict on another; nothing. Of equals the
// later one wins.
func (m *Machine) qualityOf(i int, r Result) float64 {
	switch {
	case !r.Answered:
		return 0
	case r.Cause == Partial:
		return 3 + 1/float64(1+r.Failed)
	case r.Cause.final() || m.own[i]:
		return 4
	default:
		return 1
	}
}
