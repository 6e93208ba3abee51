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
// that no placement tells of yet. s.mu is held.
func (s *Selector) expect(known map[string]*Node, at int64) {
	for id, n := range s.nodes {
		if known[id] == nil && !n.NoData {
			s.expected[id] = at
		}
	}
	for id, n := range known {
		if s.nodes[id] == nil && n.joined.Load() && !n.NoData {
			s.expected[id] = at
		}
	}
	maps.DeleteFunc(s.expected, func(_ string, since int64) bool { return at-since >= int64(absence) })
	s.setExpected()
}

// arrived notes that n has a copy.
func (s *Selector) arrived(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.expected, n.ID)
	s.setExpected()
}

// setExpected sets until when a node is expected. s.mu is held.
func (s *Selector) setExpected() {
	until := int64(0)
	for _, since := range s.expected {
		until = max(until, since+int64(absence))
	}
	s.expectedUntil.Store(until)
}

// expects reports whether d is to list all nodes that are known, although none stands out: a data node is away that was
// there before, or has no copies yet that has joined. The engine searches a copy as soon as it is there, on a node that is
// cold. A list keeps searches from it until it is known: then its share grows. Of the copies listed the engine
// draws lots, so nothing may wait in queues meanwhile.
func (s *Selector) expects(d *Decision, req Request, at int64) bool {
	return s.expectedUntil.Load() > at &&
		!slices.ContainsFunc(d.order, func(p int) bool { return req.Nodes[p].queued() > SlowSlack })
}

// listKnown lists all nodes that can be reached, and reports whether each shard has a copy there. If one has
// none, it may be on the node that is expected.
func (d *Decision) listKnown(req Request, factor float64) bool {
	d.listSets(req, policy{near: 1, slack: math.Inf(1)}, factor)
	return d.Reason != FailOpen
}

// Expects reports whether d lists all nodes that are known, as another one is expected to get copies, and is cold.
func (d *Decision) Expects() bool { return d.expects }
