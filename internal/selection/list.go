package selection

// fitness says which copies of a shard may be listed.
type fitness struct {
	worst  Exclusion // what may speak against them
	remote bool      // those in other zones, too
}

// fits reports whether a copy on the node of c may be listed.
func (f fitness) fits(c *Candidate) bool { return c.Excluded <= f.worst && (f.remote || !c.remote) }

// eligible says which copies of a shard may be listed: those on nodes that are neither
// out nor excluded, else those in slow start, else those that are not out, else none. Of these it drops those in
// other zones unless the best of them is better by more than factor.
func (d *Decision) eligible(copies []int, factor float64) fitness {
	for _, worst := range [...]Exclusion{Needed, NotItsTurn, KeptFailing} {
		f := fitness{worst, true}
		for _, p := range copies {
			if f.fits(&d.candidates[p]) {
				f.remote = !d.remote || !d.staysLocal(copies, f, factor)
				return f
			}
		}
	}
	return fitness{}
}

// list lists copies of all shards: of each the cheapest, and those that cost more by no more than near. So the list
// has the lowest possible worst cost, up to near: others are on it only if they are on a node that is listed for another shard.
// near < 0: of each the cheapest alone, where several are in turns.
func (d *Decision) list(req Request, near float64, t turn) {
	for _, copies := range req.Shards {
		d.listShard(copies, near, t)
	}
}

// listShard lists copies of a shard, all of them if it has none left to prefer.
func (d *Decision) listShard(copies []int, near float64, t turn) {
	may := d.eligible(copies, t.s.o.ZoneFactor)
	if may.worst == NotExcluded {
		d.Reason = FailOpen
		for _, p := range copies {
			d.candidates[p].Listed = true
		}
		return
	}
	var best *Candidate
	for i, p := range copies {
		if near < 0 {
			p = copies[(uint64(i)+t.number)%uint64(len(copies))]
		}
		if c := &d.candidates[p]; may.fits(c) && (best == nil || c.cost < best.cost) {
			best = c
		}
	}
	best.Listed = true
	limit := best.cost + near
	for _, p := range copies {
		if c := &d.candidates[p]; may.fits(c) && c.cost <= limit {
			c.Listed = true
		}
	}
}

// gather turns listed candidates into the set, with the shard queries each may
// expect: the engine shuffles among the listed copies of a shard.
func (d *Decision) gather(req Request) {
	for _, c := range d.order {
		if c.Listed {
			d.Nodes, d.listed = append(d.Nodes, c.Node), append(d.listed, c)
		}
	}
	if req.Outline != nil && len(d.Nodes) == len(d.order) {
		for i, c := range d.order {
			c.ShardQueries, c.sole = req.Outline.Tasks[i], req.Outline.Sole[i]
		}
		return
	}
	for i, copies := range req.Shards {
		listed, weight := 0, req.weight(i)
		for _, p := range copies {
			if d.candidates[p].Listed {
				listed++
			}
		}
		for _, p := range copies {
			if c := &d.candidates[p]; c.Listed {
				c.ShardQueries += weight / float64(listed)
				c.sole = c.sole || listed == 1
			}
		}
	}
}
