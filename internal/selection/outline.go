package selection

import "math"

// Outline is what can be told once of the sets of copies of a wide target, so that a
// choice costs what there are nodes, and what there are sets of those that stand out.
// It belongs to Request.Shards and Request.Weights. Its slices are parallel.
type Outline struct {
	Nodes []int     // positions of the nodes with a copy, sorted
	Tasks []float64 // shard queries that each may expect if all copies are listed
	Sole  []bool    // it has the only copy of some shard
	Sets  [][]int   // which of Request.Shards it has a copy of
}

// listGood lists the copies that are near the best of all, and so near the best of
// their set. It reports whether these are the most, so that few sets are left to be
// looked at: those of the others.
func (d *Decision) listGood(near float64) bool {
	best, good := math.Inf(1), 0
	for _, c := range d.order {
		if !c.why.KeepsOut() {
			best = min(best, c.rank)
		}
	}
	limit := best + near
	for _, c := range d.order {
		if !c.why.KeepsOut() && c.rank <= limit {
			c.listed = true
			good++
		}
	}
	return good > len(d.order)-good
}

// listOthers lists what listNear lists for all sets, where the good copies are listed.
func (d *Decision) listOthers(req Request, near, factor float64) {
	for i, c := range d.order {
		if c.listed {
			continue
		}
		for _, set := range req.Outline.Sets[i] {
			d.listNear(req.Shards[set], near, factor)
		}
	}
}

// expectByOutline gives listed candidates the shard queries they may expect: what an
// even use of all copies would bring, corrected for the sets of which some copy is not
// listed.
func (d *Decision) expectByOutline(req Request) {
	for i, c := range d.order {
		c.tasks, c.sole = req.Outline.Tasks[i], req.Outline.Sole[i]
	}
	for i, c := range d.order {
		if c.listed {
			continue
		}
		for _, set := range req.Outline.Sets[i] {
			if copies := req.Shards[set]; d.firstUnlisted(copies) == c.position {
				d.expectOf(copies, req.weight(set), req.weight(set)/float64(len(copies)))
			}
		}
	}
}

// firstUnlisted returns the first copy of a shard that is not listed, of which there
// is one.
func (d *Decision) firstUnlisted(copies []int) int {
	for _, p := range copies {
		if !d.candidates[p].listed {
			return p
		}
	}
	return -1
}
