package selection

import (
	"slices"
	"time"
)

// Finding is a round of probes that another sidestep sent. It is judged as a round of one's own: for
// all together a node is probed as often as for one.
type Finding struct {
	// Number grows from one finding to the next.
	Number int64
	// Sent is when the probes were sent.
	Sent time.Time
	// Local: of two nodes, one was asked through itself.
	Local  bool
	Probes []FoundProbe
}

// FoundProbe is one probe of a [Finding].
type FoundProbe struct {
	Node, Via string // ids
	Burst     bool   // as one that ends an ejection
	Outcome   ProbeOutcome
}

// note keeps for others what came of r, once all its probes have ended.
func (s *Selector) note(r *round) {
	if r.awaited() {
		return
	}
	f := Finding{Number: s.probes.found + 1, Sent: s.moment(r.sent), Local: r.local}
	for i := range r.entries {
		if e := &r.entries[i]; !e.void {
			f.Probes = append(f.Probes, FoundProbe{Node: e.node.ID, Via: e.via.ID, Burst: r.burst, Outcome: e.outcome})
		}
	}
	if len(f.Probes) > 0 {
		s.probes.found++
		if s.probes.findings = append(s.probes.findings, f); len(s.probes.findings) > maxFindings {
			s.probes.findings = slices.Delete(s.probes.findings, 0, 1)
		}
	}
}

// Findings returns what came of the rounds of probes that were sent here after the finding of this
// number, as far as it is kept.
func (s *Selector) Findings(after int64) []Finding {
	s.probes.mu.Lock()
	defer s.probes.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.probes.findings), func(f Finding) bool { return f.Number <= after })
}

// Suspects appends the ids of the nodes that something speaks against here.
// A client that sends no probes asks no other to.
func (s *Selector) Suspects(dst []string, now time.Time) []string {
	at := s.since(now)
	if !lately(&s.probes.lookedAt, at) {
		return dst
	}
	for _, n := range *s.data.Load() {
		if n.suspect(at) {
			dst = append(dst, n.ID)
		}
	}
	return dst
}

// suspect reports whether something speaks against n.
func (n *Node) suspect(at int64) bool {
	slow := n.health.condition() == Slow && n.health.good.Load() == 0
	return n.probe.wanted.Load() || slow || n.health.avoided() || lately(&n.probe.askedAt, at)
}

// NeedsPolls reports whether what polls of the node of this id tell matters now: something was chosen by what polls tell in the last
// second, or something speaks against that node, or did and it is not back. Else the engine has chosen the copies of all searches.
func (s *Selector) NeedsPolls(id string, now time.Time) bool {
	at := s.since(now)
	n := (*s.known.Load())[id]
	return lately(&s.chosenAt, at) || n != nil && (n.health.condition() != Fine || !n.Alive() || n.suspect(at))
}

// Chose says that something else than the copies of a search is chosen at now by what polls tell.
func (s *Selector) Chose(now time.Time) { raise(&s.chosenAt, s.since(now)) }

// Suspected takes in which nodes others suspect: they are probed from here. That there are others is
// reason enough to probe nodes that nobody suspects now and then.
func (s *Selector) Suspected(ids []string, now time.Time) {
	at := s.since(now)
	raise(&s.probes.others, at)
	for _, n := range *s.data.Load() {
		if slices.Contains(ids, n.ID) {
			s.ask(n, at)
		}
	}
}

// TakeIn takes in at the moment now a round of probes that another sidestep sent, and judges it, as of the moment when it was
// sent, if probes due here are asked for. Nodes that are not known are left
// out, and probes that show no more than the way from the other one. Of a node that was probed since, or
// has failed, it says nothing, but its probe is one to compare others with.
func (s *Selector) TakeIn(f Finding, now time.Time) {
	at, sent := s.since(now), s.since(f.Sent)
	if !lately(&s.probes.lookedAt, at) || sent > at || at-sent > int64(twice*roundLife) {
		return
	}
	s.probes.mu.Lock()
	defer s.probes.mu.Unlock()
	known, r := *s.known.Load(), &round{sent: sent, local: f.Local}
	for _, p := range f.Probes {
		node, via := known[p.Node], known[p.Via]
		if node == nil || via == nil || node == via && !f.Local {
			continue
		}
		r.burst = p.Burst
		e := entry{node: node, via: via, outcome: p.Outcome}
		e.end(at)
		e.judged = r.sent <= max(node.probe.last, node.health.badAt.Load()) || node.health.condition() == Failing
		e.foreign = !e.judged
		r.entries = append(r.entries, e)
	}
	s.judge(r, r.sent)
	for i := range r.entries {
		e, p := &r.entries[i], &r.entries[i].node.probe
		if e.void || !e.judged { // it tells nothing, or there was nothing to compare it with
			continue
		}
		raise(&p.toldAt, at)
		if !e.foreign {
			continue
		}
		p.last = r.sent
		p.heardAt.Store(at)
		if e.outcome.Timed() {
			p.took.Set(millis(e.outcome.Took))
		}
	}
}
