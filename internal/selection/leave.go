package selection

import (
	"maps"
	"math"
	"slices"
	"time"
)

// Drained is how a node is said to leave that [Selector.Leave] was told of.
const Drained = "drained"

// Leave notes that n is about to leave, or to restart: until then it is given no searches while
// every shard keeps another copy, and coordinates nothing while another node can. A moment that is
// over ends that. It is forgotten when n has left the cluster, or refused a poll and is back: it
// comes back as any node does. A connection of a client that breaks off is no restart. A node that
// the cluster announces to leave ([NodeInfo.Announced]) is treated alike, while it is announced.
func (s *Selector) Leave(n *Node, until time.Time) {
	n.leaving.Store(max(0, s.since(until)))
	n.left.Store(false)
}

// polledAs notes what became of a poll of the node, for the mark that it is about to leave.
func (n *Node) polledAs(state State) {
	switch state {
	case Unreachable:
		n.left.Store(true)
	case Fine:
		if n.left.Swap(false) {
			n.leaving.Store(0)
		}
	}
}

// leaves reports whether n is about to leave.
func (n *Node) leaves(at int64) bool { return n.Announced != "" || n.leaving.Load() > at }

// excludeLeaving marks candidates that are about to leave, and reports whether there are any.
func (d *Decision) excludeLeaving(req Request, t turn) (found bool) {
	for _, p := range d.order {
		if req.Nodes[p].leaves(t.at) {
			d.candidates[p].exclude(Leaving)
			found = true
		}
	}
	return found
}

// expect notes which data nodes left or join as known takes the place of s.nodes: a shard may get a copy there
// that no placement tells of yet. Where none of the nodes is left it is another cluster. s.mu is held.
func (s *Selector) expect(known map[string]*Node, at int64) {
	stays := false
	for id, n := range s.nodes {
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
		case s.nodes[id] == nil:
			s.expected[id] = at
		}
	}
	maps.DeleteFunc(s.expected, func(_ string, since int64) bool { return !stays || at-since >= int64(absence) })
	s.setExpected()
}

// arrived notes that n has a copy.
func (s *Selector) arrived(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.Same(s.nodes[n.ID]) {
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

// leave leaves the choice to the engine, for this reason. While a node is expected it is to choose among the nodes that are
// known, if none stands out: a data node is away that was there before, or has joined and has no copies yet. The engine
// searches a copy as soon as it is there, on a node that is cold. A list keeps searches from it until it is known: then its
// share grows.
func (s *Selector) leave(d *Decision, req Request, why Reason, at int64) {
	if why == NoOutlier && s.expectedUntil.Load() > at && req.Affinity == 0 && d.alike(req) && d.listKnown(req, s.factor) {
		d.expects = true
		return
	}
	d.listAll(why)
}

// alike reports whether in no queue of a candidate searches wait for long, and none takes far longer than the others: of the
// copies listed the engine draws lots, of all copies it uses those on such nodes less.
func (d *Decision) alike(req Request) bool {
	return !slices.ContainsFunc(d.order, func(p int) bool {
		return d.candidates[p].why == OverLimit || req.Nodes[p].queued() > SlowSlack
	})
}

// listKnown lists all nodes that can be reached, and reports whether each shard has a copy there. If one has
// none, it may be on the node that is expected.
func (d *Decision) listKnown(req Request, factor float64) bool {
	d.listSets(req, policy{near: 1, slack: math.Inf(1)}, factor)
	return d.Reason != FailOpen
}

// Expects reports whether d lists all nodes that are known, as another one is expected to get copies, and is cold.
func (d *Decision) Expects() bool { return d.expects }

// Open leaves the choice to the engine after all, where d lists nodes only as another one is expected, and reports
// whether it does: the list does not fit into a request, say.
func (d *Decision) Open() bool {
	if !d.expects {
		return false
	}
	d.expects, d.Reason = false, NoOutlier
	return true
}
