package lab

import (
	"math/rand/v2"
	"time"
)

// relayStream is the stream of random numbers of a relay.
const relayStream = 99

// relay is one more sidecar, which searches nothing: it polls for all others, and tells them what its
// probes found. They tell it which nodes they suspect.
type relay struct {
	s         *sidestep
	followers []*sidestep
}

// startRelay begins with the polls, and the reports, of a relay of the sidesteps that there are.
func (w *world) startRelay(newRouter func(*world, *rand.Rand) router, rng *rand.Rand) {
	h := &relay{followers: w.sidesteps}
	newRouter(w, rng)
	h.s = w.sidesteps[len(h.followers)]
	for _, f := range h.followers {
		w.c.after(time.Duration(w.polls.Float64()*float64(w.sc.pollInterval)), func() { h.report(f, 0) })
	}
	w.startPolls(h)
}

// report tells a follower what the probes since this finding found.
func (h *relay) report(f *sidestep, after int64) {
	for _, found := range h.s.s.Findings(after) {
		f.s.TakeIn(found, f.now())
		after = found.Number
	}
	h.s.s.Suspected(f.s.Suspects(nil, f.now()), f.now())
	f.w.c.after(f.w.sc.pollInterval, func() { h.report(f, after) })
}

// poll implements polled. A relay is never idle.
func (h *relay) poll(node int, p poll) {
	h.s.poll(node, p)
	for _, f := range h.followers {
		f.w.c.after(time.Duration(f.w.polls.Float64()*float64(f.w.sc.pollInterval)), func() { f.poll(node, p) })
	}
}
