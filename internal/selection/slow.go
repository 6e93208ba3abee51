package selection

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A node is slow when its response time, less what its own queue explains, is
// above slowFactor times the median of
// the candidates plus slowSlack (ms), and at most a third of the candidates are.
// Ψ alone would let it in again whenever a burst makes the others' q̂³ larger than
// its R, and every search of the burst would wait for it. Once the others are
// really overloaded their response times say so and it is slow no longer.
const (
	slowFactor = 3
	slowSlack  = 30.0
	// silenceSlack, in ms, is how much longer than the limit a node must be silent to
	// be sent away; beyond the limit searches merely go elsewhere.
	silenceSlack = 100.0
)

// welcome moves candidates on whose time has come, and lets new ones ramp up.
func (d *Decision) welcome(req Request, t turn) {
	for _, p := range d.order {
		n := req.Nodes[p]
		if n.joined.Load() && n.joined.CompareAndSwap(true, false) {
			t.s.ramp(n, t.at)
		}
		t.s.advance(n, t.at)
	}
}

// judge marks the candidates that are not to be listed, and returns the shortest
// silence of the others, in ms. What it finds against nodes is accused later.
func (d *Decision) judge(req Request, t turn) (quiet float64) {
	for _, p := range d.order {
		c, n := &d.candidates[p], req.Nodes[p]
		switch n.health.condition() {
		case Slow:
			c.exclude(KeptSlow)
		case Failing:
			c.exclude(KeptFailing)
		case Ramping:
			if n.unproven() || t.s.random(t.number, uint64(p)) >= n.health.grown(t.at) { //nolint:gosec // a draw, not a number
				c.exclude(NotItsTurn)
			}
		}
		doubtful := t.s.doubtful(n, t.at)
		c.mending = c.slow && !doubtful && n.mends()
		if !c.slow && doubtful {
			c.exclude(Suspected)
		}
	}
	d.feelPressure(req)
	d.spare(req, t)
	d.markSlow(req, t)
	d.quiet = d.shortestSilence(req, t.at)
	d.markSilent(req, t, d.quiet)
	d.markHanging(req, t)
	return d.quiet
}

// markSlow finds the limit and the candidates above it.
func (d *Decision) markSlow(req Request, t turn) {
	d.sorted, d.limit = d.sorted[:0], math.Inf(1)
	for i, p := range d.order {
		r, ok := req.Nodes[p].unqueued()
		d.measured[i].unqueued = r
		if ok && !req.Nodes[p].health.excluded() {
			d.sorted = append(d.sorted, r)
		}
	}
	if len(d.sorted) == 0 {
		return
	}
	d.limit = slowFactor*median(d.sorted) + slowSlack
	above, _ := slices.BinarySearch(d.sorted, d.limit)
	tooMany := 3*(len(d.sorted)-above) > len(d.order)+1
	for i, p := range d.order {
		c := &d.candidates[p]
		switch {
		case d.measured[i].unqueued < d.limit:
		case tooMany:
			c.note(TooMany)
		case !c.slow && t.s.needed(req.Nodes[p], d.pressure > busyQueue, t.at):
			c.note(Needed)
		default:
			c.accused = !c.slow
			c.exclude(OverLimit)
		}
	}
}

// median sorts values, of which there must be one, and returns their lower median.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

// busyQueue is the mean queue above which the cluster is busy. Then slowness says
// little, and to leave a node out that can carry some load would be worse for all.
const busyQueue = 1.0

// feelPressure finds the mean queue of the candidates that may be listed, and whether most
// of them have one.
func (d *Decision) feelPressure(req Request) {
	sum, n, waiting := 0.0, 0, 0
	for _, p := range d.order {
		if c := &d.candidates[p]; !c.out && !c.slow {
			q, _ := req.Nodes[p].queue.value()
			sum, n = sum+q, n+1
			if q > busyQueue {
				waiting++
			}
		}
	}
	d.pressure, d.crowded = sum/float64(max(1, n)), 2*waiting > n
}

// A slow node is of use while it does its part of the work and answered a probe, however
// late, within usefulFor. From somePressure on the others it gets searches, all at
// fullPressure; while most of them have queues already from busyQueue on, and all at
// somePressure. It may coordinate for sparedFor then.
const (
	usefulFor    = 2 * time.Second
	somePressure = 4.0
	fullPressure = 12.0
	sparedFor    = 100 * time.Millisecond
)

