package lab

import (
	"time"

	"sidestep/internal/attempt"
	"sidestep/internal/selection"
)

// arm has the first attempt of s looked after when it is overdue.
func (r *sidestep) arm(s *search) {
	r.budget.Delay("", r.now())
	if late, overdue, ok := r.overdueOf[s.index].Delay("", r.now()); ok {
		at := r.w.c.now + overdue
		r.w.c.after(late, func() { r.overdue(s, at, false) })
	}
}

// overdue asks the machine what to do about an attempt that takes long, and is overdue at at.
func (r *sidestep) overdue(s *search, at time.Duration, probed bool) {
	if s.settled {
		return
	}
	if s.tries[0].ended { // and another may follow it
		return
	}
	second, ok := r.second(s, probed)
	next := s.machine.Overdue(ok, at-r.w.c.now)
	switch next.Do {
	case attempt.Hedge:
		r.w.send(s, second, true)
		s.second = s.last()
		return
	case attempt.Ask:
		for _, a := range attempt.ToAsk(r.budget, func() []selection.Asking { return r.s.Ask(nil, s.decided.decision, r.now()) }) {
			r.ask(a)
		}
	case attempt.Suspect:
		r.s.Suspect(s.decided.decision, r.now())
		probed = true
	}
	if next.Do != attempt.Wait {
		r.w.c.after(next.After, func() { r.overdue(s, at, probed) })
	}
	if ok {
		r.recycle(second.decision)
	}
}

// second plans a second attempt, false if there is to be none now. Until the nodes have been
// probed only one that is silent is a reason.
func (r *sidestep) second(s *search, probed bool) (plan, bool) {
	if silent := r.s.Silent(s.decided.decision, r.now()); !silent && !probed {
		return plan{}, false
	}
	alive := 0
	for _, n := range r.nodes {
		if n.Alive() {
			alive++
		}
	}
	if 2*alive <= len(r.nodes) || !r.placed(s) || r.waits != nil && r.waits() {
		return plan{}, false
	}
	d, first := r.decision(), s.decided.decision
	r.s.Choose(d, r.request(s, nil), r.now())
	if r.s.Worthwhile(first, d, r.now()) {
		if p, ok := r.listed(s, d); ok && (r.s.EjectedSince(first) || r.budget.Spend()) {
			return p, true
		}
	}
	r.recycle(d)
	return plan{}, false
}
