package selection

import (
	"slices"
	"sync/atomic"
	"time"

	"sidestep/internal/stats"
)

// asking is what is known of a node that is asked directly whether it answers at all, for
// something that waits in no queue.
type asking struct {
	sentAt atomic.Int64 // ns: when it was asked for the answer that it owes; 0: it owes none
	silent atomic.Bool  // its peers have answered meanwhile
	took   stats.Number // ms: until its last answer
	before stats.Number // ms: until the one before
}

// Ask appends to dst the nodes to be asked at once whether they answer, as a search on d takes
// clearly longer than such searches usually do: the nodes of d, and others to compare them with
// where these are few. A node that owes an answer already is not asked again. How each ends is
// to be told by [Selector.Asked].
func (s *Selector) Ask(dst []*Node, d *Decision, now time.Time) []*Node {
	if !s.policy.health || d.Reason == Overloaded {
		return dst
	}
	at, compared := s.since(now), 0
	ask := func(n *Node) {
		if n.out() {
			return
		}
		compared++
		sent := n.asking.sentAt.Load()
		if (sent == 0 || at-sent >= int64(ProbeTimeout)) && n.asking.sentAt.CompareAndSwap(sent, at) {
			n.asking.silent.Store(false)
			dst = append(dst, n)
		}
	}
	for _, n := range d.Nodes {
		ask(n)
	}
	if c := d.Coordinator; c != nil && !c.in(d.Nodes) {
		ask(c)
	}
	all, turn := *s.all.Load(), s.turn.Load()
	for i := range uint64(len(all)) {
		if n := all[(i+turn)%uint64(len(all))]; compared <= twice && !n.NoData && !n.in(d.Nodes) && !n.Same(d.Coordinator) {
			ask(n)
		}
	}
	return dst
}

// Asked ends what [Selector.Ask] began: n has answered at now, whatever it said, or will not.
func (s *Selector) Asked(n *Node, answered bool, now time.Time) {
	if at := s.since(now); answered {
		n.asking.before.Set(n.asking.took.Value())
		n.asking.took.Set(millis(time.Duration(at - n.asking.sentAt.Load())))
		raise(&n.heardAt, at)
	}
	n.asking.sentAt.Store(0)
}

// awaited reports whether the node owes an answer.
func (n *Node) awaited(at int64) bool {
	sent := n.asking.sentAt.Load()
	return sent > n.heardAt.Load() && at-sent < int64(ProbeTimeout)
}

// owes reports whether the node owes an answer that its peers have given.
func (n *Node) owes(at int64) bool { return n.asking.silent.Load() && n.awaited(at) }

// Silent reports whether a node of d, or its coordinating node, owes an answer that its peers
// have given. Until it answers, choices leave it out.
func (s *Selector) Silent(d *Decision, now time.Time) bool {
	at, found := s.since(now), false
	look := func(n *Node) {
		if n.awaited(at) && (n.asking.silent.Load() || s.late(n, at)) {
			n.asking.silent.Store(true)
			found = true
		}
	}
	if d.Coordinator != nil {
		look(d.Coordinator)
	}
	for _, n := range d.Nodes {
		look(n)
	}
	return found
}

// late reports whether n owes an answer for far longer than its peers took for theirs, and
// longer than it took for its own: for the last one, or, as it may have been silent then, the
// one before. More nodes must have been heard since it was asked than others owe an answer:
// where most are silent, the way to them is slow, or this process.
func (s *Selector) late(n *Node, at int64) bool {
	sent := n.asking.sentAt.Load()
	least := min(n.asking.took.Value(), n.asking.before.Value())
	waited := millis(time.Duration(at-sent)) - max(SlowSlack, n.standstill(at))
	if waited <= least {
		return false
	}
	var took []float64
	owing := 0
	for _, m := range *s.all.Load() {
		switch {
		case m.Same(n):
		case m.awaited(at):
			owing++
		case m.heardAt.Load() >= sent:
			took = append(took, m.asking.took.Value())
		}
	}
	return len(took) > owing && waited > FarFactor*stats.Median(took)
}

// Worthwhile reports whether a second attempt as decided in second may be sooner
// than the first, overdue one: it leaves out a node of the first, because that
// stands out by now, or is silent; or the first waits at a coordinating node that does not
// answer, and the second is to take another. Otherwise, or where searches are rejected, the
// cluster is busy, and a second attempt would only make it busier. Nor is it worthwhile to
// wait for a node instead that is ejected, or avoided, and that the first left out, unless the
// first waits for one that answers nothing at all.
func (s *Selector) Worthwhile(first, second *Decision, now time.Time) bool {
	if second.Reason == Overloaded {
		return false
	}
	at := s.since(now)
	if !first.hangs(second, at) && slices.ContainsFunc(second.Nodes, func(n *Node) bool { return !n.usable() && !n.in(first.Nodes) }) {
		return false
	}
	for _, n := range first.Nodes {
		if (!n.usable() || n.owes(at)) && !n.in(second.Nodes) {
			return true
		}
	}
	c := first.Coordinator
	return c != nil && (s.silent(c, at) || s.unheard(first, at))
}

// hangs reports whether a node of d that second leaves out cannot be reached, is silent, or did
// not answer its last probe.
func (d *Decision) hangs(second *Decision, at int64) bool {
	return slices.ContainsFunc(d.Nodes, func(n *Node) bool {
		return !n.in(second.Nodes) && (n.out() || n.owes(at) || n.probe.took.Value() >= millis(ProbeTimeout))
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
