package lab

import (
	"net/http"
	"slices"

	"sidestep/internal/attempt"
)

// begin attempts a search as the data plane does, once it is admitted: [attempt.Machine]
// says what is done next, and the router of the sidecar where to.
func (w *world) begin(s *search) {
	w.open(s)
	if w.sc.patience > 0 {
		w.patient = append(w.patient, s)
	}
	if w.sc.deadline > 0 {
		w.c.after(w.sc.deadline, func() { w.giveUp(s) })
	}
	if gate, ok := w.routers[s.sidecar].(admitting); ok {
		gate.admit(s)
		return
	}
	w.follow(s, s.machine.Begin())
}

// open has the router decide what is done with s.
func (w *world) open(s *search) {
	rule, budget := w.routers[s.sidecar].open(s)
	s.rule = rule
	s.machine = attempt.New(rule, budget)
}

// follow does what the machine of s asks for.
func (w *world) follow(s *search, next attempt.Action) {
	r := w.routers[s.sidecar]
	for !s.settled {
		switch next.Do {
		case attempt.Steer:
			p, why := r.steer(s)
			switch why {
			case planned:
				w.send(s, p, true)
				return
			case noNode:
				next = s.machine.NoNode(w.c.now - s.start)
			default:
				next = s.machine.NoOther(why == overloaded)
			}
		case attempt.Unchanged:
			p, ok := r.unchanged(s)
			if ok {
				w.send(s, p, false)
				return
			}
			next = s.machine.NoNode(w.c.now - s.start)
		case attempt.Pause:
			w.c.after(next.After, func() {
				s.round = len(s.tried)
				w.follow(s, attempt.Action{Do: attempt.Unchanged})
			})
			return
		case attempt.Answer:
			ok, status := false, 0
			if next.Attempt >= 0 {
				ok, status = s.tries[next.Attempt].good(), s.tries[next.Attempt].status
			}
			w.conclude(s, ok, status)
			return
		default: // an attempt is under way
			return
		}
	}
}

// conclude ends s with its answer, of this status. Clients send a search again that got none, or that a server
// could not answer, as the official ones do.
func (w *world) conclude(s *search, ok bool, status int) {
	s.settled = true
	w.routers[s.sidecar].close(s)
	if !ok && !s.left && s.repeats > 0 && (status == 0 || status == http.StatusServiceUnavailable) {
		w.begin(&search{
			start: s.start, kind: s.kind, index: s.index, shards: s.shards, demands: s.demands,
			sidecar: s.sidecar, class: s.class, finished: s.finished, repeats: s.repeats - 1,
		})
		return
	}
	s.finished(ok)
}

// send sends s as planned and sees to what comes back.
func (w *world) send(s *search, p plan, steered bool) {
	r := w.routers[s.sidecar]
	t := &try{plan: p, steered: steered, sent: w.c.now}
	if !steered && !s.ownSent() {
		s.round = len(s.tried)
	}
	t.number = s.machine.Sent(p.listed != nil, !steered)
	s.tries, s.tried = append(s.tries, t), append(s.tried, p.tried())
	w.measure.attempt(s.start, w.c.now)
	r.sent(s, t)
	c := w.coordinators[p.coordinator]
	answer := func(o outcome) {
		w.c.after(w.toClient(), func() {
			if t.cancelled {
				return
			}
			o.response = w.c.now - t.sent
			w.ended(s, t, o)
		})
	}
	w.c.after(w.jitter(c.node.http, unevenly)+w.toClient(), func() {
		c.node.receive(func() {
			if !t.cancelled { // else the node finds the connection closed
				w.execute(c, s, t, answer)
			}
		})
	})
}

// ended notes how an attempt ended and does what is next.
func (w *world) ended(s *search, t *try, o outcome) {
	r := w.routers[s.sidecar]
	t.ended, t.complete, t.status = true, o.good(), o.status
	r.release(t)
	t.cause = judge(s, t, &o)
	next := s.machine.Ended(t.number, attempt.Result{
		Cause: t.cause, Lost: o.failed, Full: o.full, Room: o.full && r.roomBeside(t, o),
		Unavailable: o.status == http.StatusServiceUnavailable || t.cause == attempt.Partial && o.noCopies,
	})
	r.learn(s, t, o)
	if next.Do == attempt.Answer {
		for _, other := range s.tries {
			if !other.ended {
				other.ended, other.cancelled = true, true
				r.release(other)
			}
		}
	}
	w.follow(s, next)
}

// judge says why an answer should not be the last word, as the data plane does.
func judge(s *search, t *try, o *outcome) attempt.Cause {
	switch {
	case o.refused:
		return attempt.Unreachable
	case o.status == 0:
		return attempt.Transport
	case s.kind == readByID && o.status != http.StatusServiceUnavailable:
		return attempt.Good // the engine has tried every copy
	case o.status == http.StatusTooManyRequests:
		return attempt.Rejected
	case o.status == http.StatusServiceUnavailable:
		return attempt.EngineError
	case o.status == http.StatusBadRequest:
		return attempt.NoCopy
	case o.failed > 0 && (t.steered || s.rule.Steered > 1):
		return attempt.Partial
	}
	return attempt.Good
}

// blame returns the nodes at fault for a bad answer of a listed set: those of the set
// that it names. If an error names none, it is the coordinating node. Of a partial result, and if shards had no copy on the set,
// none is known to be.
func blame(cause attempt.Cause, set []int, o *outcome, coordinator int) []int {
	if cause == attempt.NoCopy {
		return nil
	}
	var blamed []int
	for _, n := range set {
		if slices.Contains(o.named, n) {
			blamed = append(blamed, n)
		}
	}
	if len(blamed) > 0 || cause == attempt.Partial {
		return blamed
	}
	return []int{coordinator}
}
