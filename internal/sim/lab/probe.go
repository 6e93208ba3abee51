package lab

import (
	"time"

	"sidestep/internal/selection"
)

const (
	// probeTick is how often the proxy asks for probes that are due.
	probeTick = 10 * time.Millisecond
	// probeDemand is what a probe costs the node, in CPU seconds.
	probeDemand = 0.0005
)

// probe sends what is due and plans the next look.
func (r *sidestep) probe() {
	r.w.c.after(probeTick, r.probe)
	r.probes = r.s.Probes(r.probes[:0], r.nodes, r.now())
	for _, p := range r.probes {
		r.sendProbe(p)
	}
}

// sendProbe sends a tiny shard query through the coordinating node it is to take.
func (r *sidestep) sendProbe(p selection.Probe) {
	w, sent, ended := r.w, r.w.c.now, false
	end := func(o selection.ProbeOutcome) {
		if !ended {
			ended = true
			r.s.ObserveProbe(p, o, r.now())
		}
	}
	w.c.after(selection.ProbeTimeout, func() {
		end(selection.ProbeOutcome{Took: selection.ProbeTimeout, Failed: true, Message: "no answer"})
	})
	via, n := w.nodes[r.index[p.Via]], w.nodes[r.index[p.Node]]
	if via.absent || n.absent {
		end(selection.ProbeOutcome{Unfit: true})
		return
	}
	awaited := max(1, p.Burst)
	back := func(failed bool) {
		w.c.after(w.toClient(via), func() {
			if awaited--; awaited > 0 && !failed {
				return
			}
			end(selection.ProbeOutcome{Took: w.c.now - sent, Failed: failed, Message: "refused"})
		})
	}
	serve := func() {
		n.submit(&task{demand: probeDemand, done: func(ok bool) {
			w.c.after(w.hop(n, via), func() { via.receive(func() { back(!ok) }) })
		}})
	}
	slow := time.Duration(0)
	if via.http > 0 {
		slow = w.jitter(via.http, 1.0/6)
	}
	w.c.after(w.toClient(via)+slow, func() {
		via.receive(func() {
			if via.fails {
				back(true)
				return
			}
			for range awaited {
				w.c.after(w.hop(via, n)+w.extra(via, n), func() { n.receive(serve) })
			}
		})
	})
}

func (r *sidestep) overdue() (time.Duration, bool) {
	if r.prefer {
		return 0, false
	}
	return r.hedges.Delay("", r.now())
}

func (r *sidestep) suspect(p plan) { r.s.Suspect(p.decision, r.now()) }

func (r *sidestep) second(s *search, first plan) (plan, bool) {
	p := r.route(s)
	if r.s.Worthwhile(first.decision, p.decision, r.now()) && (r.s.Stranded(first.decision) || r.hedges.Spend()) {
		return p, true
	}
	p.decision.Release()
	r.idle = append(r.idle, p.decision)
	return plan{}, false
}

func (r *sidestep) answered(took time.Duration) { r.hedges.Observe("", took) }

func (r *sidestep) abandon(p plan) {
	if p.decision == nil {
		return
	}
	r.s.Abandon(p.decision, r.now())
	p.decision.Release()
	r.idle = append(r.idle, p.decision)
}
