package selection

import (
	"slices"
	"sync/atomic"
	"time"
)

// knocking is what is known of probes that are to find out whether a node answers
// as coordinating node. They are sent when a search through it is overdue.
type knocking struct {
	wanted  atomic.Pointer[Node] // whose copy is to serve it
	sent    atomic.Int64         // ns: when the one that is awaited was sent; 0: none is
	unfit   atomic.Bool          // the last one told nothing
	askedAt atomic.Int64         // ns: when one was last wanted
}

// askFor has the coordinating node of d probed.
func (d *Decision) askFor(at int64) {
	c := d.Coordinator
	switch {
	case c == nil || c.knock.sent.Load() != 0 || !elapsed(&c.knock.askedAt, at, suspicionInterval):
	case slices.Contains(d.Nodes, c):
		c.knock.wanted.Store(c)
	default:
		c.knock.wanted.Store(d.Nodes[0])
	}
}

// knocks appends the probe through n that is due, if one is, and gives up one that
// is far overdue: what it took counts as the node's overhead.
func (s *Selector) knocks(dst []Probe, n *Node, at int64) []Probe {
	k := &n.knock
	if sent := k.sent.Load(); sent != 0 {
		late := millis(time.Duration(at - sent))
		if !s.mute(n, at) || late <= s.probeLimit(n) || !k.sent.CompareAndSwap(sent, 0) {
			return dst
		}
		n.observeOverhead(late, at)
	}
	target := k.wanted.Swap(nil)
	if target == nil || n.out() {
		return dst
	}
	k.sent.Store(at)
	return append(dst, Probe{Node: target, Via: n, Burst: 1, sent: at, knock: true})
}

// observeKnock feeds how a probe ended that asked for p.Via.
func (s *Selector) observeKnock(p Probe, o ProbeOutcome, at int64) {
	if !p.Via.knock.sent.CompareAndSwap(p.sent, 0) {
		return // given up
	}
	p.Via.knock.unfit.Store(o.Unfit)
	if o.Unfit {
		return
	}
	took := millis(o.Took)
	if o.Failed || took >= s.probeLimit(p.Via) {
		p.Via.observeOverhead(took, at)
		return
	}
	raise(&s.probedAt, p.sent)
}

// unheard reports whether nothing came back through the coordinating node of d in
// the second half of the time that d has waited. It must do where nobody sends
// probes, or they tell nothing.
func (d *Decision) unheard(at int64) bool {
	k := &d.Coordinator.knock
	probed := k.wanted.Load() == nil && !k.unfit.Load()
	return !probed && d.Coordinator.heardAt.Load() <= d.start+(at-d.start)/2
}

// mute reports whether n, as coordinating node, has not answered a probe yet while
// others, sent no earlier, were answered elsewhere.
func (s *Selector) mute(n *Node, at int64) bool {
	sent := n.knock.sent.Load()
	return sent != 0 && s.probedAt.Load() >= sent && s.late(at-sent)
}
