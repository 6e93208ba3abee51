package proxy

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"sidestep/internal/attempt"
	"sidestep/internal/cluster"
	"sidestep/internal/leg"
	"sidestep/internal/record"
	"sidestep/internal/selection"
)

// attempts executes the actions of the machine until there is an answer, which it
// returns, or none, which is nil. Every request takes this loop.
func (x *exchange) attempts() *try {
	x.machine = attempt.New(x.rule.Rule, x.p.budgetOf(x))
	defer x.endHedge()
	next := x.machine.Begin()
	for {
		switch next.Do {
		case attempt.Steer:
			next = x.steer()
		case attempt.Pause:
			x.pause(next.After)
			next = x.asWritten()
		case attempt.Unchanged:
			next = x.asWritten()
		case attempt.Wait:
			next = x.await()
		default:
			return x.winner(next.Attempt)
		}
	}
}

// budgetOf returns the budget that bounds repetitions of a request. Searches have one of
// their own: failures of other requests are no sign of failing searches.
func (p *Proxy) budgetOf(x *exchange) *attempt.Budget {
	if x.rule.searches {
		return &p.searchBudget
	}
	return &p.otherBudget
}

// steer sends the request to the chosen copies or, after an attempt, to the next best
// ones.
func (x *exchange) steer() attempt.Action {
	if len(x.tries) == 0 {
		return x.dispatch(x.first, x.now)
	}
	t := newTry(x)
	if !x.chooseAgain(t) {
		overloaded := t.decision.Reason == selection.Overloaded
		t.release()
		return x.step(func(m *attempt.Machine) attempt.Action { return m.NoOther(overloaded) })
	}
	return x.dispatch(t, time.Now())
}

// last returns the attempt sent last.
func (x *exchange) last() *try { return x.tries[len(x.tries)-1] }

// chooseAgain chooses other copies than those of earlier attempts. It reports whether
// there are any.
func (x *exchange) chooseAgain(t *try) bool {
	if x.items != nil { // nothing was sent: through another node
		x.items.describe(t)
		return t.rewrite()
	}
	t.steered = true
	// Whatever a hedge ended with: the engine knows where the other copies are.
	t.soft = t.soft || slices.ContainsFunc(x.tries, func(t *try) bool { return t.cause == attempt.NoCopy })
	x.p.o.Selector.Choose(&t.decision, x.selectionRequest(x.avoid), time.Now())
	switch before := x.last(); {
	case t.decision.Reason == selection.Overloaded:
		return false
	case before.cause != attempt.Unreachable && before.soft == t.soft && slices.Equal(before.decision.Nodes, t.decision.Nodes):
		return false
	}
	return t.rewrite()
}

// asWritten sends the request as the client wrote it, if possible through a node not
// tried before.
func (x *exchange) asWritten() attempt.Action {
	t := newTry(x)
	t.query, t.body = x.query, x.bodyToSend()
	return x.dispatch(t, time.Now())
}

// pick finds the upstream for the attempt: the node that the decision names, else a good
// one. A node that has failed this request comes after the others that hold data. It reports
// whether there is one left. If there is no other, the request as the client wrote it may go to a node that a steered
// attempt went to, and any attempt to an address that leads to more than one node.
func (x *exchange) pick(t *try, now time.Time) bool {
	wanted := t.decision.Coordinator
	if !t.steered {
		wanted = x.near
	}
	var tried, again []*upstream
	x.mu.Lock()
	failed := x.avoid
	for i, before := range x.tries {
		tried = append(tried, before.upstream)
		// Addresses that were given lead to all nodes: only one that cannot be reached is not asked again.
		given := len(x.view.coordinating) == 0 && x.Attempts[i].Outcome != string(attempt.Unreachable)
		if i >= x.round && before.steered == t.steered && !given {
			again = append(again, before.upstream)
		}
	}
	if x.lacks { // there would be no room for any connection
		tried, again = append(tried, x.unconnected()...), append(again, x.unconnected()...)
	}
	x.mu.Unlock()
	for _, but := range [...][]*selection.Node{failed, nil} {
		if t.upstream = x.p.pick(x.view, wanted, tried, but, now); t.upstream == nil {
			t.upstream = x.p.pick(x.view, nil, again, but, now)
		}
		if t.upstream != nil {
			t.decision.Coordinator = t.upstream.node
			return true
		}
	}
	return false
}

// unconnected returns the upstreams to which there is no idle connection.
func (x *exchange) unconnected() []*upstream {
	return slices.DeleteFunc(slices.Concat(x.view.upstreams, x.p.seeds), func(u *upstream) bool { return u == nil || u.leg.Idle() })
}

