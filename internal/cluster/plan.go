package cluster

import (
	"math"
	"slices"
	"sync/atomic"
)

// resolution is a plan, or why there is none.
type resolution struct {
	plan *Plan
	miss Miss
}

// unrouted is what a search with a routing that has not been learned gets: the
// plan of the whole target. With no plan for the whole, the one shard the routing
// stands for may be fine all the same, so it has to be learned. Its plan is into.
func (r resolution) unrouted(into *Plan) resolution {
	switch {
	case r.miss == MissShardUnavailable:
		return resolution{miss: MissUnknownTarget}
	case r.plan == nil || len(r.plan.Shards) == 1:
		return r
	}
	*into = *r.plan
	into.Exact = false
	return resolution{plan: into}
}

// frame is what plans depend on besides the placement: where each node is in
// Snapshot.Nodes, and which indices are left alone. Nodes coming and going make a
// new frame and leave the table as it is: plans are made again when next asked for.
type frame struct {
	id          *token
	positions   map[string]int
	unsupported map[string]bool
}

func newFrame(nodes []*Node, unsupported map[string]bool) *frame {
	f := &frame{id: new(token), positions: make(map[string]int, len(nodes)), unsupported: unsupported}
	for i, n := range nodes {
		f.positions[n.ID] = i
	}
	return f
}

// compiledIndex is an index in the form that searches need.
type compiledIndex struct {
	frame   *token
	serving [][]int // by shard number: positions of the nodes whose copies serve
	plans   atomic.Pointer[indexPlans]
}

// indexPlans are the plans of searches on an index itself. Those that are part of
// wide targets need none.
type indexPlans struct {
	whole, unrouted resolution
	plans           [2]Plan // of the resolutions: one allocation less each
}

// in returns the index as it is in a frame. It is compiled when first asked for: two
// readers may do it at once and get the same.
func (p *placedIndex) in(f *frame) *compiledIndex {
	if c := p.compiled.Load(); c != nil && c.frame == f.id {
		return c
	}
	c := &compiledIndex{frame: f.id, serving: servingNodes(&p.index, f.positions)}
	p.compiled.Store(c)
	return c
}

// plansIn returns the plans of the index in a frame, made when first asked for.
func (p *placedIndex) plansIn(f *frame) *indexPlans {
	c := p.in(f)
	if made := c.plans.Load(); made != nil {
		return made
	}
	made := &indexPlans{}
	made.whole = p.plan(c.serving, f, &made.plans[0])
	made.unrouted = made.whole.unrouted(&made.plans[1])
	c.plans.Store(made)
	return made
}

// serves returns the positions of the nodes whose copy of a shard serves, nil if
// there is none.
func (p *placedIndex) serves(number int, f *frame) []int {
	serving := p.in(f).serving
	if number >= len(serving) || p.index.Shards[number].Number != number {
		return nil
	}
	return serving[number]
}

// servingNodes lists, for each shard, the nodes with a copy that serves searches. The engine
// searches only the search-only copies of an index that has some.
func servingNodes(index *Index, positions map[string]int) [][]int {
	copies, searchOnly := 0, false
	for _, shard := range index.Shards {
		copies += len(shard.Copies)
		for _, c := range shard.Copies {
			searchOnly = searchOnly || c.Kind == 's'
		}
	}
	serving := make([][]int, len(index.Shards))
	all := make([]int, 0, copies)
	for i, shard := range index.Shards {
		first := len(all)
		for _, c := range shard.Copies {
			if !c.Serving() || searchOnly && c.Kind != 's' {
				continue
			}
			if at, known := positions[c.Node]; known {
				all = append(all, at)
			}
		}
		serving[i] = all[first:len(all):len(all)]
		slices.Sort(serving[i])
	}
	return serving
}

// forbids returns why the index as a whole is left alone, or [MissNone].
func (p *placedIndex) forbids(f *frame) Miss {
	switch {
	case p.index.Closed:
		return MissClosed
	case f.unsupported[p.index.Name]:
		return MissUnsupported
	}
	return MissNone
}

// plan returns the plan of a search on the whole index, which is into.
func (p *placedIndex) plan(serving [][]int, f *frame, into *Plan) resolution {
	if miss := p.forbids(f); miss != MissNone {
		return resolution{miss: miss}
	}
	names := make([]ShardName, len(serving))
	for i, nodes := range serving {
		// A gap in the numbers means that a shard is not listed at all.
		if len(nodes) == 0 || p.index.Shards[i].Number != i {
			return resolution{miss: MissShardUnavailable}
		}
		names[i] = ShardName{Index: p.index.Name, Number: i}
	}
	if len(names) == 0 {
		return resolution{miss: MissEmptyTarget}
	}
	*into = Plan{Shards: serving, Names: names, Exact: true}
	return resolution{plan: into}
}

// joined is a learned target in one table and frame.
type joined struct {
	table, frame    *token
	whole, unrouted resolution
	// version is the earliest of the cluster state at which one of its indices was last seen to be placed as it is here,
	// believed whether that is new enough.
	version  int64
	believed bool
}

// joinedIn returns the learned target as it is in a snapshot. It is joined when
// first asked for: two readers may do it at once and get the same.
func (l *target) joinedIn(s *Snapshot) *joined {
	if j := l.joined.Load(); j != nil && j.table == s.table.id && j.frame == s.frame.id && j.believed == (j.version >= s.trusted) {
		return j
	}
	j := &joined{table: s.table.id, frame: s.frame.id}
	j.whole, j.version = s.join(l)
	if j.believed = j.version >= s.trusted; !j.believed {
		j.whole = resolution{miss: MissUnknownTarget}
	}
	j.unrouted = j.whole.unrouted(new(Plan))
	l.joined.Store(j)
	return j
}

// join finds the serving copies of shards that were learned.
func (s *Snapshot) join(l *target) (r resolution, version int64) {
	version = math.MaxInt64
	if l.Incomplete {
		return resolution{miss: MissShardUnavailable}, version
	}
	if len(l.Shards) == 0 {
		return resolution{miss: MissEmptyTarget}, version
	}
	plan := &Plan{Shards: make([][]int, len(l.Shards)), Names: l.Shards, Exact: true}
	var p *placedIndex
	for i, name := range l.Shards {
		if p == nil || p.index.Name != name.Index {
			if p = s.table.get(name.Index); p == nil {
				return resolution{miss: MissShardUnavailable}, version
			}
			if miss := p.forbids(s.frame); miss != MissNone {
				return resolution{miss: miss}, version
			}
			version = min(version, p.version.Load())
		}
		if plan.Shards[i] = p.serves(name.Number, s.frame); len(plan.Shards[i]) == 0 {
			return resolution{miss: MissShardUnavailable}, version
		}
	}
	plan.joinSets()
	return resolution{plan: plan}, version
}