// spare lets slow candidates in that can carry some load while the others have
// more than they can: a late answer is better than one that waits in a queue that
// only grows.
func (d *Decision) spare(req Request, t turn) {
	from, full := somePressure, fullPressure
	if d.crowded {
		from, full = busyQueue, somePressure
	}
	if d.pressure <= from || t.s.random(t.number, math.MaxUint64) >= (d.pressure-from)/(full-from) {
		return
	}
	var service, rate float64
	asked := false
	for _, p := range d.order {
		c, n := &d.candidates[p], req.Nodes[p]
		if !c.slow && n.health.condition() != Ramping || !n.ofUse(t.at, d.crowded) {
			continue
		}
		if !asked { // of who serves; n does not
			service, rate = t.s.usual(nil, &d.sorted)
			asked = true
		}
		if !n.useless(service, rate) {
			if c.spared = true; c.slow {
				c.slow, c.why = false, Spared
			}
			if t.acts && d.crowded {
				n.sparedUntil.Store(t.at + int64(sparedFor))
			}
		}
	}
}

// ofUse reports whether a node that is kept out shows that it works; so may one that
// ramps, or failed, while most of the others have queues.
func (n *Node) ofUse(at int64, crowded bool) bool {
	answered := at-n.probe.answered.Load() < int64(usefulFor)
	switch n.health.condition() {
	case Slow:
		return answered
	case Failing:
		return crowded && answered
	case Ramping:
		return crowded && !n.unproven()
	default:
		return false
	}
}

// accuseSlow makes what a choice found against nodes count for those to come.
func (s *Selector) accuseSlow(d *Decision, req Request, t turn) {
	for i, p := range d.order {
		if n := req.Nodes[p]; d.candidates[p].accused {
			n.probe.limit.set(d.limit)
			s.accuse(n, Slow, t.at, fmt.Sprintf("response time %.0f ms or silent for %.0f ms, limit %.0f ms", d.measured[i].unqueued, n.silence(t.at), d.limit))
		}
	}
}

// unqueued returns the response time less what the node's queue explains, q·S, but
// no less than the smaller of R and S, in ms; false if there is none. A node that
// is slow because it is busy must not be left out: its neighbours would be next.
func (n *Node) unqueued() (float64, bool) {
	r, ok := n.response.value()
	s, _ := n.service.value()
	return max(min(r, s), r-n.queued()), ok
}

// queued returns q·S, in ms: an upper bound of the wait in the node's queue.
func (n *Node) queued() float64 {
	s, _ := n.service.value()
	q, _ := n.queue.value()
	return max(q, n.latest.value()) * s
}

// While a candidate stands out, and for troubleHold after, searches are listed; so they
// are while one's response time is above unevenPart of the limit. A penalty of up to
// negligiblePenalty (ms) is too old to count.
const (
	troubleHold       = 2 * time.Second
	negligiblePenalty = 10.0
	unevenPart        = 0.5
)

// troubled reports whether some candidate stands out or did a moment ago.
func (s *Selector) troubled(d *Decision, req Request, at int64) bool {
	doubt := false
	for _, p := range d.order {
		c, n := &d.candidates[p], req.Nodes[p]
		if c.tolerable(n, at) {
			continue
		}
		if c.standsOut(n, at) {
			raise(&s.troubledAt, at)
			return true
		}
		doubt = doubt || c.slow
	}
	if doubt || s.uneven(d, req, at) != nil {
		return true // may be over in a moment
	}
	// A list balances worse than the engine does: while most nodes have queues none is made
	// for what is over.
	last := s.troubledAt.Load()
	return last != 0 && at-last < int64(troubleHold) && !d.crowded
}

// tolerable reports whether n fails at once: the engine asks the next copy.
func (c *candidate) tolerable(n *Node, at int64) bool { return !c.out && n.failsAtOnce(at) }

// standsOut reports whether n is out, in a state that it is not spared, or failed a moment
// ago.
func (c *candidate) standsOut(n *Node, at int64) bool {
	return c.out || (n.health.condition() != Fine && !c.spared) || n.penaltyLeft(at) > negligiblePenalty
}

