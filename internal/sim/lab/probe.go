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
	// askDemand is what it costs the node to say that it answers.
	askDemand = 0.00005
)

// ask asks a node directly whether it answers.
func (r *sidestep) ask(a selection.Asking) {
	w, n, ended := r.w, r.w.nodes[r.index[a.Node]], false
	end := func(answered bool) {
		if !ended {
			ended = true
			r.s.Asked(a, answered, r.now())
		}
	}
	w.c.after(selection.ProbeTimeout, func() { end(false) })
	w.c.after(w.toClient()+n.http, func() {
		n.receive(func() {
			if n.absent.on() {
				end(false)
				return
			}
			n.work(askDemand, func() { w.c.after(w.toClient(), func() { end(true) }) })
		})
	})
}

// probe sends what is due and plans the next look.
func (r *sidestep) probe() {
	r.w.c.after(probeTick, r.probe)
	r.s.Probers(r.w.sc.clients())
	r.probes = r.s.Probes(r.probes[:0], r.now())
	for _, p := range r.probes {
		r.sendProbe(p)
	}
}

// via returns the node that a probe is sent through: the one that it names, else another
// than the one that it is about.
func (r *sidestep) via(p selection.Probe) *selection.Node {
	if p.Via != nil && p.Via.Alive() && !r.w.nodes[r.index[p.Via]].unplaced {
		return p.Via
	}
	return r.s.Coordinator(r.nodes, func(n *selection.Node) bool {
		return n.Alive() && r.coordinates(n) && n != p.Node
	}, r.now())
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
	through := r.via(p)
	held := w.held[r.index[p.Node]]
	if through == nil || len(held) == 0 {
		end(selection.ProbeOutcome{Unfit: true}) // the node serves no shard, say
		return
	}
	via, n := w.nodes[r.index[through]], w.nodes[r.index[p.Node]]
	if via.absent.on() {
		w.c.after(w.toClient(), func() { end(selection.ProbeOutcome{Unfit: true}) })
		return
	}
	awaited := max(1, p.Burst)
	n.probed += awaited
	back := func(failed bool) {
		w.c.after(w.toClient(), func() {
			if awaited--; awaited > 0 && !failed {
				return
			}
			end(selection.ProbeOutcome{Took: w.c.now - sent, Failed: failed, Message: "refused"})
		})
	}
	demand := probeDemand * n.slowFor(held[w.polls.IntN(len(held))])
	serve := func() {
		n.submit(&task{demand: demand, done: func(ok bool) {
			w.c.after(w.hop(n, via), func() { via.receive(func() { back(!ok) }) })
		}})
	}
	w.c.after(w.jitter(via.http, unevenly)+w.toClient(), func() {
		via.receive(func() {
			if via.fails.on() {
				back(true)
				return
			}
			for range awaited {
				w.c.after(w.hop(via, n)+w.extra(via, n), func() { n.receive(serve) })
			}
		})
	})
}
