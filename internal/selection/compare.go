package selection

import (
	"fmt"
	"time"

	"sidestep/internal/stats"
)

// judge compares the probes of r with each other, as far as they are answered or
// overdue, and notes what they say of their nodes.
func (s *Selector) judge(r *round, at int64) {
	elapsed := millis(time.Duration(at - r.sent))
	for i := range r.entries {
		e := &r.entries[i]
		if e.judged || e.state == probeVoid {
			continue
		}
		took := e.took
		if e.state == probeAwaited {
			took = elapsed
		}
		peers, known, alone := r.peers(i, took, elapsed)
		good, limit := FarFactor*peers+noise, FarFactor*peers+e.slack(at)
		if r.local || e.node.health.excluded() {
			good = limit
		}
		if !e.about {
			excuse := s.excuse(e.node)
			good, limit = good+excuse, limit+excuse
		}
		switch {
		case alone:
		case e.refused() && known:
			e.judged = true
			s.speaksAgainst(e, took > limit, at, "probe failed: "+e.outcome.Message)
		case e.refused():
		case e.state == probeAnswered && (!known || took <= good):
			e.judged = true
			s.speaksFor(e)
		case e.state == probeAnswered && took <= limit:
			e.judged = true
			e.node.unclear(at)
		case known && took > limit:
			e.judged = true
			if e.state == probeAwaited && !e.about { // not waited for any longer
				e.node.probe.inFlight--
			}
			s.speaksAgainst(e, true, at, fmt.Sprintf("a probe took %.0f ms or more, those of its peers %.0f ms", took, peers))
		}
	}
}

// peers returns the median of what the other probes of r took (ms), and whether it is known
// yet; alone: there are no others. Of an even number the upper median counts: where probes wait
// in full queues one is easily several times as long as the shortest of few others. Where
// response times speak against the node, too, or it did not answer its own in time, the lower one
// does. What is ejected is nothing to
// compare with, unless nothing else serves the same.
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
	if r.entries[i].node.slowEverywhere() || own >= millis(ProbeTimeout) {
		return lower, answered >= open, false
	}
	return upper, answered > open, false
}

// collect puts into r.times what the probes of r but i took (ms), of ejected nodes or of the
// others, and returns how many of them are awaited yet.
func (r *round) collect(i int, elapsed float64, ejected bool) (open int) {
	r.times = r.times[:0]
	for j, o := range r.entries {
		switch {
		case j == i || o.about || o.state == probeVoid || o.refused() || o.node.health.excluded() != ejected:
		case o.state == probeAwaited:
			open++
			r.times = append(r.times, elapsed)
		default:
			r.times = append(r.times, o.took)
		}
	}
	return open
}

// excuse returns how long (ms) a probe of n may have waited in its queue: behind shard
// queries that take as long as there they do, or, where n is slower than its peers at the
// same work, as they usually do.
func (s *Selector) excuse(n *Node) float64 {
	if !n.slowEverywhere() {
		return n.queued()
	}
	own, _ := n.service.Value()
	return n.wait(min(own, s.usualService()))
}

// usualService returns the median of the data nodes' service times (ms).
func (s *Selector) usualService() float64 {
	var values []float64
	for _, m := range *s.all.Load() {
		if v, ok := m.service.Value(); ok && !m.NoData {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0
	}
	return stats.Median(values)
}

// slack returns by how much (ms) the probe may be longer than its peers'.
func (e *entry) slack(at int64) float64 {
	slack := peerSlack
	if n := e.node; n.slowEverywhere() || n.health.excluded() && n.probe.fine.Load() {
		slack = noise
	}
	return max(slack, e.node.standstill(at), e.via.standstill(at))
}

// provedSince reports whether what speaks against n since then is proof: for long enough, and n
// has told of its queue in that time, or just before. Of a node that does not answer polls nothing
// more is known.
func (n *Node) provedSince(then, at int64) bool {
	polled := n.polledAt.Load()
	told := !n.answersPolls() || polled > then || at-polled <= int64(twice*proofTime)
	return told && at-then >= int64(proofTime)
}

// standstill returns for how long (ms) the node may stand still at a time: one whose CPU quota
// runs out does so until the next period, which its peers need not do just then. The engines
// tell of their quota anew once a second.
func (n *Node) standstill(at int64) float64 {
	if told := n.throttledAt.Load(); told == 0 || at-told > int64(roundLife) {
		return 0
	}
	return n.throttled.Value()
}

// unclear notes a probe that was neither good nor bad. Where none was bad for as long as an
// ejection takes at least, what spoke against the node before ends. Sooner it must not: a
// slow node that is avoided has nothing to do, and its probes are fast for a slow node's.
func (n *Node) unclear(at int64) {
	if at-n.probe.againstAt >= int64(firstHold) && n.health.condition() == Fine {
		n.probe.against.Store(0)
		n.health.avoid.Store(false)
	}
}

// speaksFor notes a probe that was as good as those of its peers.
func (s *Selector) speaksFor(e *entry) {
	if e.about {
		e.via.probe.silentAt.Store(0)
		return
	}
	n := e.node
	n.probe.against.Store(0)
	n.health.avoid.Store(false)
	n.health.good.Add(1)
}

// speaksAgainst notes a probe that failed, or took far longer than those of its peers.
func (s *Selector) speaksAgainst(e *entry, late bool, at int64, why string) {
	if e.about {
		e.via.observeOverhead(max(e.took, millis(suspicionInterval)), at)
		e.via.probe.silentAt.Store(at)
		s.askVia(e.via, at)
		return
	}
	n, as := e.node, Slow
	if n.probe.against.Load() == 0 || at-n.probe.againstAt > int64(failureMemory) {
		n.probe.against.Store(at)
	}
	n.probe.againstAt = at
	if !n.health.excluded() {
		n.probe.fine.Store(n.slowEverywhere())
	}
	if e.refused() && !late {
		as = Failing
		n.probe.took.Set(millis(ProbeTimeout))
		n.lastError.Store(&NodeError{At: s.epoch.Add(time.Duration(at)), Message: why})
	}
	if n.provedSince(n.probe.against.Load(), at) || n.health.excluded() {
		s.eject(n, as, at, why)
		if n.health.excluded() {
			return
		}
	} else {
		n.probe.wanted.Store(true)
	}
	s.ejecting.Lock()
	defer s.ejecting.Unlock()
	n.health.avoid.Store(s.withinCap(n))
}
