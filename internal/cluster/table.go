package cluster

import (
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
// stands for may be fine all the same, so it has to be learned.
func (r resolution) unrouted() resolution {
	switch {
	case r.miss == MissShardUnavailable:
		return resolution{miss: MissUnknownTarget}
	case r.plan == nil || len(r.plan.Shards) == 1:
		return r
	}
	return resolution{plan: &Plan{Shards: r.plan.Shards, Names: r.plan.Names}}
}

// table is a placement in the form that searches need.
type table struct {
	indices map[string]*placedIndex
}

type placedIndex struct {
	index       *Index
	unsupported bool
	serving     [][]int // by shard number: positions of the nodes whose copies serve
	whole       resolution
	unrouted    resolution
}

func newTable(indices []Index, positions map[string]int, unsupported map[string]bool) *table {
	t := &table{indices: make(map[string]*placedIndex, len(indices))}
	for i := range indices {
		index := &indices[i]
		p := &placedIndex{index: index, unsupported: unsupported[index.Name]}
		p.serving = servingNodes(index, positions)
		p.whole = p.plan()
		p.unrouted = p.whole.unrouted()
		t.indices[index.Name] = p
	}
	return t
}

// servingNodes lists, for each shard, the nodes whose copy serves searches. The
// engine searches only the search-only copies of an index that has some.
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

// plan returns the plan of a search on the whole index.
func (p *placedIndex) plan() resolution {
	if p.unsupported {
		return resolution{miss: MissUnsupported}
	}
	names := make([]ShardName, len(p.serving))
	for i, nodes := range p.serving {
		// A gap in the numbers means that a shard is not listed at all.
		if len(nodes) == 0 || p.index.Shards[i].Number != i {
			return resolution{miss: MissShardUnavailable}
		}
		names[i] = ShardName{Index: p.index.Name, Number: i}
	}
	if len(names) == 0 {
		return resolution{miss: MissEmptyTarget}
	}
	return resolution{plan: &Plan{Shards: p.serving, Names: names, Exact: true}}
}

// join finds the serving copies of shards that were learned.
func (t *table) join(l *lesson) resolution {
	if l.incomplete {
		return resolution{miss: MissShardUnavailable}
	}
	if len(l.shards) == 0 {
		return resolution{miss: MissEmptyTarget}
	}
	plan := &Plan{Shards: make([][]int, len(l.shards)), Names: l.shards, Exact: true}
	for i, name := range l.shards {
		p, ok := t.indices[name.Index]
		if ok && p.unsupported {
			return resolution{miss: MissUnsupported}
		}
		if !ok || name.Number >= len(p.serving) || p.index.Shards[name.Number].Number != name.Number || len(p.serving[name.Number]) == 0 {
			return resolution{miss: MissShardUnavailable}
		}
		plan.Shards[i] = p.serving[name.Number]
	}
	return resolution{plan: plan}
}

// target is a learned target in one snapshot. Plans are joined when first asked
// for: two readers may do it at once and get the same.
type target struct {
	lesson   *lesson
	whole    atomic.Pointer[resolution]
	unrouted atomic.Pointer[resolution]
}

func (t *target) resolve(in *table) *resolution {
	t.lesson.markUsed()
	if r := t.whole.Load(); r != nil {
		return r
	}
	r := in.join(t.lesson)
	t.whole.Store(&r)
	return &r
}

func (t *target) resolveUnrouted(in *table) *resolution {
	t.lesson.markUsed()
	if r := t.unrouted.Load(); r != nil {
		return r
	}
	r := t.resolve(in).unrouted()
	t.unrouted.Store(&r)
	return &r
}
