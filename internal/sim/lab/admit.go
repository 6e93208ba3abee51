package lab

import (
	"math/rand/v2"
	"net/http"
	"time"

	"sidestep/internal/admission"
	"sidestep/internal/selection"
)

// admitting is a router that may have a search wait, or refuse it.
type admitting interface {
	// admit begins s, now or later. It has been opened.
	admit(s *search)
}

// controlled is a sidestep with admission control.
type controlled struct {
	*sidestep
	control *admission.Control
	scratch selection.Decision
}

// newControlled returns a router with admission.
func newControlled(o admission.Options) func(*world, *rand.Rand) router {
	return func(w *world, rng *rand.Rand) router {
		o := o // runs go on at the same time
		o.Sidesteps = w.sc.clients()
		g := &controlled{sidestep: startSidestep(variants()[0], w, rng), control: admission.New(o)}
		g.control.Update(w.ids[:w.sc.nodes])
		g.waits = func() bool { return g.control.Full(g.now()) }
		w.c.after(time.Second, g.note)
		return g
	}
}

// note notes the mean limit of the nodes, once a second.
func (g *controlled) note() {
	g.w.c.after(time.Second, g.note)
	sum := 0.0
	for _, id := range g.w.ids[:g.w.sc.nodes] {
		if v := g.control.View(id, g.now()); v.Limit != nil {
			sum += *v.Limit
		}
	}
	g.w.measure.limits = append(g.w.measure.limits, sum/float64(g.w.sc.nodes))
}

func (g *controlled) admit(s *search) {
	t := &s.ticket
	t.Owner, t.Class = s, s.class
	g.expect(s)
	g.settled(g.control.Offer(t, g.now()))
	g.proceed(t)
	if patience := g.control.Patience(t.Class); t.Verdict == admission.Waits && patience > 0 {
		g.w.c.after(patience, func() { g.settled(g.control.Turn(g.now())) })
	}
}

// expect notes what s sends to each node: as it was decided or, if that is not acted
// upon, as it would have been. Of a search of which some shard has no copy it is not known.
func (g *controlled) expect(s *search) {
	s.ticket.Parts = s.ticket.Parts[:0]
	d := &g.scratch
	switch {
	case s.decided != nil:
		d = s.decided.decision
	case g.placed(s):
		g.s.Choose(d, g.request(s, nil), g.now())
	default:
		return
	}
	for i, n := range d.Nodes {
		tasks, sole := d.Expected(i)
		s.ticket.Parts = append(s.ticket.Parts, admission.Part{Node: n.ID, Tasks: tasks, Needed: sole})
	}
}

// settled carries out verdicts that have come.
func (g *controlled) settled(turned []*admission.Ticket) {
	for _, t := range turned {
		g.proceed(t)
	}
}

// proceed does what the verdict about a ticket says.
func (g *controlled) proceed(t *admission.Ticket) {
	s := t.Owner.(*search)
	switch t.Verdict {
	case admission.Admitted:
		g.w.c.after(0, func() {
			if s.settled {
				return
			}
			if t.Waited() > 0 {
				g.chooseAnew(s)
			}
			if t.Verdict != admission.Admitted {
				g.proceed(t)
				return
			}
			g.w.follow(s, s.machine.Begin())
		})
	case admission.Refused:
		g.w.c.after(0, func() {
			if !s.settled {
				g.w.measure.refused++
				g.w.conclude(s, false, http.StatusTooManyRequests)
			}
		})
	}
}

// chooseAnew decides about a search again that has waited: what was decided may be
// outdated.
func (g *controlled) chooseAnew(s *search) {
	if s.decided == nil {
		return // it goes on as its client wrote it
	}
	g.recycle(s.decided.decision)
	s.decided = nil
	g.w.open(s)
	g.expect(s)
	g.settled(g.control.Move(&s.ticket, g.now()))
}

// close implements router.
func (g *controlled) close(s *search) {
	g.sidestep.close(s)
	if s.left {
		g.settled(g.control.Abandon(&s.ticket, g.now()))
		return
	}
	g.settled(g.control.Done(&s.ticket, g.now()))
}

func (g *controlled) poll(node int, p poll) {
	g.sidestep.poll(node, p)
	if p.State != selection.Fine {
		return
	}
	n := g.w.nodes[node]
	g.settled(g.control.Observe(g.w.ids[node], admission.Poll{
		Threads: int64(n.threads), QueueSize: int64(n.queue), Queue: p.Queue, Active: p.active,
		Completed: p.Queries, ServiceTime: p.ServiceTime, Rejected: p.rejections,
	}, g.now()))
}
