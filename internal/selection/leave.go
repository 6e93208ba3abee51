package selection

import (
	"slices"
	"time"
)

// Drained is how a node is said to leave that [Selector.Leave] was told of.
const Drained = "drained"

// mark says that a node is drained.
type mark struct {
	until       int64  // ns
	ephemeralID string // of the process that is to leave; empty: not known
}

// Leave notes that n is about to leave, or to restart: until then it is given no searches while
// every shard keeps another copy, and coordinates nothing while another node can. The zero time
// takes that back; [Selector.EndMarks] says what else ends it. A node that
// the cluster announces to leave ([NodeInfo.Announced]) is treated alike, while it is announced.
func (s *Selector) Leave(n *Node, until time.Time) {
	if until.IsZero() {
		n.leaving.Store(nil)
		return
	}
	n.leaving.Store(&mark{s.since(until), n.EphemeralID})
}

// EndMarks ends the marks of nodes that have left the cluster or restarted, as the last [Selector.Update] tells, or of
// which the time is over. nodes are those known before it. A node that merely cannot be reached for a while is still to
// leave.
func (s *Selector) EndMarks(nodes []*Node, now time.Time, tell func(n *Node, why string)) {
	known := *s.known.Load()
	for _, n := range nodes {
		m := n.leaving.Load()
		var why string
		switch is := known[n.ID]; {
		case m == nil:
			continue
		case !n.Same(is):
			why = "it has left the cluster"
		case m.ephemeralID != "" && is.EphemeralID != "" && m.ephemeralID != is.EphemeralID:
			why = "it has restarted"
		case m.until <= s.since(now):
			why = "its time is over"
		default:
			continue
		}
		if n.leaving.CompareAndSwap(m, nil) {
			tell(n, why)
		}
	}
}

// DrainedUntil returns until when n is drained, zero if it is not.
func (s *Selector) DrainedUntil(n *Node, now time.Time) time.Time {
	if m := n.leaving.Load(); m != nil && m.until > s.since(now) {
		return s.moment(m.until)
	}
	return time.Time{}
}

// DrainedNodes returns the ids of the nodes that are drained, sorted.
func (s *Selector) DrainedNodes(now time.Time) (ids []string) {
	for id, n := range *s.known.Load() {
		if !s.DrainedUntil(n, now).IsZero() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Leaves reports whether n is about to leave: it is to coordinate nothing while another node can.
func (s *Selector) Leaves(n *Node, now time.Time) bool { return n.leaves(s.since(now)) }

// leaves reports whether n is about to leave.
func (n *Node) leaves(at int64) bool {
	m := n.leaving.Load()
	return n.Announced != "" || m != nil && m.until > at
}

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
		if told := m.leaving.Load(); told != nil {
			n.leaving.Store(&mark{s.since(other.moment(told.until)), told.ephemeralID})
		}
	}
}
