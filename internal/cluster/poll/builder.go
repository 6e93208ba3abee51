package poll

import (
	"cmp"
	"slices"
	"strings"

	"sidestep/internal/cluster"
)

// placementBuilder gathers indices.
type placementBuilder struct {
	// known is what was placed before, nil if nothing: what is the same is taken from
	// there. A placement that was read again would else be there twice for a while.
	known   *cluster.Snapshot
	done    []cluster.Index
	strings map[string]string
	rows    []row // of the index that comes now
}

// row is a copy of a shard.
type row struct {
	number int
	copy   cluster.Copy
}

// newPlacementBuilder returns a builder; known is the placement at hand, if there is
// one.
func newPlacementBuilder(known *cluster.Snapshot) *placementBuilder {
	return &placementBuilder{known: known, strings: map[string]string{}}
}

// intern keeps one string of each value: a node id occurs once per copy.
func (b *placementBuilder) intern(s []byte) string {
	if kept, ok := b.strings[string(s)]; ok {
		return kept
	}
	kept := string(s)
	b.strings[kept] = kept
	return kept
}

// add adds an index with the copies in rows, which may be of its shards in any order. One without copies is left out.
func (b *placementBuilder) add(name string) {
	if len(b.rows) == 0 {
		return
	}
	slices.SortStableFunc(b.rows, func(a, b row) int { return cmp.Compare(a.number, b.number) })
	if b.known != nil {
		if placed, ok := b.known.Lookup(name); ok && b.placedAs(placed) {
			b.done = append(b.done, cluster.Index{Name: placed.Name, Shards: placed.Shards})
			return
		}
	}
	b.done = append(b.done, cluster.Index{Name: name, Shards: shardsOf(b.rows)})
}

// placedAs reports whether the rows are the copies of an index that is known.
func (b *placementBuilder) placedAs(placed *cluster.Index) bool {
	rest := b.rows
	for _, shard := range placed.Shards {
		for _, c := range shard.Copies {
			if len(rest) == 0 || rest[0] != (row{shard.Number, c}) {
				return false
			}
			rest = rest[1:]
		}
	}
	return len(rest) == 0
}

// shardsOf makes shards of copies that are sorted by number.
func shardsOf(rows []row) []cluster.Shard {
	count := 0
	for i := range rows {
		if i == 0 || rows[i].number != rows[i-1].number {
			count++
		}
	}
	shards, copies := make([]cluster.Shard, 0, count), make([]cluster.Copy, len(rows))
	for i := 0; i < len(rows); {
		first := i
		for ; i < len(rows) && rows[i].number == rows[first].number; i++ {
			copies[i] = rows[i].copy
		}
		shards = append(shards, cluster.Shard{Number: rows[first].number, Copies: copies[first:i:i]})
	}
	return shards
}

// indices returns what was added, sorted by name, the shards by number. It is never
// nil: a cluster without indices has a placement, too.
func (b *placementBuilder) indices() []cluster.Index {
	if b.done == nil {
		return []cluster.Index{}
	}
	slices.SortFunc(b.done, func(a, b cluster.Index) int { return strings.Compare(a.Name, b.Name) })
	return b.done
}
