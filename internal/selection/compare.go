package selection

import (
	"fmt"
	"math"
	"time"

	"sidestep/internal/stats"
)

// judge compares the probes of r with each other, as far as they are answered or
// overdue, and notes what they say of their nodes.
func (s *Selector) judge(r *round, at int64) {
	elapsed := millis(time.Duration(at - r.sent))
	for i := range r.entries {
		e := &r.entries[i]
		if e.judged {
			e.noteLate(r.sent)
			continue
		}
		took := e.took(elapsed)
		peers, known, alone := r.peers(i, took, elapsed)
		if known && e.ended && !e.outcome.Unfit {
			e.node.probe.told()
		}
		if e.void || alone {
			continue
		}
		explained := FarFactor*peers + s.excuse(e.node, at)
		late, beyond := explained+s.slack(e, at), took > explained+e.node.mayStandStill(at)
		switch {
		case e.refused():
			if known {
				e.judged = true
				s.speaksAgainst(e, took > late, false, "probe failed: "+e.outcome.Message, at)
			}
		case known && took > late && (e.ended || beyond): // else it may yet be later than its quota explains
			e.judged = true
			if !e.ended { // not waited for any longer
				e.node.probe.inFlight--
			}
			e.noteLate(r.sent)
			s.speaksAgainst(e, true, !beyond, fmt.Sprintf("a probe took %.0f ms or more, those of its peers %.0f ms", took, peers), at)
		case !e.ended || e.outcome.Failed:
			if e.ended && peers >= millis(ProbeTimeout) { // those of its peers timed out, too
				s.unclear(e.node, at)
			}
		case known && !r.local && !e.node.health.excluded() && took > explained+noise: // neither
			e.judged = true
			s.unclear(e.node, at)
		default:
			e.judged = true
			if r.sent >= e.node.health.badAt.Load() { // else something later speaks against it
				s.speaksFor(e.node, r.burst, at)
			}
		}
	}
}

// uncompared notes a probe that has ended, until it is compared with others. One that failed may have done so at
// the node that it was sent through. What was sent before an ejection says nothing of the node after it.
func (e *entry) uncompared(sent, at int64) {
	p, o := &e.node.probe, e.outcome
	switch {
	case !o.Unfit && (o.Took >= ProbeTimeout || o.Failed && e.via == e.node):
		p.told() // it has not answered, whatever others do
	case sent > e.node.health.badAt.Load():
		if o.Unfit {
			p.unfit.Add(1)
		} else {
			p.unfit.Store(0)
		}
		if last := p.untoldLast.Swap(at); p.untoldAt.Load() == 0 || at-last > int64(roundLife) { // what told nothing is long ago
			p.untoldAt.Store(at)
		}
	}
}

// noteLate notes since when a probe is awaited that is late.
func (e *entry) noteLate(sent int64) {
	if !e.ended {
		e.node.probe.overdue.CompareAndSwap(0, sent)
	}
}

// peers returns the median of what the other probes of r took (ms), and whether it is known
// yet; alone: there are no others. Of an even number the upper median counts: where probes wait
// in full queues one is easily several times as long as the shortest of few others. Where
// response times speak against the node, too, or it did not answer its own in time, the lower one
// does. What is ejected is nothing to compare with, unless nothing else serves the same.
func (r *round) peers(i int, own, elapsed float64) (took float64, known, alone bool) {
	open := r.collect(i, elapsed, false)
	if len(r.times) == 0 {
		open = r.collect(i, elapsed, true)
	}
	if len(r.times) == 0 {
		return 0, false, true
	}
	lower, upper := stats.Medians(r.times)
	answered := len(r.times) - open
	if r.entries[i].node.slowEverywhere.Load() || own >= millis(ProbeTimeout) {
		return lower, answered >= open, false
	}
	return upper, answered > open, false
}

// collect puts into r.times what the probes of r but i took (ms), of ejected nodes or of the
// others, and returns how many of them are awaited yet.
func (r *round) collect(i int, elapsed float64, ejected bool) (open int) {
	r.times = r.times[:0]
	for j, o := range r.entries {
		if j == i || o.void || o.refused() || o.node.health.excluded() != ejected {
			continue
		}
		if !o.ended {
			open++
		}
		r.times = append(r.times, o.took(elapsed))
	}
	return open
}

// excuse returns how long (ms) a probe of n may have waited in its queue: behind shard
// queries that take as long as there they do, or, where n is slower than its peers at the
// same work, as they usually do. A queue of which polls tell that nothing is worked off is no excuse.
func (s *Selector) excuse(n *Node, at int64) float64 {
	if n.latest.Value() > 0 && n.answersPolls() && !n.hasQueue() {
		return 0
	}
	if !n.slowEverywhere.Load() {
		return n.queued(at)
	}
	return n.wait(min(n.service.Mean(), s.usualService()), at)
}

// usualService returns the median of the data nodes' service times (ms).
func (s *Selector) usualService() float64 {
	return usual(*s.data.Load(), func(n *Node) (float64, bool) { return n.service.Value() })
}

