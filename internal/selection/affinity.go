package selection

import "sidestep/internal/draw"

// listSame lists for each shard the copy that is first in the order that rendezvous
// hashing gives the nodes for req.Affinity, of those that are fit and not loaded
// far above the others (consistent hashing with bounded loads). One list serves all
// shards of a search: a shard of which two copies are first for some shard is
// served by either.
func (d *Decision) listSame(req Request, t turn) {
	if d.Reason == Ranked {
		d.Reason = Affinity
	}
	for _, copies := range req.Shards {
		may, ok := d.eligible(copies, t.s.o.ZoneFactor)
		if !ok {
			d.failOpen(copies)
			continue
		}
		bound := d.loadBound(req, copies, may)
		var bestScore float64
		best, overloaded := -1, true
		for _, p := range copies {
			if !may.fits(&d.candidates[p]) {
				continue
			}
			over := float64(req.Nodes[p].Outstanding()) > bound
			score := draw.Score(req.Affinity, req.Nodes[p].ID)
			if best < 0 || (overloaded && !over) || (over == overloaded && score > bestScore) {
				best, bestScore, overloaded = p, score, over
			}
		}
		d.candidates[best].listed = true
	}
}

// loadBound returns how many searches a node may have outstanding to be given one
// that has been there before.
func (d *Decision) loadBound(req Request, copies []int, may fitness) float64 {
	var sum, n float64
	for _, p := range copies {
		if may.fits(&d.candidates[p]) {
			sum += float64(req.Nodes[p].Outstanding())
			n++
		}
	}
	return bounded(sum, n)
}

// bounded returns how much one of n nodes may have that have sum together.
func bounded(sum, n float64) float64 { return loadBound*sum/max(1, n) + twice }
