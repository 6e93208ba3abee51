package selection

import (
	"math"
	"slices"
	"time"

	"sidestep/internal/stats"
)

// exclude marks the candidates that are not to be listed; those in avoid have failed the search. Without proof none
// is left out while another is leaving: its searches would go to that one, where it has the other copies.
func (d *Decision) exclude(avoid []*Node, t turn) {
	leaving := slices.ContainsFunc(d.order, func(c *Candidate) bool { return c.Node.leaves(t.at) })
	for _, c := range d.order {
		n := c.Node
		if t.acts {
			t.s.arrived(n, t.at)
			t.s.advance(n, t.at)
		}
		switch condition := n.health.condition(); {
		case !n.Alive():
			c.Excluded = GoneUnreachable
		case n.in(avoid):
			c.Excluded = FailedBefore
		case n.leaves(t.at):
			c.Excluded = Leaving
		case condition == Slow:
			c.Excluded = KeptSlow
		case condition == Failing:
			c.Excluded = KeptFailing
		case !leaving && (n.health.avoided() || n.owes(t.at)):
			c.Excluded = Suspected
		case condition == Ramping && t.s.random(t.number, uint64(c.Position)) >= float64(t.at-n.health.returned.Load())/float64(SlowStart): //nolint:gosec // a position is not negative
			c.Excluded = NotItsTurn
		}
	}
	d.spare(t)
	d.suspects(t)
}

// carried sums what nodes carry on their CPUs.
type carried struct {
	load, processors float64 // CPUs that are kept busy, and that there are
	work             float64 // CPUs that their shard queries keep busy
	rates            float64 // shard queries per ms
	nodes            float64 // how many they are
	unknown          bool    // the CPUs of one of them are
}

// add adds n.
func (c *carried) add(n *Node) {
	c.load += n.load()
	c.work += n.rate.Mean() * n.service.Mean()
	c.rates += n.rate.Mean()
	c.processors += n.processors()
	c.nodes++
	c.unknown = c.unknown || n.Processors == 0
}

// miss reports whether the nodes would miss n: it answers at least one part in useFactor of the
// shard queries that they answer in the mean, and is not short of CPU.
func (c *carried) miss(n *Node) bool {
	return useFactor*n.rate.Mean()*c.nodes >= c.rates && !n.short.Load()
}

// needs reports whether n, one of the data nodes, is needed: with the shard queries that it answers beside their own, the CPUs of the
// others that serve would be busy for more than all of the time, and they would miss it. c is their sum, once it was found out.
func (c *carried) needs(n *Node, nodes []*Node) bool {
	if c.nodes == 0 {
		for _, m := range nodes {
			if m.serves() {
				c.add(m)
			}
		}
	}
	own := n.rate.Mean()
	others := carried{load: c.load - n.load(), processors: c.processors - n.processors(), rates: c.rates - own, nodes: c.nodes - 1}
	if c.unknown || others.rates <= 0 {
		return false
	}
	service := (c.work - own*n.service.Mean()) / others.rates // of the others, in the mean
	return others.load+own*service > others.processors && others.miss(n) && n.answersPolls()
}

// spare lets candidates in that probes speak against if the others cannot carry their
// load: with what they do already, and the shard queries that are moved, S̃ each, the median
// of the service times, the CPUs of the others would be busy for more than fullLoad of the
// time. A node that would not be missed is no help.
func (d *Decision) spare(t turn) {
	if !slices.ContainsFunc(d.order, (*Candidate).provedSlow) {
		return
	}
	var others carried
	var moved float64
	d.sorted = d.sorted[:0]
	for _, c := range d.order {
		if service, ok := c.Node.service.Value(); ok {
			d.sorted = append(d.sorted, service)
		}
		switch {
		case !c.Excluded.KeepsOut(), c.Excluded == FailedBefore && c.Node.usable(): // only this search avoids it
			others.add(c.Node)
		case State(c.Node.polled.Load()) == Fine: // else the others do what it did; one that answers clients while it owes the poll is busy
			moved += c.Node.rate.Mean()
		}
	}
	if others.unknown || len(d.sorted) == 0 || others.load+moved*stats.Median(d.sorted) <= fullLoad*others.processors {
		return
	}
	for _, c := range d.order {
		if c.provedSlow() && others.miss(c.Node) && State(c.Node.polled.Load()) == Fine {
			c.Excluded = Needed
			if t.acts {
				raise(&c.Node.neededAt, t.at)
			}
		}
	}
}

// provedSlow reports whether the candidate is excluded as probes found its node slow.
func (c *Candidate) provedSlow() bool { return c.Excluded == KeptSlow || c.Excluded == Suspected }

// suspects finds the candidates whose response time, less what their own queues explain,
// is above FarFactor times the median plus SlowSlack.
func (d *Decision) suspects(t turn) {
	d.sorted = d.sorted[:0]
	for _, c := range d.order {
		var known bool
		if c.Unqueued, known = c.Node.unqueued(t.at); known && !c.Node.health.excluded() {
			d.sorted = append(d.sorted, c.Unqueued)
		}
	}
	if len(d.sorted) <= 1 {
		return
	}
	d.limit = FarFactor*stats.Median(d.sorted) + SlowSlack
	for _, c := range d.order {
		n, over := c.Node, c.Unqueued >= d.limit
		if over && c.Excluded == NotExcluded {
			c.Excluded = OverLimit
		}
		if !t.acts || n.health.excluded() {
			continue // what serves hardly anything but probes is compared as it was before
		}
		if n.slowEverywhere.Load() != over { // all choices read it, few change it
			n.slowEverywhere.Store(over)
		}
		if !over {
			continue
		}
		t.s.ask(n, t.at)
		if n.untold() && n.probe.unfit.Load() > 1 { // which ends that, whether it is ejected or not
			t.s.eject(n, Slow, t.at, "its response time is far above that of its peers, and probes are refused")
		}
	}
}

