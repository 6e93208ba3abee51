package proxy

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"time"

	"sidestep/internal/admission"
	"sidestep/internal/es"
	"sidestep/internal/selection"
)

const (
	// A refusal is held back for between heldBackLeast and heldBackMost, as client
	// libraries answer a 429 by sending the request again at once. No more than
	// maxHeldBack are at a time: beyond that room is worth more.
	heldBackLeast = 50 * time.Millisecond
	heldBackMost  = 250 * time.Millisecond
	maxHeldBack   = 1000
	// retryAfter is what a refusal tells its client, in seconds.
	retryAfter = "1"
	// discardTime is for how long the body of a request that is refused is read, unless
	// limits.body_timeout is less: up to what the engines take.
	discardTime = 10 * time.Second
)

// admit has a search wait while its nodes have as much to do as they can. It reports
// whether the request goes on: one that is refused has been answered.
func (x *exchange) admit() bool {
	a, t := x.findAdmitter(), &x.ticket
	if a == nil {
		return true
	}
	x.p.o.Touch()
	t.Class, t.Bytes, t.AtOnce = a.classOf(x), int64(len(x.body)), x.request.AtOnce
	t.Passes = !a.writes && x.continues()
	x.goElsewhere()
	now := time.Now()
	verdict, why, class := a.offer(x, now)
	for x.Class = class; verdict == admission.Waits; {
		verdict, why, x.Class = x.waitTurn(now) // it may be a lower one by then
		x.Waited = time.Since(now)
		x.admitted = verdict == admission.Admitted // whatever becomes of choosing
		if x.admitted && !x.gone() && !x.chooseAnew() {
			verdict = admission.Waits
		}
	}
	if x.Waited > 0 {
		x.p.metrics.admission.waited.WithLabelValues(x.Class).Observe(x.Waited.Seconds())
	}
	x.admitted = verdict == admission.Admitted
	if x.admitted && x.Waited > 0 {
		a.waited(t)
	}
	switch {
	case x.admitted && (x.Waited == 0 || !x.gone()):
		return true
	case x.gone():
		x.p.metrics.admission.dropped.WithLabelValues(x.Class).Inc()
		panic(http.ErrAbortHandler) // there is no client to be answered
	}
	x.refuse(why)
	return false
}

// findAdmitter returns what decides about the request, nil if nothing does.
func (x *exchange) findAdmitter() *admissions {
	switch {
	case x.admits && x.loads():
		x.admitter = x.p.admission
	case (x.Operation == es.Bulk || x.Operation == es.Write) && x.p.writes.inForce() != admission.Off:
		x.admitter = x.p.writes
	}
	return x.admitter
}

// loads reports whether the request is work of the nodes' search threads. Reads by id have threads of their own.
func (x *exchange) loads() bool {
	switch x.Operation {
	case es.Scroll:
		return x.Method != http.MethodDelete
	case es.PIT: // opening one searches nothing
		return false
	}
	return x.steering() != es.SteerNone && x.steering() != es.SteerByID
}

// continues reports whether the request goes on with what has begun: the nodes hold its
// contexts, and free them the sooner the sooner it ends. A multi-search does if one of its
// searches does. Of a body that streams the beginning is looked at.
func (x *exchange) continues() bool {
	body := x.body
	if x.stream != nil {
		body = x.stream.read // nothing else reads it by now
	}
	switch {
	case x.Operation == es.Scroll:
		return true
	case !x.mayContinue():
		return false
	case x.steering() == es.SteerItems:
		return es.ItemsNamePIT(body)
	}
	return es.NamesPIT(body)
}

// mayContinue reports whether the body of the request may name a point in time. With it the
// engines take no target.
func (x *exchange) mayContinue() bool {
	return x.Target == "" && (x.Operation.TakesPIT() || x.Operation == es.MSearch)
}

// expect notes what a search sends to each node.
func (x *exchange) expect(d *selection.Decision) {
	if !x.admits {
		return
	}
	x.ticket.Parts = x.ticket.Parts[:0]
	for i, n := range d.Nodes {
		tasks, sole := d.Expected(i)
		x.ticket.Parts = append(x.ticket.Parts, admission.Part{Node: n.ID, Tasks: tasks, Needed: sole})
	}
}

// expectItems notes what a multi-search sends to each node. Items of which that is not
// known count as the others.
func (x *exchange) expectItems(m *multiSearch) {
	if !x.admits {
		return
	}
	x.ticket.Searches, x.ticket.Parts = len(m.items), x.ticket.Parts[:0]
	known := 0
	for _, s := range m.searches {
		for i, n := range s.decision.Nodes {
			tasks, sole := s.decision.Expected(i)
			x.ticket.Expect(admission.Part{Node: n.ID, Tasks: tasks * float64(s.all), Needed: sole})
		}
		if len(s.decision.Nodes) > 0 {
			known += s.all
		}
	}
	for i := range x.ticket.Parts {
		x.ticket.Parts[i].Tasks *= float64(len(m.items)) / float64(known)
	}
}

// goElsewhere chooses another copy for a search that is meant for one node, if that one is at its limit, and the other is not
// and may be listed: else that would be spared for nothing.
func (x *exchange) goElsewhere() {
	a := x.admitter
	if m := a.inForce(); m != admission.Auto && m != admission.Target {
		return // nothing is changed
	}
	if x.first == nil || x.items != nil || len(x.first.decision.Nodes) != 1 || x.ticket.Passes || a.fits(&x.ticket) {
		return
	}
	full := x.first.decision.Nodes[0]
	t := newTry(x)
	t.steered = true
	x.p.o.Selector.Preview(&t.decision, x.selectionRequest([]*selection.Node{full}), x.now)
	x.expect(&t.decision)
	if t.decision.Reason.Lists() && t.decision.Fit(&x.first.decision) && a.fits(&x.ticket) {
		x.first, t = t, x.first
		x.Reason = string(x.first.decision.Reason)
	} else {
		x.expect(&x.first.decision)
	}
	t.release()
}

