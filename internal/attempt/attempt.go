// Package attempt decides what is done next with a request: send it to chosen copies,
// send it as the client wrote it, wait, hedge, or answer. It is pure: no I/O, no clock,
// no goroutine. Events are method calls, which return an [Action]. The caller of a
// [Machine], the data plane or a simulation, executes the action and reports its result.
package attempt

import (
	"slices"
	"time"
)

// Cause says why the answer to an attempt should not be the client's; empty if it may be.
// The set is closed: it is a metric label.
type Cause string

// Causes of a further attempt.
const (
	Good        Cause = ""
	Unreachable Cause = "unreachable"  // nothing was sent: no connection, no handshake, a stale connection
	Transport   Cause = "transport"    // the connection broke after something was sent
	Rejected    Cause = "rejected"     // 429
	EngineError Cause = "engine_error" // 5xx
	Breaker     Cause = "breaker"      // a circuit breaker of the engine
	TimedOut    Cause = "timed_out"    // the search took longer than it may
	NoCopy      Cause = "no_copy"      // 400: the placement proved wrong
	Partial     Cause = "partial"      // some shards are missing from the result
	Forbidden   Cause = "forbidden"    // 403: strict weighted routing
	Refused     Cause = "refused"      // 400, 401, 403 or 405 that may be due to the preference, or a 200 that cannot be read
	Request     Cause = "request"      // it is about the request, not a node: final
)

// Causes returns all causes except [Good].
func Causes() []Cause {
	return []Cause{Unreachable, Transport, Rejected, EngineError, Breaker, TimedOut, NoCopy, Partial, Forbidden, Refused, Request}
}

// ofPreference reports whether the answer may be due to the preference alone.
func (c Cause) ofPreference() bool { return c == Forbidden || c == Refused }

// final reports whether no other attempt can get a better answer.
func (c Cause) final() bool { return c == Good || c == Request }

// Rule says how a kind of request is attempted: one row of the table of the data plane.
type Rule struct {
	// Steered is how many sets of copies are tried before the request is sent as the
	// client wrote it; 0: none. With one, a bad answer stands unless it is about the preference, as the engine has done
	// nothing then (but for a 200 that cannot be read), or is an error of a node to what is Repeatable.
	Steered int
	// Hedged: while the first attempt is overdue there may be a second one.
	Hedged bool
	// Repeatable: the request may be repeated even if it may have been received, as it
	// changes nothing and its body is held.
	Repeatable bool
}

// Do is what an [Action] asks for.
type Do uint8

// What to do.
const (
	Answer    Do = iota // with the answer of Action.Attempt; -1: there is no answer
	Steer               // send it to other copies than those tried before, or, after NoCopy, with a preference for the same
	Unchanged           // send it as the client wrote it; an attempt that is still in flight is given up
	Pause               // as Unchanged, after Action.After, to any node again
	Wait                // an attempt is still in flight
	Ask                 // the search is late: ask whether its nodes answer, and call Overdue again After
	Look                // it still is: call Overdue again After
	Suspect             // the search is overdue: probe its nodes, and call Overdue again After
	Hedge               // as Steer, while another attempt is in flight
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
	// Lost is the number of shards that are missing from a partial answer.
	Lost int
	// Full: shards failed as the queues of the nodes with their copies were full.
	Full bool
	// Room: then all other nodes with copies have room.
	Room bool
	// OfRequest: shards failed for what the request asks of them, which other copies will not do, either.
	OfRequest bool
	// Unavailable: the status is 500 or 503, or shards are missing that had no copy to ask, which can be
	// temporary while nodes leave and join.
	Unavailable bool
	// Late: nothing was sent, as a connection could not be made in time, or this process had no room for one.
	Late bool
}

const (
	// settleTime is the pause before a request is sent once more: a cluster that loses
	// one node while another returns needs that time.
	settleTime = 250 * time.Millisecond
	// longestPause bounds the pause before connections are tried again. The pauses grow, as each attempt is kept, and those
	// for which there is no room fail at once.
	longestPause = 2 * time.Second
	// connectPatience is how long connections are tried that cannot be made in time. The
	// limit for one connection is short, so that another node is tried soon. But on a
	// machine short of CPU all nodes may miss it, and a client without sidestep would
	// wait longer than for all of them. Nor does a client without sidestep need a descriptor of it.
	connectPatience = 30 * time.Second
	// maxBroken is how many nodes may break the connection of one request. After that the
	// request itself is taken for the cause.
	maxBroken = 2
)

