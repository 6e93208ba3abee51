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
	sentAt     atomic.Int64 // ns: when it was asked for the answer that it owes; 0: it owes none
	answeredAt atomic.Int64 // ns: its latest answer
	silent     atomic.Bool  // its peers have answered meanwhile
	took       stats.Number // ms: until its last answer
	before     stats.Number // ms: until the one before
}

// Asking is one time that a node is asked whether it answers.
type Asking struct {
	Node   *Node
	sentAt int64 // ns
}

// Ask appends to dst the nodes to be asked at once whether they answer, as a search on d takes
// clearly longer than such searches usually do: the nodes of d, at most roundSize of them, and
// others to compare them with where these are few. A node that owes an answer already is not asked
// again. Each is to end in one [Selector.Asked].
func (s *Selector) Ask(dst []Asking, d *Decision, now time.Time) []Asking {
	all, turn := *s.data.Load(), s.turn.Load()
	if d.Reason == Overloaded || len(all) < twice {
		return dst
	}
	at, compared := s.since(now), 0
	ask := func(n *Node) {
		if !n.Alive() {
			return
		}
		compared++
		sent := n.asking.sentAt.Load()
		if sent != 0 && at-sent < int64(ProbeTimeout) {
			return
		}
		n.asking.silent.Store(false)
		if n.asking.sentAt.CompareAndSwap(sent, at) {
			dst = append(dst, Asking{n, at})
		}
	}
	for i := range uint64(min(len(d.Nodes), roundSize)) {
		ask(d.Nodes[(i+turn)%uint64(len(d.Nodes))])
	}
	if c := d.Coordinator; c != nil && !c.in(d.Nodes) {
		ask(c)
	}
	for i := range uint64(len(all)) {
		if n := all[(i+turn)%uint64(len(all))]; compared <= twice && !n.in(d.Nodes) && !n.Same(d.Coordinator) {
			ask(n)
		}
	}
	return dst
}

// Asked ends what [Selector.Ask] began: the node has answered at now, whatever it said, or will not.
// What came after it was asked again ends nothing.
func (s *Selector) Asked(a Asking, answered bool, now time.Time) {
	k := &a.Node.asking
	if at := s.since(now); answered {
		k.before.Set(k.took.Value())
		k.took.Set(millis(time.Duration(at - a.sentAt)))
		raise(&k.answeredAt, at)
	}
	k.sentAt.CompareAndSwap(a.sentAt, 0)
}

// awaited reports whether the node owes an answer, and nothing was heard of it since.
func (n *Node) awaited(at int64) bool {
	sent := n.asking.sentAt.Load()
	return sent > n.lastHeard() && at-sent < int64(ProbeTimeout)
}

// lastHeard returns when (ns) the node last answered a client, or that it answers.
func (n *Node) lastHeard() int64 { return max(n.heardAt.Load(), n.asking.answeredAt.Load()) }

// owes reports whether the node owes an answer that its peers have given.
func (n *Node) owes(at int64) bool { return n.asking.silent.Load() && n.awaited(at) }

// Silent reports whether a node of d, or its coordinating node, owes an answer that its peers
// have given. Until it answers, choices leave it out.
func (s *Selector) Silent(d *Decision, now time.Time) bool {
	at, found := s.since(now), false
	var peers peerAnswers
	for _, n := range d.concerned() {
		if n.awaited(at) && (n.asking.silent.Load() || s.late(n, &peers, at)) {
			n.asking.silent.Store(true)
			found = true
		}
	}
	return found
}

// concerned returns the nodes of d, and its coordinating node.
func (d *Decision) concerned() []*Node {
	if d.Coordinator == nil || d.Coordinator.in(d.Nodes) {
		return d.Nodes
	}
	return append(slices.Clip(d.Nodes), d.Coordinator)
}

// late reports whether n owes an answer for far longer than its peers took for theirs, and
// longer than it took for its own: for the last one, or, as it may have been silent then, the
// one before. As many nodes must have been heard since it was asked as owe an answer, n among
// them: where most are silent, the way to them is slow, or this process. peers is what was found
// last; the nodes of one search are mostly asked at the same moment.
func (s *Selector) late(n *Node, peers *peerAnswers, at int64) bool {
	sent := n.asking.sentAt.Load()
	waited := millis(time.Duration(at-sent)) - max(SlowSlack, n.mayStandStill(at))
	if waited <= min(n.asking.took.Value(), n.asking.before.Value()) {
		return false
	}
	if peers.since != sent {
		*peers = s.answersSince(sent, at)
	}
	return peers.median > 0 && peers.heard >= peers.owing && waited > FarFactor*peers.median
}

// peerAnswers is what became of nodes since a moment at which others were asked.
type peerAnswers struct {
	since        int64   // ns
	heard, owing int     // nodes that were heard since, and that owe an answer
	median       float64 // of the times (ms) that those heard took for their last answer; 0: unknown
}

// answersSince returns what became of all data nodes since a moment.
func (s *Selector) answersSince(since, at int64) peerAnswers {
	p := peerAnswers{since: since}
	p.median = usual(*s.data.Load(), func(n *Node) (float64, bool) {
		ms := n.asking.took.Value()
		switch {
		case n.awaited(at):
			p.owing++
			return 0, false
		case n.lastHeard() < since:
			return 0, false
		}
		p.heard++
		return ms, ms > 0
	})
	return p
}

// Worthwhile reports whether a second attempt as decided in second may be sooner
// than the first, overdue one. So it is if it leaves out a node of the first that stands out by now, or is silent,
// and that takes far longer than searches wait in the queues of the second. So it is, too, if the first waits at a
// coordinating node that does not answer, and the second is to take another. Otherwise, or where searches are
// rejected, the cluster is busy, and a second attempt would only make it busier.
func (s *Selector) Worthwhile(first, second *Decision, now time.Time) bool {
	if second.Reason == Overloaded {
		return false
	}
	at := s.since(now)
	waits := 0.0 // ms
	for _, n := range second.Nodes {
		waits = max(waits, n.queued(at))
	}
	for _, n := range first.Nodes {
		if (!n.usable() || n.owes(at)) && !n.in(second.Nodes) && (!n.Alive() || FarFactor*waits <= n.takes(at)) {
			return true
		}
	}
	c := first.Coordinator
	return c != nil && (c.owes(at) || s.unheard(first, at))
}

// unheard reports whether nothing came back through the coordinating node of d in
// the second half of the time that d has waited. It must do where nobody sends
// probes, or those of the nodes with the copies tell nothing.
func (s *Selector) unheard(d *Decision, at int64) bool {
	told := func(n *Node) bool { return !n.untold() }
	if lately(&s.probes.lookedAt, at) && slices.ContainsFunc(d.Nodes, told) {
		return false
	}
	heard := d.Coordinator.heardAt.Load()
	return heard-d.start <= at-heard
}

// EjectedSince reports whether a node of d, or its coordinating node, was ejected after the
// search was sent. Then its second attempt does not bet on a slow answer but corrects what
// the first decision could not know, and needs no budget: there is at most one for each
// search that was under way at that moment.
func (s *Selector) EjectedSince(d *Decision) bool {
	return slices.ContainsFunc(d.concerned(), func(n *Node) bool { return !n.serves() && n.stateAt.Load() >= d.start })
}
