package selection

import "time"

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

// DrainedUntil returns until when n is drained, zero if it is not.
func (s *Selector) DrainedUntil(n *Node, now time.Time) time.Time {
	if until := n.leaving.Load(); until > s.since(now) {
		return s.moment(until)
	}
	return time.Time{}
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

// Leaves reports whether n is about to leave: it is to coordinate nothing while another node can.
func (s *Selector) Leaves(n *Node, now time.Time) bool { return n.leaves(s.since(now)) }

// leaves reports whether n is about to leave.
func (n *Node) leaves(at int64) bool { return n.Announced != "" || n.leaving.Load() > at }

// KeepOutAs ejects the nodes that another selector of the same cluster ejects, until probes speak for them, and drains those
// that it drains.
func (s *Selector) KeepOutAs(other *Selector, now time.Time) {
	known := *other.known.Load()
	for _, n := range *s.known.Load() {
		m := known[n.ID]
		if m == nil {
			continue
		}
		if c := m.health.condition(); c == Slow || c == Failing {
			s.eject(n, c, s.since(now), *m.health.why.Load())
		}
		if until := other.DrainedUntil(m, now); !until.IsZero() {
			s.Leave(n, until)
		}
	}
}
