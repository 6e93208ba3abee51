package cluster

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/benbjohnson/immutable"
)

// table is where the copies of all shards are, by index. It is never changed: a
// change makes a new table, which shares with the one before all that is the same, so
// that it costs what changed and not what there is.
type table struct {
	id      *token // changes with the table, and outlives it
	indices *immutable.Map[string, *placedIndex]
	shards  int
	copies  map[CopyState]int // by state
}

// token is an identity that can be kept without keeping what it stands for.
type token struct{ _ byte }

// hashed hashes keys for immutable.Map. Names come from clients: without a seed
// they could be made to collide.
type hashed[K comparable] struct{ seed maphash.Seed }

func newHasher[K comparable]() hashed[K] { return hashed[K]{maphash.MakeSeed()} }

// Hash implements immutable.Hasher.
func (h hashed[K]) Hash(key K) uint32 { return uint32(maphash.Comparable(h.seed, key)) } //nolint:gosec // half of a hash is one

// Equal implements immutable.Hasher.
func (hashed[K]) Equal(a, b K) bool { return a == b }

// placedIndex is an index in a table.
type placedIndex struct {
	index Index
	use   *indexUse // kept while the placement of the index changes
	// version is the latest of the cluster state at which the index was seen to be
	// placed like this.
	version  atomic.Int64
	compiled atomic.Pointer[compiledIndex]
}

func newPlacedIndex(index Index, version int64, before *placedIndex) *placedIndex {
	p := &placedIndex{index: index}
	p.version.Store(version)
	if before != nil {
		p.use = before.use
	} else {
		p.use = &indexUse{index: index.Name}
	}
	return p
}

// PlacedAs reports whether the copies of two indices are in the same places and states.
func (i *Index) PlacedAs(o *Index) bool {
	return slices.EqualFunc(i.Shards, o.Shards, func(a, b Shard) bool {
		return a.Number == b.Number && slices.Equal(a.Copies, b.Copies)
	})
}

// newTable makes a table of indices that were seen at this version.
func newTable(indices []Index, version int64) *table {
	t := table{id: new(token), copies: map[CopyState]int{}}
	byName := immutable.NewMapBuilder[string, *placedIndex](newHasher[string]())
	for _, index := range indices {
		p := newPlacedIndex(index, version, nil)
		byName.Set(index.Name, p)
		t.count(p, 1)
	}
	t.indices = byName.Map()
	return &t
}

// get returns an index, nil if it is not there, or there is no table.
func (t *table) get(index string) *placedIndex {
	if t == nil {
		return nil
	}
	p, _ := t.indices.Get(index)
	return p
}

// edited returns a copy that may be changed by set and remove until it is published,
// which it has to be.
func (t *table) edited() *table {
	next := *t
	next.id, next.copies = new(token), maps.Clone(t.copies)
	return &next
}

// set places an index, in place of what it was before (nil: it is new).
func (t *table) set(p, before *placedIndex) {
	t.indices = t.indices.Set(p.index.Name, p)
	t.count(before, -1)
	t.count(p, 1)
}

func (t *table) remove(p *placedIndex) {
	t.indices = t.indices.Delete(p.index.Name)
	t.count(p, -1)
}

// count adds the shards and copies of an index, or takes them away.
func (t *table) count(p *placedIndex, sign int) {
	if p == nil {
		return
	}
	t.shards += sign * len(p.index.Shards)
	for _, shard := range p.index.Shards {
		for _, c := range shard.Copies {
			t.copies[c.State] += sign
		}
	}
}

// each visits all indices until visit returns false: none if there is no table.
func (t *table) each(visit func(*placedIndex) bool) {
	if t == nil {
		return
	}
	for all := t.indices.Iterator(); !all.Done(); {
		if _, p, _ := all.Next(); !visit(p) {
			return
		}
	}
}
