package selection

import "math"

// fitness says which copies of a shard may be listed, of those that are not out.
type fitness struct {
	starts bool // those on nodes in slow start, too
	slow   bool // those on all nodes that are excluded, too
	remote bool // those in other zones, too
}

// fits reports whether a copy on the node of c may be listed.
func (f fitness) fits(c *candidate) bool {
	return !c.out() && (!c.slow() || f.slow || f.starts && c.why == NotItsTurn) && (f.remote || !c.remote)
}

// eligible says which copies of a shard may be listed: those on nodes that are neither
// out nor excluded, else those in slow start, else those that are not out, else none. Of these it drops those in
// other zones unless the best of them is better by more than factor.
func (d *Decision) eligible(copies []int, factor float64) (fitness, bool) {
	for _, f := range [...]fitness{{remote: true}, {starts: true, remote: true}, {slow: true, remote: true}} {
		for _, p := range copies {
			if f.fits(&d.candidates[p]) {
				f.remote = !d.remote || !d.staysLocal(copies, f, factor)
				return f, true
			}
		}
	}
	return fitness{}, false
}

// listBest lists the one best copy of a shard; ties go in turns.
func (d *Decision) listBest(copies []int, t turn) {
	may, ok := d.eligible(copies, t.s.o.ZoneFactor)
	if !ok {
		d.failOpen(copies)
		return
	}
	best := -1
	for i := range copies {
		p := copies[(uint64(i)+t.number)%uint64(len(copies))]
		c := &d.candidates[p]
		if may.fits(c) && (best < 0 || c.rank < d.candidates[best].rank) {
			best = p
		}
	}
	d.candidates[best].listed = true
}

// listSets lists copies of all shards. The list so made has the lowest possible
// worst rank, up to near, what counts as equal: each shard's best copy is listed, and
// others only if they are near it, or on a node that is listed for another shard.
func (d *Decision) listSets(req Request, near, factor float64) {
	if d.Reason != Ranked {
		near = 0
	}
	for _, copies := range req.Shards {
		d.listNear(copies, near, factor)
	}
}

// listNear lists the best copy of a shard, and those that are near it.
func (d *Decision) listNear(copies []int, near, factor float64) {
	may, ok := d.eligible(copies, factor)
	if !ok {
		d.failOpen(copies)
		return
	}
	best := math.Inf(1)
	for _, p := range copies {
		if c := &d.candidates[p]; may.fits(c) {
			best = min(best, c.rank)
		}
	}
	limit := best + near
	for _, p := range copies {
		if c := &d.candidates[p]; may.fits(c) && c.rank <= limit {
			c.listed = true
		}
	}
}

// failOpen lists all copies of a shard that has none left to prefer.
func (d *Decision) failOpen(copies []int) {
	d.Reason = FailOpen
	for _, p := range copies {
		d.candidates[p].listed = true
	}
}

// gather turns listed candidates into the set, with the shard queries each may
// expect: the engine shuffles among the listed copies of a shard.
func (d *Decision) gather(req Request) {
	for _, c := range d.order {
		if c.listed {
			d.Nodes, d.listed = append(d.Nodes, c.node), append(d.listed, c)
		}
	}
	if req.Outline != nil && len(d.Nodes) == len(d.order) {
		for i, c := range d.order {
			c.tasks, c.sole = req.Outline.Tasks[i], req.Outline.Sole[i]
		}
		return
	}
	for i, copies := range req.Shards {
		d.expectOf(copies, req.weight(i))
	}
}

// expectOf gives the listed copies of a shard, or of as many as weight says, the
// shard queries they may expect.
func (d *Decision) expectOf(copies []int, weight float64) {
	listed := 0
	for _, p := range copies {
		if d.candidates[p].listed {
			listed++
		}
	}
	for _, p := range copies {
		if c := &d.candidates[p]; c.listed {
			c.tasks += weight / float64(listed)
			c.sole = c.sole || listed == 1
		}
	}
}