// usual returns the median of what is known of the nodes, 0 if nothing is.
func usual(nodes []*Node, known func(*Node) (float64, bool)) float64 {
	values := make([]float64, 0, len(nodes))
	for _, n := range nodes {
		if v, ok := known(n); ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0
	}
	return stats.Median(values)
}

// slack returns by how much (ms) the probe may be longer than its peers'.
func (s *Selector) slack(e *entry, at int64) float64 {
	slack := peerSlack
	if e.node.slowEverywhere.Load() {
		slack = noise
	}
	if !s.exhausted(e.node, at) {
		slack = max(slack, e.node.mayStandStill(at))
	}
	return max(slack, e.via.standstill(at))
}

// proved reports whether what probes say against n is proof. They must have said so, and none for it, for as long
// as is enough. Those that are late are no proof while something waits in the queue of n: it is busy. The last poll,
// at polled, tells until when there was none, and must be that much later than the first of them. Of a node that does not answer polls nothing
// more is known. One late probe suffices where n is starved of CPU: it is as fast as others once it is avoided.
func (s *Selector) proved(n *Node, late bool, polled, at int64) bool {
	p := &n.probe
	if !late {
		return p.lateFor >= int64(proofTime)
	}
	enough := s.enough(n)
	return n.starved(at) || p.lateFor >= enough && (!n.answersPolls() || polled-p.against.Load() >= enough)
}

// soonProved reports whether late probes of n that come soon may be proof: it has no queue, and probes are what is missing,
// or the poll that is missing comes soon, too.
func (s *Selector) soonProved(n *Node) bool {
	return !n.hasQueue() && (n.probe.lateFor < s.enough(n) || n.pollsApart.Load() <= int64(probeInterval))
}

// enough returns for how long (ns) probes of n must be late until that is proof: for longer
// than the shard queries that n works on may last, but for no longer than an ejection would. They take what they do
// on n, or usually if that is longer, as n may have begun with one after the last poll.
func (s *Selector) enough(n *Node) int64 {
	work := max(n.service.Mean(), s.usualService()) // ms
	return int64(proofTime) + int64(min(FarFactor*work*float64(time.Millisecond), float64(firstHold)))
}

// unclear notes a probe that was neither good nor bad. Where none was bad for as long as an
// ejection takes at least, what spoke against the node before ends. Sooner it must not: a
// slow node that is avoided has nothing to do, and its probes are fast for a slow node's.
func (s *Selector) unclear(n *Node, at int64) {
	if at-n.health.badAt.Load() >= int64(firstHold) {
		n.probe.against.Store(0)
		s.changing(n, at, "", n.health.clear)
	}
}

// speaksFor notes a probe that was as good as those of its peers. A node that is slower than
// they are at the same work, or alone uses up its quota, is good as soon as it has nothing to do, so it stays avoided for
// as long as an ejection takes at least.
func (s *Selector) speaksFor(n *Node, burst bool, at int64) {
	n.probe.against.Store(0)
	n.probe.told()
	if !burst && n.health.excluded() && n.health.good.Load() == twice-1 {
		return // a burst ends an ejection, of one's own or of another's
	}
	n.health.good.Add(1)
	if !n.slowEverywhere.Load() && !s.exhausted(n, at) || at-n.health.badAt.Load() >= int64(firstHold) {
		s.changing(n, at, "", n.health.clear)
	}
}

// speaksAgainst notes a probe that failed, or took far longer than those of its peers (late), or both; why says what. The node
// is avoided, and is ejected once such probes are proof. One that is late by no more than its node stands still at a time, as its
// CPU quota runs out (excused), is none: the node is busy, while its peers are not.
func (s *Selector) speaksAgainst(e *entry, late, excused bool, why string, at int64) {
	n, p, as := e.node, &e.node.probe, Slow
	if excused && n.health.condition() == Failing {
		as = Failing // that is no proof of anything else
	}
	p.told()
	p.vain.Store(0)
	if e.foreign {
		why += " (sent by another sidestep)"
	}
	polled, began := n.polledAt.Load(), p.against.Load() // polled first: what that poll told is known
	switch {
	case excused:
	case began == 0 || late && n.queuedAt.Load() > began:
		p.against.Store(at)
		p.lateFor = 0
	default:
		p.lateFor += max(0, min(at-n.health.badAt.Load(), int64(suspicionInterval)))
	}
	raise(&n.health.badAt, at)
	if e.refused() && !late {
		as = Failing
		p.took.Set(math.Inf(1))
		n.lastError.Store(&NodeError{s.moment(at), why})
	}
	if late && n.starved(at) {
		why += fmt.Sprintf(", and its CPU quota (%.3g CPUs) ran out", n.quota.Value())
	}
	switch {
	case n.health.excluded(), !excused && s.proved(n, late, polled, at):
		s.eject(n, as, at, why)
	case excused, e.foreign: // where it was sent it is probed again
	case began == 0 || !late || s.soonProved(n):
		p.wanted.Store(true)
	}
	s.avoid(n, late, why, at)
}
