package selection

import (
	"math"
)

// A copy is spilled past when its node has more than loadBound times as many
// searches outstanding as the copies have in the mean, plus loadSlack.
const (
	loadBound = 1.25
	loadSlack = 2
)

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
		may, ok := d.eligible(copies, t.s.factor)
		if !ok {
			d.failOpen(copies)
			continue
		}
		bound := d.loadBound(req, copies, may)
		best, bestScore, overloaded := -1, 0.0, true
		for _, p := range copies {
			if !may.fits(&d.candidates[p]) {
				continue
			}
			over := float64(req.Nodes[p].Outstanding()) > bound
			score := rendezvous(req.Affinity, req.Nodes[p].ID)
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
	sum, n := 0.0, 0.0
	for _, p := range copies {
		if may.fits(&d.candidates[p]) {
			sum += float64(req.Nodes[p].Outstanding())
			n++
		}
	}
	return loadBound*sum/math.Max(1, n) + loadSlack
}

// rendezvous returns the score of a node for a key: the highest wins. It is the
// same in every process: FNV-1a of the id, mixed with the key by the finalizer of
// SplitMix64.
func rendezvous(key uint64, id string) float64 {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return unit(h ^ mix(key))
}
