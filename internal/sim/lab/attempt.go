package lab

import (
	"time"

	"sidestep/internal/selection"
)

// hedging is a router that may send an overdue search a second time.
type hedging interface {
	// overdue counts a search and returns when it is overdue; false: never.
	overdue() (time.Duration, bool)
	// suspect is told of an attempt that is.
	suspect(p plan)
	// second plans a second attempt, false if there is to be none now.
	second(s *search, first plan) (plan, bool)
	// abandon is told of an attempt that another was sooner than.
	abandon(p plan)
	// answered is told how long a search took with all its attempts.
	answered(took time.Duration)
}

// attempt sends s once; if that fails, again, to other copies, and last as the
// client wrote it.
func (w *world) attempt(s *search) {
	r := w.routers[s.sidecar]
	s.attempts++
	steered := s.attempts == 1 || s.attempts < r.attempts()
	var p plan
	if steered {
		p = r.route(s)
	} else {
		p = plan{coordinator: w.entry(s), final: true}
	}
	if h, ok := r.(hedging); ok && s.attempts == 1 {
		if delay, ok := h.overdue(); ok {
			w.c.after(delay, func() { w.hedge(h, s, p, 0) })
		}
	}
	w.send(s, p, steered)
}

// hedge sends s a second time if it has not been answered.
func (w *world) hedge(h hedging, s *search, first plan, look int) {
	if s.settled {
		return
	}
	h.suspect(first)
	w.c.after(selection.HedgeWait(look), func() {
		if s.settled || len(s.running) != 1 || s.attempts > 1 {
			return
		}
		if p, ok := h.second(s, first); ok {
			w.send(s, p, true)
			return
		}
		w.hedge(h, s, first, look+1)
	})
}

// send sends s as planned and sees to what comes back.
func (w *world) send(s *search, p plan, steered bool) {
	r := w.routers[s.sidecar]
	s.tried = append(s.tried, p.coordinator)
	w.measure.sends++
	c := w.coordinators[p.coordinator]
	now := &try{plan: p, sent: w.c.now}
	s.running = append(s.running, now)
	answer := func(o outcome) {
		w.c.after(w.toClient(c.node), func() {
			if now.cancelled {
				return
			}
			o.response = w.c.now - now.sent
			if steered {
				r.observe(p, o)
			}
			w.settle(s, now, o)
		})
	}
	slow := time.Duration(0)
	if c.node.http > 0 {
		slow = w.jitter(c.node.http, 1.0/6)
	}
	w.c.after(w.toClient(c.node)+slow, func() {
		c.node.receive(func() { w.execute(c, s, now, answer) })
	})
}

// settle ends s with the first good answer; after a bad one it waits for the other
// attempt, if there is one, or tries again.
func (w *world) settle(s *search, ended *try, o outcome) {
	r := w.routers[s.sidecar]
	s.running = without(s.running, ended)
	if o.failed {
		s.avoid = append(s.avoid, o.blamed...)
		if len(s.running) > 0 {
			return
		}
		if !ended.final && s.attempts < r.attempts() {
			w.attempt(s)
			return
		}
	}
	h, hedges := r.(hedging)
	for _, other := range s.running {
		other.cancelled = true
		h.abandon(other.plan)
	}
	s.running = nil
	if hedges && !o.failed {
		h.answered(w.c.now - s.start)
	}
	s.finished(!o.failed)
}

func without(runs []*try, r *try) []*try {
	var out []*try
	for _, other := range runs {
		if other != r {
			out = append(out, other)
		}
	}
	return out
}