// Machine is the state of one request. Make it with [New]. It is not safe for
// concurrent use.
type Machine struct {
	rule    Rule
	budget  *Budget
	stopped bool // nothing more is sent
	late    bool // a connection was not made in time
	pauses  int  // for that
	hedged  bool
	settled bool
	done    bool

	steered   int // sets of copies tried
	underWay  int
	failed    int // attempts that were sent and failed
	limits    int // attempts that would most likely end alike on other copies
	broken    int // connections that broke after something was sent
	asked     int // looks at a late attempt
	looks     int
	unchanged bool // the request is being sent as the client wrote it
	tried     []tried
	room      [4]tried
}

// tried is one attempt.
type tried struct {
	own      bool // sent as the client wrote it
	narrowed bool // with a list of nodes that excludes copies; without one it equals the client's own request
	answer   answer
	lost     int
}

// answer is what an attempt has brought so far.
type answer uint8

const (
	none answer = iota
	failure
	incomplete
	verdict // an error that every copy gives
	complete
)

// New returns the machine of a request that follows rule. budget bounds repetitions after
// failures; requests of a kind share it.
func New(rule Rule, budget *Budget) Machine {
	return Machine{rule: rule, budget: budget}
}

// Begin returns the first action.
func (m *Machine) Begin() Action {
	if m.rule.Steered == 0 {
		return m.asWritten()
	}
	return Action{Do: Steer}
}

// Sent records that an attempt is sent, and returns its number. narrowed says that its
// list of nodes excludes copies, own that it is sent as the client wrote it because of an
// [Unchanged].
func (m *Machine) Sent(narrowed, own bool) int {
	if m.tried == nil {
		m.tried = m.room[:0]
	}
	m.tried = append(m.tried, tried{own: own, narrowed: narrowed})
	m.underWay++
	return len(m.tried) - 1
}

// Stop has nothing more sent: the client has left, or its body has been read and is not held.
func (m *Machine) Stop() { m.stopped = true }

// Ended records how attempt i ended, and returns the next action.
func (m *Machine) Ended(i int, r Result) Action {
	if m.done {
		return m.answer() // another attempt has answered
	}
	if m.unchanged && m.steersAside(i) {
		return Action{Do: Wait} // it was given up
	}
	m.underWay--
	m.late = m.late || r.Late
	own := m.tried[i].own
	if !own && r.Cause != Unreachable && !m.steersAside(i) {
		m.steered++
	}
	m.tried[i].answer, m.tried[i].lost = r.answer(), r.Lost
	if r.Cause.final() {
		if r.Cause == Good {
			m.budget.Succeeded()
		}
		return m.answer()
	}
	if r.Cause != Unreachable && !r.Cause.ofPreference() && !r.OfRequest {
		m.failed++
		if m.failed > 1 && i > 0 && !m.steersAside(i) && !m.stopped { // it was sent as another one had failed
			m.budget.Failed()
		}
	}
	switch {
	case r.isLimit():
		m.limits++
	case r.Cause == Transport:
		m.broken++
	}
	switch {
	case m.stopped:
		return m.answer()
	case m.underWay > 0 && i == 0 && r.Cause.ofPreference():
		m.underWay = 0 // the hedge has a preference, too
		return m.asWritten()
	case m.underWay > 0:
		return Action{Do: Wait}
	case r.Cause == Unreachable && own:
		return Action{Do: Unchanged}
	case r.Cause == Unreachable:
		return Action{Do: Steer} // nothing was sent: try another node, at no charge
	case own:
		return m.afterOwn(r)
	}
	return m.afterSteered(r)
}

// steersAside reports whether attempt i is the hedge, whose pair has been counted
// already.
func (m *Machine) steersAside(i int) bool { return m.hedged && i == 1 }

// narrowed reports whether some attempt had a list of nodes that excludes copies.
func (m *Machine) narrowed() bool {
	return slices.ContainsFunc(m.tried, func(t tried) bool { return t.narrowed })
}

// afterSteered returns the action after a failed attempt on chosen copies.
func (m *Machine) afterSteered(r Result) Action {
	switch {
	case r.Cause.ofPreference():
		return m.asWritten()
	case m.rule.Steered == 1:
		if m.rule.Repeatable && (r.Cause == Transport || r.Cause == EngineError && m.budget.Allows()) {
			return m.asWritten()
		}
		return m.answer()
	case !m.rule.Repeatable && r.Cause == Transport:
		return m.answer()
	case r.Cause == Partial && r.Unavailable && !m.narrowed() && m.budget.Allows():
		return m.settle() // the engine has found no copy to ask, as for the client's own search
	case r.Full && !m.narrowed() && (r.Cause != Partial || !r.Room):
		return m.answer() // no other copy has room, and more would keep the queues full
	case r.isLimit() && (m.limits > 1 || !m.narrowed()):
		return m.answer()
	case !m.budget.Allows():
		// Failures are general. But a failure that a list may have caused must not reach
		// the client.
		if m.narrowed() {
			return m.asWritten()
		}
		return m.answer()
	case m.steered < m.rule.Steered:
		return Action{Do: Steer}
	}
	return m.asWritten()
}

