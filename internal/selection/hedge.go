package selection

import (
	"slices"
	"time"
)

// Worthwhile reports whether a second attempt as decided in second may be sooner
// than the first, overdue one: it leaves out a node of the first, because that
// stands out by now; or the first waits at a coordinating node that does not answer,
// and the second is to take another. Otherwise, or where searches are rejected, the
// cluster is busy, and a second attempt would only make it busier. Nor may it be worthwhile to
// wait for a node instead that was ejected already, or is avoided, and that the first left out.
func (s *Selector) Worthwhile(first, second *Decision, now time.Time) bool {
	if second.Reason == Overloaded {
		return false
	}
	for _, n := range second.Nodes {
		if !n.usable() && !n.in(first.Nodes) {
			return false
		}
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

// EjectedSince reports whether a node of d, or its coordinating node, was ejected after the
// search was sent. Then its second attempt does not bet on a slow answer but corrects what
// the first decision could not know, and needs no budget: there is at most one for each
// search that was under way at that moment.
func (s *Selector) EjectedSince(d *Decision) bool {
	lost := func(n *Node) bool { return !n.serves() && n.stateAt.Load() >= d.start }
	return slices.ContainsFunc(d.Nodes, lost) || d.Coordinator != nil && lost(d.Coordinator)
}
