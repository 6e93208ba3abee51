package selection

import "math"

// fitness says which copies of a shard may be listed, of those that are not out.
type fitness struct {
	slow   bool // slow ones, too
	remote bool // those in other zones, too
}

// fits reports whether a copy on the node of c may be listed.
func (f fitness) fits(c *candidate) bool {
	return !c.out && (f.slow || !c.slow) && (f.remote || !c.remote)
}

// eligible says which copies of a shard may be listed: those that are neither out
// nor slow, else those that are not out, else none. Of these it drops those in
// other zones unless the best of them is better by more than factor.
func (d *Decision) eligible(copies []int, factor float64) (fitness, bool) {
	for _, f := range [...]fitness{{remote: true}, {slow: true, remote: true}} {
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
	may, ok := d.eligible(copies, t.s.factor)
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

// listNear lists the copies of a shard that are about as good as its best one.
// The list so made has the lowest possible worst rank, up to that tolerance:
// each shard's best copy is listed, and no copy far from its shard's best is.
func (d *Decision) listNear(copies []int, pol policy, factor float64) {
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
	limit := best
	if pol.near > 0 && d.Reason == Ranked {
		limit = pol.near*best + pol.slack
	}
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
	for i, copies := range req.Shards {
		weight, listed := 1.0, 0
		if req.Weights != nil {
			weight = float64(req.Weights[i])
		}
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
	for _, p := range d.order {
		if c := &d.candidates[p]; c.listed {
			d.Nodes = append(d.Nodes, req.Nodes[p])
			d.tasks = append(d.tasks, c.tasks)
			d.sole = append(d.sole, c.sole)
		}
	}
}