// afterOwn returns the action after a failure of the request as the client wrote it. An
// answer of the engine is final, but a node that broke the connection gave none.
func (m *Machine) afterOwn(r Result) Action {
	switch {
	case !m.rule.Repeatable || !m.budget.Allows() || r.Cause == TimedOut || r.OfRequest:
	case r.Cause == Transport && m.broken > maxBroken:
	case r.Cause == Transport:
		return Action{Do: Unchanged}
	case r.Unavailable && m.rule.Steered > 1:
		return m.settle()
	}
	return m.answer()
}

// settle has the request sent as the client wrote it once more, after a while.
func (m *Machine) settle() Action {
	if m.settled {
		return m.answer()
	}
	m.settled, m.unchanged = true, true
	return Action{Do: Pause, After: settleTime}
}

// NoOther says that [Steer] or [Hedge] was impossible: there are no other copies, or the
// list of nodes does not fit into a request. overloaded: all copies are on nodes that
// reject searches.
func (m *Machine) NoOther(overloaded bool) Action {
	if overloaded && m.best() >= 0 && !m.narrowed() {
		return m.answer() // the attempt before was equivalent to the client's own request
	}
	return m.asWritten()
}

// NoNode says that no node is left to send to. elapsed is the time since the first attempt was sent.
func (m *Machine) NoNode(elapsed time.Duration) Action {
	switch {
	case m.stopped:
		return m.answer()
	case !m.unchanged:
		return m.asWritten()
	case m.late && elapsed < connectPatience:
		m.late = false
		m.pauses++
		return Action{Do: Pause, After: min(settleTime<<(m.pauses-1), longestPause)}
	}
	return m.answer()
}

// Overdue returns the action for a first attempt that is late, or overdue. It is called again
// after each [Ask], [Look] and [Suspect]. worthwhile says that a second attempt may be faster
// by now, and that the hedge budget allows it; left is the time until it is overdue.
func (m *Machine) Overdue(worthwhile bool, left time.Duration) Action {
	switch {
	case !m.rule.Hedged || m.underWay != 1 || m.hedged || m.done || m.stopped || len(m.tried) != 1:
		return Action{Do: Wait}
	case worthwhile:
		m.hedged = true
		return Action{Do: Hedge}
	case left > 0 || m.asked == 0:
		m.asked++
		next := Action{Do: Look, After: max(0, min(doubled(askedLook, m.asked-soonLooks), left))}
		if m.asked == 1 {
			next.Do = Ask
		}
		return next
	}
	m.looks++
	return Action{Do: Suspect, After: doubled(firstLook, m.looks-1)}
}

// asWritten begins to send the request as the client wrote it.
func (m *Machine) asWritten() Action {
	m.unchanged = true
	return Action{Do: Unchanged}
}

func (m *Machine) answer() Action {
	m.done = true
	return Action{Do: Answer, Attempt: m.best()}
}

// best returns the attempt with the answer that the client is to get, -1 if there is none. Of equals it is the one sent last.
func (m *Machine) best() int {
	partial := slices.ContainsFunc(m.tried, func(t tried) bool { return !t.narrowed && t.answer == incomplete })
	best, quality := -1, 0.
	for i, t := range m.tried {
		if q := t.quality(partial); q > 0 && q >= quality {
			best, quality = i, q
		}
	}
	return best
}

// isLimit reports whether other copies would most likely bring no more, those that were left out included: their
// nodes have no memory, either, it would take as long again, or the shards cannot do what is asked of them.
func (r Result) isLimit() bool { return r.Cause == Breaker || r.Cause == TimedOut || r.OfRequest }

// answer returns what kind of answer there is.
func (r Result) answer() answer {
	switch {
	case r.Cause == Unreachable, r.Cause == Transport:
		return none
	case r.Cause == Good:
		return complete
	case r.Cause.final():
		return verdict
	case r.Cause == Partial:
		return incomplete
	}
	return failure
}

// quality orders answers: a complete one; an error that every copy gives, or to the request as the client wrote it;
// a partial one, the fewer shards are missing the better; any other error. partial says
// that the client's own request, or what equals it, had a partial answer: then no error is
// preferred to one.
func (t tried) quality(partial bool) float64 {
	switch {
	case t.answer == complete:
		return 5
	case (t.answer == verdict || t.answer == failure && t.own) && !partial:
		return 4
	case t.answer == incomplete:
		return 3 + 1/float64(1+t.lost)
	case t.answer != none:
		return 1
	}
	return 0
}
