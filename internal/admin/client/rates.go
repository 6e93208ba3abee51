package client

import "time"

// window is over how long rates are taken.
const window = 5 * time.Second

// trail holds the statuses of the last few seconds, the oldest first.
type trail []status

// add appends s and forgets what is older than the window needs. A sidestep that
// was restarted, or had another upstream put in place, counts from 0 again: then
// the trail begins anew.
func (t trail) add(s status) trail {
	if len(t) > 0 {
		last := t[len(t)-1]
		if s.Requests < last.Requests || !s.At.After(last.At) {
			t = nil
		}
	}
	t = append(t, s)
	for len(t) > 2 && s.At.Sub(t[1].At) >= window {
		t = t[1:]
	}
	return t
}

// latest returns the newest status.
func (t trail) latest() status { return t[len(t)-1] }

// rates is what happened over the window; per second, and shares 0..1.
type rates struct {
	known     bool // false with one status alone
	requests  float64
	failovers float64
	hedges    float64
	steered   float64 // share of searches and reads; in mode observe, that would be
	left      float64 // share left to the engine, as no list would be better
	searches  map[string]float64
}

// rates compares the ends of the trail.
func (t trail) rates() rates {
	if len(t) < 2 {
		return rates{}
	}
	first, last := t[0], t.latest()
	seconds := last.At.Sub(first.At).Seconds()
	r := rates{known: true, searches: map[string]float64{}}
	r.requests = float64(last.Requests-first.Requests) / seconds
	r.failovers = float64(sum(last.Failovers)-sum(first.Failovers)) / seconds
	r.hedges = float64(made(last.Hedges)-made(first.Hedges)) / seconds
	reasons := last.reasons(first)
	all := sum(reasons) - reasons["not_steerable"] - reasons["one_shard"] - reasons["one_slot"] // the last two are bulks
	if all > 0 {
		var steered, toEngine int64
		for reason, n := range reasons {
			switch {
			case names(reason):
				steered += n
			case left(reason):
				toEngine += n
			}
		}
		r.steered = float64(steered) / float64(all)
		r.left = float64(toEngine) / float64(all)
	}
	before := map[string]int64{}
	for _, n := range first.Nodes {
		before[n.ID] = n.Searches
	}
	for _, n := range last.Nodes {
		if was, ok := before[n.ID]; ok && n.Searches >= was {
			r.searches[n.ID] = float64(n.Searches-was) / seconds
		}
	}
	return r
}

// reasons counts the decisions since before by reason; what mode observe only
// decided has its own.
func (s status) reasons(before status) map[string]int64 {
	since := map[string]int64{}
	for reason, n := range s.Decisions {
		if reason != "observe" {
			since[reason] += n - before.Decisions[reason]
		}
	}
	for reason, n := range s.Observed {
		since[reason] += n - before.Observed[reason]
	}
	return since
}

func sum(counts map[string]int64) int64 {
	var all int64
	for _, n := range counts {
		all += n
	}
	return all
}

// made counts the hedges that were sent.
func made(hedges map[string]int64) int64 { return hedges["won"] + hedges["lost"] }
