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
	*sidestep
	followers []*sidestep
}

// startRelay begins with the polls, and the reports, of one, if the clients are sidesteps.
func (w *world) startRelay(p policy, rng func(uint64) *rand.Rand) error {
	r, err := p.router(w, rng(relayStream))
	if err != nil {
		return err
	}
	one, ok := r.(pacing)
	if !ok {
		return nil
	}
	hub := &relay{sidestep: one.paced()}
	for _, r := range w.routers {
		f := r.(pacing).paced() //nolint:forcetypeassert // all are of one policy
		hub.followers = append(hub.followers, f)
		w.c.after(time.Duration(w.polls.Float64()*float64(w.sc.pollInterval)), func() { hub.report(f, 0) })
	}
	w.startPolls(polls{hub})
	return nil
}

// report tells a follower what the probes since this finding found.
func (h *relay) report(f *sidestep, after int64) {
	for _, found := range h.s.Findings(after) {
		f.s.TakeIn(found, f.now())
		after = found.Number
	}
	h.s.Suspected(f.s.Suspects(nil, h.now()), h.now())
	h.w.c.after(h.w.sc.pollInterval, func() { h.report(f, after) })
}

// polls are those of a relay, which is never idle.
type polls struct{ by *relay }

func (t polls) poll(node int, p poll) {
	t.by.poll(node, p)
	for _, f := range t.by.followers {
		t.by.w.c.after(time.Duration(t.by.w.polls.Float64()*float64(t.by.w.sc.pollInterval)), func() { f.poll(node, p) })
	}
}