// unqueued returns the response time less what the node's queue explains, but no less
// than the service time, in ms; false if there is none. A node that
// is slow because it is busy must not be left out: its neighbours would be next.
func (n *Node) unqueued(at int64) (float64, bool) {
	r, ok := n.response.Value()
	s, known := n.service.Value()
	return max(s, r-n.queued(at)), ok || known
}

// queued returns the wait in the node's queue, in ms.
func (n *Node) queued(at int64) float64 { return n.wait(n.service.Mean(), at) }

// wait returns how long a shard query waits in the queue of n where those before it take
// service each (ms): q·S divided by the processors that work on them. What a node told last that answers no polls any more
// counts until it would have been worked off since the node was last heard of, and for no more than a search was seen to take there.
func (n *Node) wait(service float64, at int64) float64 {
	ms := max(n.queue.Mean(), n.latest.Value()) * service / max(1, n.processors())
	if n.answersPolls() {
		return ms
	}
	if heard := max(n.polledAt.Load(), n.heardAt.Load(), n.seenAt.Load()); millis(time.Duration(at-heard)) > ms {
		return 0
	}
	if r, seen := n.response.Value(); seen {
		return min(ms, r) // nothing waits there for longer than it was seen to take
	}
	return ms
}

// leaveToEngine reports whether the engine's own selection is to choose the copies.
// One list serves all shards of a search, so it cannot balance busy nodes as
// finely as a choice for each shard does; what it can do is keep out a bad node that the engine would wait
// for. Of one that fails at once, or cannot be reached, it asks the next copy.
func (d *Decision) leaveToEngine(req Request) bool {
	return d.mayLeave(req) && (!req.OneShard() || req.Affinity == 0 && d.seesLittle()) &&
		!slices.ContainsFunc(d.order, func(c *Candidate) bool { return c.slow() && !c.Node.failsAtOnce() })
}

// mayLeave reports whether the choice may be left to the engine at all.
func (d *Decision) mayLeave(req Request) bool {
	return req.Outliers && d.Reason != FailOpen && !d.remote && len(req.Avoid) == 0 && !req.Sticky
}

// gains reports whether a list is better than what the engine would choose. Of the copies listed the
// engine draws lots; of all copies it uses those on slow and on busy nodes less, for each shard. So a list that has
// to use nodes that probes speak against, for want of other copies, sends them more, and gains nothing, unless it
// leaves out what answers nothing. Nor does a list with a node that rejects some of what it is sent, or with queues
// in which searches wait for far longer than what is left out takes, or for longer than ProbeTimeout. A node that
// fails at once, or cannot be reached, costs the engine hardly any time. One that is leaving is left out in any
// case: an operator wants it.
func (d *Decision) gains(at int64) bool {
	left, waits := 0.0, 0.0 // ms: what is left out takes; in queues of what is listed
	var used, full bool     // a node is listed that probes speak against, or that rejects some of what it is sent
	var silent bool         // one that answers nothing is left out
	for _, c := range d.order {
		n := c.Node
		switch {
		case c.Listed && c.provedSlow():
			used = true
		case c.out() || n.failsAtOnce():
		case c.Listed:
			waits, full = max(waits, n.queued(at)), full || n.rejects(at)
		case c.Excluded == Leaving:
			return true
		case c.slow():
			left = max(left, n.takes(at))
			silent = silent || n.answersNothing(at)
		}
	}
	return left > 0 && !full && (!used || silent) && waits <= min(FarFactor*left+SlowSlack, millis(ProbeTimeout))
}

// failsAtOnce reports whether n is ejected as it fails, or avoided as its last probe failed, and not for want of time.
func (n *Node) failsAtOnce() bool {
	return n.health.condition() == Failing || n.health.avoided() && math.IsInf(n.probe.took.Value(), 1)
}

// takes returns how long (ms) an excluded node takes, by the worst that is known: ProbeTimeout or more, if it answers
// nothing.
func (n *Node) takes(at int64) float64 {
	ms := max(n.response.Mean(), n.rankExcluded(at), n.probe.awaited(at))
	if n.answersNothing(at) {
		ms = max(ms, millis(ProbeTimeout))
	}
	return ms
}

// answersNothing reports whether an excluded node is as bad as one that answers nothing: it is silent, did not answer its last
// probe, or is ejected and short of CPU; or nothing is known of how long it takes, or it comes back.
func (n *Node) answersNothing(at int64) bool {
	_, known := n.response.Value()
	return !known || n.health.condition() == Ramping || n.rankExcluded(at) >= millis(ProbeTimeout)
}

// seesLittle reports whether others send more to the candidates than this client does. What is
// known of their queues is then old: all that know the same would send to the same node until the
// next poll.
func (d *Decision) seesLittle() bool {
	var own, all float64
	for _, c := range d.order {
		own += c.Node.own.Mean()
		all += c.Node.rate.Mean()
	}
	return twice*own < all
}