// uneven returns a candidate that is on its way to stand out: its response time, less
// what its queue explains, is above unevenPart of the limit, and the others can do
// without it; nil if none is. Where many sidecars share the load, each sees little of a
// node, and until it is known to be slow the engine would go on using it.
func (s *Selector) uneven(d *Decision, req Request, at int64) *Node {
	if d.pressure > busyQueue {
		return nil
	}
	for _, p := range d.order {
		n := req.Nodes[p]
		if r, ok := n.unqueued(); ok && r >= unevenPart*d.limit && !s.needed(n, false, at) {
			return n
		}
	}
	return nil
}

// shortestSilence returns the shortest silence, in ms, among the candidates that may be
// listed and owe an answer, 0 if none does.
func (d *Decision) shortestSilence(req Request, at int64) float64 {
	shortest := math.Inf(1)
	for _, p := range d.order {
		c, n := &d.candidates[p], req.Nodes[p]
		if !c.out && !c.slow && n.outstanding.Load() > 0 {
			shortest = min(shortest, n.silence(at))
		}
	}
	if math.IsInf(shortest, 1) {
		return 0
	}
	return shortest
}

// markSilent marks candidates as slow that have been silent beyond the limit while
// others were not, if they are at most a third. Where searches wait for one node of all,
// the others have answered probes: who has been sent one is judged by that.
func (d *Decision) markSilent(req Request, t turn, quiet float64) {
	silent := func(n *Node) bool { return n.silence(t.at)-quiet > d.limit && !t.s.undecided(n, t.at) }
	count := 0
	for _, p := range d.order {
		if silent(req.Nodes[p]) {
			count++
		}
	}
	if count == 0 || 3*count > len(d.order)+1 {
		return
	}
	for _, p := range d.order {
		if silent(req.Nodes[p]) {
			c := &d.candidates[p]
			c.mending = false
			c.accused = c.accused || (!c.slow && req.Nodes[p].silence(t.at)-quiet > d.limit+silenceSlack)
			c.exclude(Quiet)
		}
	}
}

// markHanging marks the slow candidates that owe answers for longer than the limit and
// what they usually take: how long they will stand still nobody knows.
func (d *Decision) markHanging(req Request, t turn) {
	for i, p := range d.order {
		c, n := &d.candidates[p], req.Nodes[p]
		c.hangs = c.slow && n.silence(t.at)-d.quiet > d.limit+d.measured[i].unqueued
	}
}

// leaveToEngine reports whether the engine's own selection is to choose the copies.
// One list serves all shards of a search, so it cannot balance busy nodes as
// finely as a choice for each shard does; what it can do is keep a bad node out.
func (s *Selector) leaveToEngine(d *Decision, req Request, at int64) bool {
	switch {
	case !s.policy.health || !req.Outliers || d.Reason != Ranked || d.remote:
		return false
	case len(req.Shards) == 0 || req.oneShard() || len(req.Avoid) > 0 || req.Sticky:
		return false
	}
	return !s.troubled(d, req, at)
}

// pullInterval is how often, at most, losing moves a node's numbers. The
// published rule moves them on every loss, so that a busy client forgets a real
// slowness within milliseconds and pays for finding out again; by time, a slow
// node is tried again every ten seconds or so whatever the load.
const pullInterval = 500 * time.Millisecond

// pullLosers moves the response time of candidates that lost toward the
// winner's: the average of both, fed as a new sample; and the service time of those
// that served nothing, of which polls tell nothing either. Queues need no such
// thing.
func (d *Decision) pullLosers(req Request, at int64) {
	winner := d.winner(req)
	if winner == nil {
		return
	}
	w, ok := winner.response.value()
	if !ok {
		return
	}
	for _, p := range d.order {
		n := req.Nodes[p]
		if d.candidates[p].listed || n.health.excluded() || !elapsed(&n.pulledAt, at, pullInterval) {
			continue
		}
		if r, ok := n.response.value(); ok {
			n.response.observe((r + w) / 2)
		}
		if s, ok := n.service.value(); ok && !n.served.Load() {
			ws, _ := winner.service.value()
			n.service.observe((s + ws) / 2)
		}
	}
}

// winner returns the listed node with the lowest rank.
func (d *Decision) winner(req Request) *Node {
	var best *Node
	rank := math.Inf(1)
	for _, p := range d.order {
		if c := &d.candidates[p]; c.listed && c.rank < rank {
			best, rank = req.Nodes[p], c.rank
		}
	}
	return best
}
