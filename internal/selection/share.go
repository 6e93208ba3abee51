package selection

import (
	"slices"
	"time"
)

// Finding is a round of probes as one sidestep tells it to others, which judge it as if they had sent
// it: for all of them together a node is probed as often as for one.
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
	// AboutVia: see [Probe.AboutVia].
	AboutVia bool
	// Outcome of the probe; Took of one that is overdue is for how long it had been awaited.
	Outcome ProbeOutcome
}

// shared is what is told to others, and what was heard of them. It is guarded by Selector.probes.
type shared struct {
	findings []Finding // the last ones
	number   int64     // of the last one
}

// note keeps what came of r for others, once all of its probes have said what they have to say.
func (h *shared) note(s *Selector, r *round, at int64) {
	if r.told || slices.ContainsFunc(r.entries, func(e entry) bool { return e.state == probeAwaited && !e.judged }) {
		return
	}
	r.told = true
	h.number++
	f := Finding{Number: h.number, Sent: s.epoch.Add(time.Duration(r.sent)), Local: r.local}
	for i := range r.entries {
		e := &r.entries[i]
		if e.state == probeVoid {
			continue
		}
		o := e.outcome
		if e.state == probeAwaited {
			o.Took = time.Duration(at - r.sent)
		}
		f.Probes = append(f.Probes, FoundProbe{Node: e.node.ID, Via: e.via.ID, AboutVia: e.about, Outcome: o})
	}
	if extra := len(h.findings) + 1 - maxFindings; extra > 0 {
		h.findings = slices.Delete(h.findings, 0, extra)
	}
	h.findings = append(h.findings, f)
}

// Findings returns what came of the rounds of probes that were sent here after the finding of this
// number, as far as it is kept.
func (s *Selector) Findings(after int64) []Finding {
	s.probes.mu.Lock()
	defer s.probes.mu.Unlock()
	first, _ := slices.BinarySearchFunc(s.probes.findings, after+1, func(f Finding, n int64) int { return int(f.Number - n) })
	return slices.Clone(s.probes.findings[first:])
}

// Suspects appends the ids of the nodes that something speaks against here.
func (s *Selector) Suspects(dst []string, now time.Time) []string {
	at := s.since(now)
	for _, n := range *s.all.Load() {
		p := &n.probe
		if p.wanted.Load() || n.health.excluded() || n.health.avoid.Load() || p.askedAt.Load() != 0 && at-p.askedAt.Load() < int64(ProbeTimeout) {
			dst = append(dst, n.ID)
		}
	}
	return dst
}

// Suspected takes in which nodes others suspect: they are probed from here. That there are others is
// reason enough to probe nodes that nobody suspects now and then.
func (s *Selector) Suspected(ids []string, now time.Time) {
	if !s.policy.health {
		return
	}
	at := s.since(now)
	raise(&s.probes.others, at)
	for _, n := range *s.all.Load() {
		if slices.Contains(ids, n.ID) && n.usable() {
			s.ask(n, at)
		}
	}
}

// TakeIn judges a round of probes that another sidestep sent, unless that is long ago. Nodes that
// are not known are left out.
func (s *Selector) TakeIn(f Finding, now time.Time) {
	r := &round{sent: s.since(f.Sent), local: f.Local, told: true}
	if age := s.since(now) - r.sent; !s.policy.health || age < 0 || age > int64(twice*roundLife) {
		return
	}
	all := *s.all.Load()
	find := func(id string) *Node {
		if i := slices.IndexFunc(all, func(n *Node) bool { return n.ID == id }); i >= 0 {
			return all[i]
		}
		return nil
	}
	at := r.sent
	for _, p := range f.Probes {
		node, via := find(p.Node), find(p.Via)
		if node == nil || via == nil {
			continue
		}
		at = max(at, r.sent+int64(p.Outcome.Took))
		r.entries = append(r.entries, entry{node: node, via: via, about: p.AboutVia, told: true, took: millis(p.Outcome.Took), outcome: p.Outcome})
	}
	s.probes.mu.Lock()
	defer s.probes.mu.Unlock()
	for i := range r.entries {
		e := &r.entries[i]
		e.state = e.stateAfter(e.outcome, at)
		if !e.about {
			p := &e.node.probe
			p.ended(false, true, at)
			p.last = max(p.last, at)
			raise(&p.toldAt, at)
			if e.outcome.Timed() {
				p.took.Set(e.took)
			}
		}
	}
	s.judge(r, at)
}
