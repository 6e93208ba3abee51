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

// plans are what searches on a target get: on the whole of it, and with a routing that
// has not been learned.
type plans struct{ whole, unrouted resolution }

// plansFor returns the plans where that of the whole target is known. It covers what a
// routing stands for. With no plan for the whole, the one shard that this is may be fine
// all the same, so it has to be learned.
func plansFor(whole resolution) plans {
	unrouted := whole
	switch {
	case whole.miss == MissShardUnavailable:
		unrouted.miss = MissUnknownTarget
	case whole.plan != nil && len(whole.plan.Shards) > 1:
		wider := *whole.plan
		wider.Exact = false
		unrouted.plan = &wider
	}
	return plans{whole, unrouted}
}

// frame is what plans depend on besides the placement: where each node is in
// Snapshot.Nodes, and why which indices are left alone. Nodes coming and going make a
// new frame and leave the table as it is: plans are made again when next asked for.
type frame struct {
	id        *token
	positions map[string]int
	leftAlone map[string]Miss
}

func newFrame(nodes []*Node, leftAlone map[string]Miss) *frame {
	f := &frame{id: new(token), positions: make(map[string]int, len(nodes)), leftAlone: leftAlone}
	for i, n := range nodes {
		f.positions[n.ID] = i
	}
	return f
}

// compiledIndex is an index in the form that searches need.
type compiledIndex struct {
	frame   *token
	serving [][]int // by shard number: positions of the nodes whose copies serve
	// plans are those of searches on the index itself. One that is part of wide targets
	// needs none.
	plans atomic.Pointer[plans]
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

// plansIn returns the plans of the index in a snapshot, made when first asked for.
func (p *placedIndex) plansIn(s *Snapshot) *plans {
	c := p.in(s.frame)
	if made := c.plans.Load(); made != nil {
		return made
	}
	names := make([]ShardName, len(p.index.Shards))
	for number := range names {
		names[number] = ShardName{Index: p.index.Name, Number: number}
	}
	whole, _ := s.join(names)
	made := plansFor(whole)
	c.plans.Store(&made)
	return &made
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

// joined is a learned target in one table and frame.
type joined struct {
	table, frame *token
	plans
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
	j := &joined{table: s.table.id, frame: s.frame.id, version: math.MaxInt64}
	whole := resolution{miss: MissShardUnavailable} // it is not known which ones there are
	if !l.Incomplete {
		whole, j.version = s.join(l.Shards)
	}
	if j.believed = j.version >= s.trusted; !j.believed {
		whole = resolution{miss: MissUnknownTarget}
	}
	j.plans = plansFor(whole)
	l.joined.Store(j)
	return j
}

// join finds the serving copies of shards, which are in the order of their indices, and the earliest version at which one of
// these was seen. A gap in the numbers of an index means that a shard is not listed at all.
func (s *Snapshot) join(shards []ShardName) (r resolution, version int64) {
	version = math.MaxInt64
	if len(shards) == 0 {
		return resolution{miss: MissEmptyTarget}, version
	}
	plan := &Plan{Shards: make([][]int, len(shards)), Names: shards, Exact: true}
	var p *placedIndex
	for i, name := range shards {
		if p == nil || p.index.Name != name.Index {
			if p = s.table.get(name.Index); p == nil {
				return resolution{miss: MissShardUnavailable}, version
			}
			if miss := s.frame.leftAlone[name.Index]; miss != MissNone {
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
