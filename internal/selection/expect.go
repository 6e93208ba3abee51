package selection

import (
	"maps"
	"math"
	"slices"
)

// expect notes which data nodes left or join as known takes the place of before: a shard may get a copy there
// that no placement tells of yet. Where none of the nodes is left it is another cluster. s.mu is held.
func (s *Selector) expect(before, known map[string]*Node, at int64) {
	stays := false
	for id, n := range before {
		if known[id] != nil {
			stays = true
		} else if !n.NoData {
			s.expected[id] = at
		}
	}
	for id, n := range known {
		switch {
		case n.NoData || !n.joined.Load():
			delete(s.expected, id)
		case !n.Same(before[id]):
			s.expected[id] = at
		}
	}
	maps.DeleteFunc(s.expected, func(_ string, since int64) bool { return !stays || at-since >= int64(absence) })
	s.setExpected()
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
	if n.Same((*s.known.Load())[n.ID]) {
		delete(s.expected, n.ID)
		s.setExpected()
	}
}

// setExpected sets until when a node is expected. s.mu is held.
func (s *Selector) setExpected() {
	until := int64(0)
	for _, since := range s.expected {
		until = max(until, since+int64(absence))
	}
	s.expectedUntil.Store(until)
}

// letChoose leaves the choice to the engine, as nobody stands out. While a node is expected it is to choose among the nodes that are
// known, if none stands out: a data node is away that was there before, or has joined and has no copies yet. The engine
// searches a copy as soon as it is there, on a node that is cold. A list keeps searches from it until it is known: then its
// share grows. Where searches wait for long in the queue of a candidate, or one takes far longer than the others, there is none:
// of the copies listed the engine draws lots, of all copies it uses those on such nodes less.
func (d *Decision) letChoose(req Request, t turn) {
	unlike := func(c *Candidate) bool { return c.Excluded == OverLimit || c.Node.queued(t.at) > SlowSlack }
	if t.s.expectedUntil.Load() > t.at && req.Affinity == 0 && !slices.ContainsFunc(d.order, unlike) {
		// All nodes that can be reached. A shard without a copy there may have one on the node that is expected.
		if d.list(req, math.Inf(1), t); d.Reason != FailOpen {
			d.expects = true
			return
		}
	}
	d.listAll(NoOutlier)
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