// dispatch sends an attempt through a node that is left for it, and returns the next action.
func (x *exchange) dispatch(t *try, now time.Time) attempt.Action {
	if x.pick(t, now) {
		return x.sendTo(t, now)
	}
	if t != x.first {
		t.release()
	}
	return x.step(func(m *attempt.Machine) attempt.Action { return m.NoNode(now.Sub(x.tries[0].began)) })
}

// sendTo sends an attempt to its node and returns the next action.
func (x *exchange) sendTo(t *try, now time.Time) attempt.Action {
	x.mu.Lock()
	x.sent(t, record.Failover, now)
	x.mu.Unlock()
	x.send(t)
	next, ended := x.ended(t)
	x.Upstream += ended.Sub(now)
	return next
}

// sent records that the attempt is sent, takes its lease, and has the first one looked after when
// it is late. x.mu is held.
func (x *exchange) sent(t *try, kind record.Kind, now time.Time) {
	t.began = now
	t.lease(now)
	x.p.o.Selector.SentThrough(t.upstream.node, now)
	t.number = x.machine.Sent(t.lists(), !t.steered)
	x.tries = append(x.tries, t)
	a := record.Attempt{Kind: kind, Own: !t.steered, Node: t.upstream.node, Upstream: t.upstream.url, Soft: t.soft}
	if t.steered {
		a.Reason = string(t.decision.Reason)
	}
	if t.lists() {
		a.Listed = t.decision.Nodes
	}
	if x.Span != nil {
		t.header = maps.Clone(x.r.Header)
		a.Span = x.Span.Attempt(t.header)
	}
	x.Sent(a, now)
	if t == x.first && x.rule.Hedged {
		x.armHedge()
	}
}

// coordinates reports whether the attempt counts on its coordinating node alone: the engine chooses the nodes, or what they do
// goes on after the answer.
func (t *try) coordinates() bool { return !t.steered || t.x.createsState() }

// lease counts the attempt as outstanding on the nodes of its decision.
func (t *try) lease(now time.Time) {
	t.leased = true
	switch s := t.x.p.o.Selector; {
	case t.coordinates():
		t.upstream.node.Begin()
	case t.x.items != nil:
		t.x.items.lease(t, now)
	case t.x.rule.searches:
		s.Acquire(&t.decision, 1, now)
	default:
		s.Acquire(&t.decision, 0, now) // a read by id is load, and no shard query
	}
}

// unlease returns the lease, once the head of the answer has arrived or
// none will. So a client that reads slowly does not make the node look silent.
func (t *try) unlease() {
	if !t.leased {
		return
	}
	t.leased = false
	switch {
	case t.coordinates():
		t.upstream.node.End()
	case t.x.items != nil:
		t.x.items.release()
	default:
		t.decision.Release()
	}
}

// ended records the end of an attempt and adds it to the statistics. It returns the next
// action, and the time of the end.
func (x *exchange) ended(t *try) (next attempt.Action, now time.Time) {
	now = time.Now()
	gone := t.cause != attempt.Good && (x.stalled() || x.gone())
	x.mu.Lock()
	defer x.mu.Unlock()
	t.unlease()
	if x.Attempts[t.number].Outcome == record.Abandoned {
		t.discard()
		return x.machine.Ended(t.number, attempt.Result{}), now
	}
	unsent := t.cause == attempt.Unreachable
	if unsent && x.goesOn() {
		gone = false // another node may be reached
	}
	if gone || x.stream != nil && !unsent { // what was read of a body that streams cannot be sent again
		x.machine.Stop()
	}
	x.lacks = unsent && cluster.OwnLack(t.err)
	r := attempt.Result{Cause: t.cause, Lost: t.head.Lost(), Full: t.full, OfRequest: t.ofRequest}
	r.Late = x.lacks || unsent && leg.Timeout(t.err)
	r.Room = t.steered && t.full && x.p.o.Selector.RoomBeside(t.blamed, &t.decision, now)
	if t.resp != nil {
		x.p.o.Selector.Heard(t.upstream.node, now)
		r.Unavailable = t.resp.StatusCode == http.StatusInternalServerError || t.resp.StatusCode == http.StatusServiceUnavailable ||
			t.cause == attempt.Partial && t.head.NoCopies()
	}
	next = x.machine.Ended(t.number, r)
	x.learn(t, now, gone)
	x.note(t, now, gone)
	switch next.Do {
	case attempt.Steer, attempt.Unchanged, attempt.Pause:
		x.p.metrics.failovers.WithLabelValues(string(t.cause)).Inc()
		x.abandonOthers(t.number, now)
	case attempt.Answer:
		x.abandonOthers(next.Attempt, now)
	}
	return next, now
}

