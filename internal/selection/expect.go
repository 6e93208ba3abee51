package selection

import (
	"math"
	"slices"
)

// expect notes whether data nodes left or joined as data takes the place of s.data, of the nodes known by id: a shard may get a
// copy on a node of which no placement tells yet. Where none of the data nodes is left it is another cluster. s.mu is held.
func (s *Selector) expect(data []*Node, known map[string]*Node, at int64) {
	before := *s.data.Load()
	stays := func(n *Node) bool { return known[n.ID] != nil }
	gone := func(n *Node) bool { return !stays(n) }
	joins := func(n *Node) bool { return n.joined.Load() && !n.Same(s.nodes[n.ID]) }
	if !slices.ContainsFunc(before, stays) {
		before, data, s.expected = nil, nil, 0
	}
	if s.expectedUntil.Load() <= at {
		s.expected = 0
	}
	left := slices.ContainsFunc(before, gone)
	if left {
		s.expected = max(s.expected, len(before))
	}
	if left || slices.ContainsFunc(data, joins) {
		s.expectedUntil.Store(at + int64(absence))
	}
	s.settle(data)
}

// settle ends that a node is expected, if there are as many as there were, and all have copies. s.mu is held.
func (s *Selector) settle(data []*Node) {
	if len(data) >= s.expected && !slices.ContainsFunc(data, func(n *Node) bool { return n.joined.Load() }) {
		s.expected = 0
		s.expectedUntil.Store(0)
	}
}

// arrived notes that n has a copy: one that has joined begins its slow start.
func (s *Selector) arrived(n *Node, at int64) {
	if !n.joined.Load() || !n.joined.CompareAndSwap(true, false) {
		return
	}
	if n.serves() { // else it returns as any other does
		s.slowStart(n, at)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(*s.data.Load())
}

// letChoose leaves the choice to the engine, as nobody stands out. While a node is expected it is to choose among the nodes that are
// known, if none stands out: a data node is away that was there before, or has joined and has no copies yet. The engine
// searches a copy as soon as it is there, on a node that is cold. A list keeps searches from it until it is known: then its
// share grows.
func (d *Decision) letChoose(req Request, t turn) {
	if t.s.expectedUntil.Load() > t.at && req.Affinity == 0 && d.alike(t.at) {
		// All nodes that can be reached. A shard without a copy there may have one on the node that is expected.
		if d.list(req, math.Inf(1), t); d.Reason != FailOpen {
			d.expects = true
			return
		}
	}
	d.listAll(NoOutlier)
}

// alike reports whether in no queue of a candidate searches wait for long, and none takes far longer than the others: of the
// copies listed the engine draws lots, of all copies it uses those on such nodes less.
func (d *Decision) alike(at int64) bool {
	return !slices.ContainsFunc(d.order, func(c *candidate) bool { return c.why == OverLimit || c.node.queued(at) > SlowSlack })
}

// Expects reports whether d lists all nodes that are known, as another one is expected to get copies, and is cold.
func (d *Decision) Expects() bool { return d.expects }

// Unlist leaves the choice to the engine after all, where d lists nodes only as another one is expected, and reports
// whether it does: the list does not fit into a request, say.
func (d *Decision) Unlist() bool {
	if !d.expects {
		return false
	}
	d.expects, d.Reason = false, NoOutlier
	return true
}
