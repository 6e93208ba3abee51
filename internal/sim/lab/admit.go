package lab

import (
	"fmt"
	"math/rand/v2"
	"time"

	"sidestep/internal/admission"
	"sidestep/internal/selection"
)

// admitting is a router that may have a search wait, or refuse it.
type admitting interface {
	// admit sends s, now or later.
	admit(s *search)
	// dismiss is told once that s is over, whether it was sent or not.
	dismiss(s *search)
}

// gatekeeper is sidestep with admission.
type gatekeeper struct {
	*sidestep
	control *admission.Control
	scratch selection.Decision
}

// newGatekeeper returns a router with admission.
func newGatekeeper(o admission.Options) func(*world, *rand.Rand) (router, error) {
	return func(w *world, rng *rand.Rand) (router, error) {
		r, err := newSidestep("adaptive", asServed())(w, rng)
		if err != nil {
			return nil, fmt.Errorf("admission: %w", err)
		}
		o.Sidesteps = w.sc.sidecars
		g := &gatekeeper{sidestep: r.(*sidestep), control: admission.New(o)}
		g.control.Update(w.ids[:w.sc.nodes])
		w.c.after(time.Second, g.note)
		return g, nil
	}
}

// note notes the mean limit of the nodes, once a second.
func (g *gatekeeper) note() {
	g.w.c.after(time.Second, g.note)
	sum := 0.0
	for _, id := range g.w.ids[:g.w.sc.nodes] {
		if v := g.control.View(id, g.now()); v.Limit != nil {
			sum += *v.Limit
		}
	}
	g.w.measure.limits = append(g.w.measure.limits, sum/float64(g.w.sc.nodes))
}

func (g *gatekeeper) admit(s *search) {
	g.s.Choose(&g.scratch, g.request(s), g.now())
	t := &s.ticket
	t.Owner, t.Class = s, s.class
	for i, n := range g.scratch.Nodes {
		tasks, sole := g.scratch.Expected(i)
		t.Expect(admission.Part{Node: n.ID, Tasks: tasks, Needed: sole})
	}
	g.settled(g.control.Offer(t, g.now()))
	g.proceed(t)
	if patience := g.control.Patience(t); t.Verdict == admission.Waits && patience > 0 {
		g.w.c.after(patience, func() {
			if t.Verdict == admission.Waits && !s.settled {
				g.settled(g.control.Leave(t, admission.TooLate, g.now()))
				g.proceed(t)
			}
		})
	}
}

// settled carries out verdicts that have come.
func (g *gatekeeper) settled(turned []*admission.Ticket) {
	for _, t := range append([]*admission.Ticket(nil), turned...) {
		g.proceed(t)
	}
}

// proceed does what the verdict about a ticket says.
func (g *gatekeeper) proceed(t *admission.Ticket) {
	s := t.Owner.(*search)
	switch t.Verdict {
	case admission.Admitted:
		g.w.c.after(0, func() {
			if !s.settled {
				g.w.attempt(s)
			}
		})
	case admission.Refused:
		g.w.c.after(0, func() {
			if !s.settled {
				g.w.measure.refused++
				s.finished(false)
			}
		})
	}
}

func (g *gatekeeper) dismiss(s *search) {
	if s.ticket.Verdict == admission.Waits {
		g.settled(g.control.Leave(&s.ticket, admission.TooLate, g.now()))
		return
	}
	if s.left {
		g.settled(g.control.Abandon(&s.ticket, g.now()))
		return
	}
	g.settled(g.control.Done(&s.ticket, g.now()))
}

// second sends no hedge while searches wait.
func (g *gatekeeper) second(s *search, first plan) (plan, bool) {
	if g.control.Waiting() > 0 {
		return plan{}, false
	}
	return g.sidestep.second(s, first)
}

func (g *gatekeeper) poll(node int, p poll) {
	g.sidestep.poll(node, p)
	if p.unanswered || p.failed {
		return
	}
	n := g.w.nodes[node]
	g.settled(g.control.Observe(g.w.ids[node], admission.Poll{
		Threads: int64(n.threads), QueueSize: int64(n.queue), Queue: float64(p.queue), Active: p.active,
		Completed: p.served, ServiceTime: p.service, Rejected: p.rejected,
	}, g.now()))
}
