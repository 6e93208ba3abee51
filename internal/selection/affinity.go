package selection

import "sidestep/internal/draw"

// stick makes the copies of a shard cost what their nodes' places are in the order that rendezvous hashing gives them for
// req.Affinity. Nodes loaded far above the others come last (consistent hashing with bounded loads). One list serves all shards
// of a search: a shard of which two copies are first for some shard is served by either.
func (d *Decision) stick(req Request, copies []int, t turn) {
	if d.Reason == Ranked {
		d.Reason = Affinity
	}
	may := d.eligible(copies, t.s.o.ZoneFactor)
	var sum, n float64
	for _, p := range copies {
		if c := &d.candidates[p]; may.fits(c) {
			sum += float64(c.Node.Outstanding())
			n++
		}
	}
	bound := bounded(sum, n)
	for _, p := range copies {
		c := &d.candidates[p]
		c.cost = -draw.Score(req.Affinity, c.Node.ID)
		if float64(c.Node.Outstanding()) > bound {
			c.cost++ // scores are below 1
		}
	}
}

// bounded returns how much one of n nodes may have that have sum together.
func bounded(sum, n float64) float64 { return loadBound*sum/max(1, n) + twice }
