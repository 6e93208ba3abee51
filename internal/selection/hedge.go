package selection

import (
	"slices"
	"time"
)

// Worthwhile reports whether a second attempt as decided in second may be sooner
// than the first, overdue one: it leaves out a node of the first, because that
// stands out by now; or the first waits at a coordinating node that does not answer,
// and the second is to take another. Otherwise, or where searches are rejected, the
// cluster is busy, and a second attempt would only make it busier. Nor is it worthwhile to
// wait for a node instead that is ejected, or avoided, and that the first left out, unless the
// first waits for one that answers nothing at all.
func (s *Selector) Worthwhile(first, second *Decision, now time.Time) bool {
	if second.Reason == Overloaded {
		return false
	}
	if !first.hangs(second) && slices.ContainsFunc(second.Nodes, func(n *Node) bool { return !n.usable() && !n.in(first.Nodes) }) {
		return false
	}
	for _, n := range first.Nodes {
		if !n.usable() && !n.in(second.Nodes) {
			return true
		}
	}
	c := first.Coordinator
	at := s.since(now)
	return c != nil && (s.silent(c, at) || s.unheard(first, at))
}

// hangs reports whether a node of d that second leaves out cannot be reached, or did not answer
// its last probe.
func (d *Decision) hangs(second *Decision) bool {
	return slices.ContainsFunc(d.Nodes, func(n *Node) bool {
		return !n.in(second.Nodes) && (n.out() || n.probe.took.Value() >= millis(ProbeTimeout))
	})
}

// EjectedSince reports whether a node of d, or its coordinating node, was ejected after the
// search was sent. Then its second attempt does not bet on a slow answer but corrects what
// the first decision could not know, and needs no budget: there is at most one for each
// search that was under way at that moment.
func (s *Selector) EjectedSince(d *Decision) bool {
	lost := func(n *Node) bool { return !n.serves() && n.stateAt.Load() >= d.start }
	return slices.ContainsFunc(d.Nodes, lost) || d.Coordinator != nil && lost(d.Coordinator)
}