// note records the end of an attempt in the trail.
func (x *exchange) note(t *try, now time.Time, gone bool) {
	outcome, status := string(t.cause), 0
	switch {
	case t.err != nil && gone:
		outcome = record.Canceled
	case t.cause == attempt.Good:
		outcome = record.Answered
	}
	if t.resp != nil {
		status = t.resp.StatusCode
	}
	x.Ended(t.number, outcome, status, t.err, now)
}

// step asks the machine for the next action.
func (x *exchange) step(f func(*attempt.Machine) attempt.Action) attempt.Action {
	gone := x.gone()
	x.mu.Lock()
	defer x.mu.Unlock()
	if gone {
		x.machine.Stop()
	}
	return f(&x.machine)
}

// await waits until the hedge ends, as the first attempt has, which was not the last word.
func (x *exchange) await() attempt.Action {
	began := time.Now()
	next := <-x.next
	x.Upstream += time.Since(began)
	return next
}

// pause waits before the request is sent to all nodes again. It returns early if the
// client leaves.
func (x *exchange) pause(d time.Duration) {
	x.waitsFor(d)
	x.mu.Lock()
	x.round, x.lacks = len(x.tries), false
	x.mu.Unlock()
}

// waitsFor waits before nodes are asked again, and reports false if the client leaves meanwhile.
func (x *exchange) waitsFor(d time.Duration) bool {
	began := time.Now()
	defer func() { x.Upstream += time.Since(began) }()
	return x.sleep(d)
}

// sleep waits, and reports false if the client leaves meanwhile.
func (x *exchange) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.r.Context().Done():
		return false
	}
}

// winner returns the attempt whose answer is the client's; nil if there is none.
func (x *exchange) winner(number int) *try {
	x.Answered = number
	x.mu.Lock()
	for i, t := range x.tries {
		if i != number && x.Attempts[i].Outcome != record.Abandoned { // which belong to their goroutines
			t.discard()
		}
	}
	x.mu.Unlock()
	if len(x.tries) > 1 && x.Attempts[1].Kind == record.Hedge && (number >= 0 || !x.gone()) {
		won, result := number == 1, hedgeLost
		if won {
			result = hedgeWon
		}
		x.p.hedges.Ended(won)
		x.p.metrics.hedges.WithLabelValues(result).Inc()
	}
	if number < 0 {
		return nil
	}
	return x.tries[number]
}

// blameTransport records that u failed to carry a request, unless it is this process that could not connect.
func (p *Proxy) blameTransport(u *upstream, err error, now time.Time) {
	if cluster.OwnLack(err) {
		p.complaints.Do(func() {
			p.o.Logger.Warn("sidestep can make no more connections; logged at most once in ten seconds", "err", err)
		})
		return
	}
	p.o.Selector.MarkUnreachable(u.node, err.Error(), now)
}

// learn adds an attempt to the statistics.
func (x *exchange) learn(t *try, now time.Time, gone bool) {
	p := x.p
	switch t.cause {
	case attempt.Unreachable, attempt.Transport:
		// The engines close the connection for what they do not understand, such as an
		// unknown method. So for requests that cannot be repeated only polls tell whether
		// the node is gone.
		if !gone && (t.cause == attempt.Unreachable || t.steered || x.rule.Repeatable) {
			p.blameTransport(t.upstream, t.err, now)
		}
		return
	case attempt.Forbidden:
		p.suspend()
		x.Reason = reasonForbidden
		return
	case attempt.Refused:
		if t.resp.StatusCode == http.StatusOK && !t.readable() {
			for coding := range strings.SplitSeq(strings.ToLower(t.resp.Header.Get("Content-Encoding")), ",") {
				if !decodable(coding) {
					p.unreadable.Store(strings.TrimSpace(coding), true) // by now it is known
				}
			}
		}
		return
	case attempt.NoCopy, attempt.Request:
		return // neither node is at fault, or the placement is wrong
	case attempt.Good:
	default:
		x.avoid = append(x.avoid, t.blamed...)
		if !t.full && !t.ofRequest { // a full queue is load, and no fault
			x.failure, x.suspects = t.cause, append(x.suspects, t.blamed...)
		}
		return
	}
	if t.resp.StatusCode != http.StatusOK {
		return // a client's error: how fast it was says nothing of a search
	}
	// The same search failed on others. One that fails everywhere is at fault itself: a client that repeats it must not
	// get good nodes ejected.
	if len(x.suspects) > 0 {
		p.o.Selector.Blame(x.suspects, "search failed: "+string(x.failure), now)
	}
	if !t.steered || !x.rule.searches {
		return
	}
	if t.decision.Reason.Lists() {
		p.allowed()
	}
	took := now.Sub(t.began)
	p.o.Selector.Observe(&t.decision, selection.Outcome{ResponseTime: took, Took: t.head.Took, HasTook: t.head.HasTook}, now)
	p.hedges.Observe(x.kind(), took)
}