// waitTurn waits until the verdict about the ticket has come, the time has passed that it
// may wait in its class and those below, or the client is gone.
func (x *exchange) waitTurn(began time.Time) (admission.Verdict, admission.Reason, string) {
	a := x.admitter
	var late <-chan time.Time
	if patience := a.patience(&x.ticket); patience > 0 {
		timer := time.NewTimer(time.Until(began.Add(patience)))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-x.turn:
	case <-x.r.Context().Done():
	case <-late:
		if a.downgrade(&x.ticket) {
			return x.waitTurn(began)
		}
	}
	return a.settle(x)
}

// chooseAnew decides about a search again that has waited: what was decided may be
// outdated. It reports whether there is room for it where it is to go now; else it waits again. Where there is none, it goes
// where it has waited, unless a node there is to be kept out by now.
func (x *exchange) chooseAnew() bool {
	now, v := time.Now(), x.p.view.Load()
	x.now = now // whatever becomes of the decision: what waited was not yet sent
	if x.first == nil {
		x.view = v
	}
	switch {
	case x.first == nil:
		return true
	case x.items != nil:
		return x.chooseItemsAnew(v, now)
	}
	plan, why := x.planAt(v.snapshot, now)
	if why != "" || plan == nil {
		return true
	}
	before, same := x.first, x.plan == plan && slices.Equal(x.view.nodes, v.nodes) // most views only confirm the placement
	x.view, x.plan, x.first = v, plan, nil
	x.choose()
	if same && x.first != nil && !x.admitter.fits(&x.ticket) && before.decision.Fit(&x.first.decision) {
		x.first, before = before, x.first
		if d := &x.first.decision; !slices.Contains(d.Nodes, d.Coordinator) { // what speaks against it by now is not known
			d.Coordinator = before.decision.Coordinator
		}
		x.expect(&x.first.decision)
		x.Reason = string(x.first.decision.Reason)
	}
	before.release()
	x.goElsewhere()
	return x.admitter.move(&x.ticket)
}

// chooseItemsAnew does the same with a multi-search. Its items have been counted.
func (x *exchange) chooseItemsAnew(v *view, now time.Time) bool {
	x.first.release()
	x.view, x.first, x.items = v, nil, nil
	x.chooseItems(now)
	return x.admitter.move(&x.ticket)
}

// refuse answers as the engine does when its queues are full. It costs the engine nothing.
func (x *exchange) refuse(why admission.Reason) {
	a := x.admitter
	x.discardBody()
	if a.heldBack.Add(1) <= maxHeldBack {
		began := time.Now()
		x.sleep(heldBackLeast + rand.N(heldBackMost-heldBackLeast))
		x.Waited += time.Since(began)
	}
	a.heldBack.Add(-1)
	if !x.stalled() && x.gone() { // net/http ends the context of both
		x.p.metrics.admission.dropped.WithLabelValues(x.Class).Inc()
		panic(http.ErrAbortHandler)
	}
	x.p.metrics.admission.refusals.WithLabelValues(x.Class, string(why)).Inc()
	x.Outcome = string(outcomeRefused)
	typ := "es_rejected_execution_exception"
	if x.view.engine() == "opensearch" {
		typ = "rejected_execution_exception"
	}
	x.w.Header().Set("Retry-After", retryAfter)
	x.answerOwn(http.StatusTooManyRequests, typ, refusals[why])
}

// discardBody reads what the client still sends of a request that is refused: one that is
// cut off while it sends does not see the answer. One that asked first sends nothing, and
// HTTP/2 ends the body alone. A connection on which the rest has not come is closed.
func (x *exchange) discardBody() {
	s := x.stream
	if s == nil || x.asking {
		return
	}
	s.received.Add(int64(len(s.read)))
	if x.r.ProtoMajor > 1 {
		return
	}
	began := time.Now()
	s.deadline.untilDiscarded(began) // nothing else reads the body by now
	s.deadline.push()
	n, err := io.CopyN(io.Discard, x.r.Body, usualLongestBody)
	x.reading += time.Since(began)
	if x.discarded = n; errors.Is(err, io.EOF) {
		s.ended.Store(true)
		return
	}
	s.stalled.Store(errors.Is(err, os.ErrDeadlineExceeded))
	x.hangUp()
}

// refusals are the words of refusals.
var refusals = map[admission.Reason]string{
	admission.QueueFull: "rejected execution: as much waits for the nodes as they would queue",
	admission.NoRoom:    "rejected execution: the searches that wait hold admission.queue.bytes",
	admission.TooLate:   "rejected execution: it would have had to wait for longer than it may",
}

// dismiss returns the ticket, once. answered is the attempt that had the last word, nil if
// none had.
func (x *exchange) dismiss(answered *try) {
	if x.admitted {
		x.admitted = false
		answer := answered != nil && answered.resp != nil
		full := answer && answered.resp.StatusCode == http.StatusTooManyRequests
		x.ticket.Failed = !answer || answered.resp.StatusCode >= http.StatusBadRequest
		x.admitter.done(&x.ticket, x.knownGone() && !answer, full)
	}
}
