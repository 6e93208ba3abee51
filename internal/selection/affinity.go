package selection

import "sidestep/internal/draw"

// stick makes a copy cost what its node's place is in the order that rendezvous hashing gives the nodes for
// req.Affinity. Nodes loaded far above the others come last (consistent hashing with bounded loads). One list serves all shards
// of a search: a shard of which two copies are first for some shard is served by either.
func (d *Decision) stick(req Request) {
	if d.Reason == Ranked {
		d.Reason = Affinity
	}
	var sum, n float64
	for _, c := range d.order {
		if !c.why.KeepsOut() {
			sum += float64(c.node.Outstanding())
			n++
		}
	}
	bound := bounded(sum, n)
	for _, c := range d.order {
		c.cost = -draw.Score(req.Affinity, c.node.ID)
		if float64(c.node.Outstanding()) > bound {
			c.cost++ // scores are below 1
		}
	}
}

// bounded returns how much one of n nodes may have that have sum together.
func bounded(sum, n float64) float64 { return loadBound*sum/max(1, n) + twice }
