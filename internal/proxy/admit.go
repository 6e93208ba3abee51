package proxy

import (
	"math/rand/v2"
	"net/http"
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
	// limits.body_timeout is less.
	discardTime = 10 * time.Second
)

// admit has a search wait while its nodes have as much to do as they can. It reports
// whether the request goes on: one that is refused has been answered.
func (x *exchange) admit() bool {
	a, t := x.admitter, &x.ticket
	if a == nil {
		return true
	}
	x.p.o.Touch()
	t.Class, t.Bytes, t.AtOnce = a.classOf(x), int64(len(x.body)), x.request.AtOnce
	t.Passes = !a.writes && x.continues()
	if x.steering() == es.SteerItems && t.Searches == 0 && x.request.Pass != es.PassUnreadableBody && x.fits() { // it passes
		items, _ := es.MultiSearch(nil, x.request, x.body)
		t.Searches = len(items)
	}
	x.goElsewhere(nil)
	began := time.Now()
	verdict, why := a.decide(x, (*admission.Control).Offer)
	for verdict == admission.Waits {
		verdict, why = a.await(x)
		x.Waited = time.Since(began)
		if verdict != admission.Refused && !x.gone() && x.chooseAnew() {
			verdict, why = a.decide(x, (*admission.Control).Move)
		}
	}
	if x.Waited > 0 {
		x.p.metrics.admission.waited.WithLabelValues(x.Class).Observe(x.Waited.Seconds())
	}
	switch {
	case verdict == admission.Admitted && (x.Waited == 0 || !x.gone()):
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
	case x.loads() && x.p.admission.inForce() != admission.Off:
		return x.p.admission
	case (x.Operation == es.Bulk || x.Operation == es.Write) && x.p.writes.inForce() != admission.Off:
		return x.p.writes
	}
	return nil
}

// loads reports whether the request is work of the nodes' search threads. Reads by id have threads of their own.
func (x *exchange) loads() bool {
	switch x.Operation {
	case es.Scroll:
		return x.Method != http.MethodDelete
	case es.PIT: // opening one searches nothing
		return false
	}
	_, local := es.LocalTarget(x.Target) // the threads of other clusters are not known
	return local && x.steering() != es.SteerNone && x.steering() != es.SteerByID
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
	if x.admitter == nil {
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
	if x.admitter == nil {
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

// goElsewhere has a search that finds no room where it is to go take another decision with which it does: the one with which it
// has waited, if that is given, else one past the node that it is meant for, if that is one. Other copies would be spared for nothing.
func (x *exchange) goElsewhere(waited *selection.Decision) {
	if x.first == nil || x.steering() == es.SteerItems {
		return
	}
	first := &x.first.decision
	switch one := len(first.Nodes) == 1; {
	case waited == nil && !one, x.admitter.fits(&x.ticket):
	case waited != nil && x.take(waited):
	case one:
		t := newTry(x)
		defer t.release()
		x.p.o.Selector.Preview(&t.decision, x.selectionRequest(first.Nodes), x.now)
		x.take(&t.decision)
	}
}

// take puts another decision about the same copies in place of the first, if there is room for the search with it and it lists no node that is to be kept
// out. It reports whether it did.
func (x *exchange) take(d *selection.Decision) bool {
	first := &x.first.decision
	x.expect(d)
	fits := d.Fit(first) && x.admitter.fits(&x.ticket)
	if fits {
		*first, *d = *d, *first
		x.Reason = string(first.Reason)
	}
	x.expect(first)
	return fits
}

// chooseAnew decides about a search again that has waited, as if it came now: what was decided may be outdated. Where there is no
// room by now it goes where it has waited. It reports whether it was decided anew.
func (x *exchange) chooseAnew() bool {
	x.view, x.now = x.p.view.Load(), time.Now()
	if x.ruledOut != "" {
		return false
	}
	before, plan := x.first, x.plan
	x.first, x.items, x.plan, x.near, x.Reason = nil, nil, nil, nil, ""
	x.ticket.Parts = x.ticket.Parts[:0]
	x.resolve()
	x.choose()
	var waited *selection.Decision
	if before != nil {
		defer before.release()
		if x.first != nil && x.plan == plan {
			waited = &before.decision
			if !slices.Contains(waited.Nodes, waited.Coordinator) { // what speaks against it by now is not known
				waited.Coordinator = x.first.decision.Coordinator
			}
		}
	}
	x.goElsewhere(waited)
	return true
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
	if s == nil || x.asking || x.r.ProtoMajor > 1 {
		return
	}
	began := time.Now()
	s.deadline.untilDiscarded(began) // nothing else reads the body by now
	s.drain(x)
	x.reading += time.Since(began)
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
	a := x.admitter
	if a == nil {
		return
	}
	x.admitter = nil
	status := 0
	if answered != nil && answered.resp != nil {
		status = answered.resp.StatusCode
	}
	t := &x.ticket
	t.Failed = status == 0 || status >= http.StatusBadRequest
	a.do(func(now time.Time) []*admission.Ticket {
		switch {
		case status == 0 && x.knownGone():
			return a.control.Abandon(t, now)
		case status == http.StatusTooManyRequests:
			a.control.Rejected(t, now)
		}
		return a.control.Done(t, now)
	})
}
