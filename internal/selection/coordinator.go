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

// coordinate picks the node to send the search to, in turn among those whose HTTP
// side is about as good as the best one and which do not coordinate far more than
// the others already; if all of these do, the cheapest of all. Turns, not lots: each
// coordinating node ranks the copies by what it saw itself, and ranks worse the less
// evenly it is used. Nodes that are not listed are asked only when all listed ones are
// clearly worse.
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
	busy, cheapest := busyCoordinator(pool), math.Inf(1)
	for i := range pool {
		n := pool[(t.number+uint64(i))%uint64(len(pool))] //nolint:gosec // an index is not negative
		rank := t.s.coordinatingRank(n, t.at)
		if rank <= limit && n.coordinating.Load() <= busy {
			d.Coordinator = n
			return
		}
		if cost := n.coordinatingCost(rank); cost < cheapest {
			d.Coordinator, cheapest = n, cost
		}
	}
}

// coordinatingCost is what a search through n, of this coordinating rank, costs with
// those that it coordinates already, (1 + rank) · (1 + coordinating): a burst of searches
// does not all go through the one node whose HTTP side was a little better before it.
func (n *Node) coordinatingCost(rank float64) float64 {
	return (1 + rank) * float64(1+n.coordinating.Load())
}

// A node of a pool coordinates far more than the others from busyFactor times their
// mean plus busySlack searches on.
const (
	busyFactor = 2
	busySlack  = 2
)

func busyCoordinator(pool []*Node) int64 {
	total := int64(0)
	for _, n := range pool {
		total += n.coordinating.Load()
	}
	return busyFactor*total/int64(max(1, len(pool))) + busySlack
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
		if r := n.coordinatingCost(s.coordinatingRank(n, at)); r < rank {
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
