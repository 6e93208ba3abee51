package selection

import (
	"math"
	"sync/atomic"
	"time"
)

// Coordinating nodes whose HTTP overhead is within overheadFactor times the best
// plus nearOverhead (ms) count as equal.
const (
	overheadFactor = 1.5
	nearOverhead   = 5.0
)

// coordinatingRank returns what sending a search through n is expected to cost
// beside the search itself, in ms: lower is better. Polls tell it for nodes that
// coordinate nothing, too, so a slow one is found and found well again without a
// client paying. A node without statistics costs nothing extra.
func (s *Selector) coordinatingRank(n *Node, at int64) float64 {
	h, _ := n.overhead.value()
	polled, _ := n.reach.value()
	h += polled
	if n.out() || s.mute(n, at) {
		h += penaltyMax
	}
	return h + n.penaltyLeft(at)
}

// coordinate picks the node to send the search to, among those whose HTTP side is
// about as good as the best one: of two drawn by lot in proportion to the listed
// copies they hold, because that saves hops, the one that coordinates less. To
// leave it to the one with most copies would make it work for all. Nodes that are
// not listed are asked only when all listed ones are clearly worse.
func (d *Decision) coordinate(req Request, t turn) {
	best := math.Inf(1)
	for _, n := range d.Nodes {
		best = min(best, t.s.coordinatingRank(n, t.at))
	}
	others := math.Inf(1)
	if best > nearOverhead {
		for _, n := range req.Nodes {
			others = min(others, t.s.coordinatingRank(n, t.at))
		}
	}
	pool, limit := d.Nodes, overheadFactor*best+nearOverhead
	if overheadFactor*others+nearOverhead < best {
		pool, limit = req.Nodes, overheadFactor*others+nearOverhead
	}
	for draw := range uint64(2) {
		n := d.drawCoordinator(pool, limit, t, draw)
		if d.Coordinator == nil || (n != nil && n.coordinating.Load() < d.Coordinator.coordinating.Load()) {
			d.Coordinator = n
		}
	}
}

// drawCoordinator draws a node of pool whose rank is within limit, in proportion to
// the listed copies it holds; nodes without any count alike, if there are only such.
func (d *Decision) drawCoordinator(pool []*Node, limit float64, t turn, draw uint64) *Node {
	var drawn *Node
	var total float64
	for i, n := range pool {
		if t.s.coordinatingRank(n, t.at) > limit {
			continue
		}
		weight := max(d.tasksOf(n, i), 1e-6)
		total += weight
		if t.s.random(t.number+draw<<32, uint64(i))*total < weight {
			drawn = n
		}
	}
	return drawn
}

// tasksOf returns the shard queries that n, at position i of its pool, may expect
// from the decision.
func (d *Decision) tasksOf(n *Node, i int) float64 {
	if i < len(d.Nodes) && d.Nodes[i] == n {
		return d.tasks[i]
	}
	for j, m := range d.Nodes {
		if m == n {
			return d.tasks[j]
		}
	}
	return 0
}

// forgiveLosers moves the overhead of listed nodes that were not made coordinator
// toward the coordinator's, as pullLosers does for the response time.
func (d *Decision) forgiveLosers(at int64) {
	if d.Coordinator == nil {
		return
	}
	w, _ := d.Coordinator.overhead.value()
	for _, n := range d.Nodes {
		l, ok := n.overhead.value()
		if ok && l > w && elapsed(&n.forgivenAt, at, pullInterval) {
			n.overhead.observe((l + w) / 2)
		}
	}
}

// Coordinator returns the node to send a request to that is not steered: the
// cheaper of two drawn at random, so that several clients do not converge on
// one. Nodes of usable for which it returns false are not considered; nil if
// none is left.
func (s *Selector) Coordinator(nodes []*Node, usable func(*Node) bool, now time.Time) *Node {
	at, number := s.since(now), s.turn.Add(1)
	var best *Node
	rank, drawn := math.Inf(1), 0
	start := int(s.random(number, 0) * float64(len(nodes)))
	for i := range nodes {
		n := nodes[(start+i)%len(nodes)]
		if !usable(n) {
			continue
		}
		drawn++
		r := (1 + s.coordinatingRank(n, at)) * float64(1+n.coordinating.Load())
		if r < rank {
			best, rank = n, r
		}
		// A node that is out does not use up a draw.
		if drawn >= 2 && !best.out() {
			break
		}
	}
	return best
}

// elapsed reports whether interval has passed since the time in last (0: never),
// and if so sets last to at; only one of several callers at a time is told so.
func elapsed(last *atomic.Int64, at int64, interval time.Duration) bool {
	old := last.Load()
	return (old == 0 || at-old >= int64(interval)) && last.CompareAndSwap(old, at)
}
