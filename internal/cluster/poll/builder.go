package poll

import (
	"cmp"
	"slices"
	"strings"

	"sidestep/internal/cluster"
)

// placementBuilder gathers copies into indices. They may come in any order; as the
// engines list them, those of an index together, they need the least memory.
type placementBuilder struct {
	// known is what was placed before, nil if nothing: what is the same is taken from
	// there. A placement that was read again would else be there twice for a while.
	known   *cluster.Snapshot
	done    []cluster.Index
	at      map[string]int // in done
	strings map[string]string
	row     catRow

	// The index whose copies come now.
	open bool
	name string
	rows []row
}

// row is a copy of a shard.
type row struct {
	number int
	copy   cluster.Copy
}

// newPlacementBuilder returns a builder; known is the placement at hand, if there is
// one.
func newPlacementBuilder(known *cluster.Snapshot) *placementBuilder {
	return &placementBuilder{known: known, at: map[string]int{}, strings: map[string]string{}}
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

// begin says which index the next copies are of.
func (b *placementBuilder) begin(index []byte) {
	if b.open && b.name == string(index) {
		return
	}
	b.finish()
	b.open, b.name, b.rows = true, "", b.rows[:0]
	if at, ok := b.at[string(index)]; ok {
		b.name = b.done[at].Name
		for _, shard := range b.done[at].Shards {
			for _, c := range shard.Copies {
				b.rows = append(b.rows, row{shard.Number, c})
			}
		}
		return
	}
	if b.known != nil {
		if placed, ok := b.known.Lookup(string(index)); ok {
			b.name = placed.Name
			return
		}
	}
	b.name = string(index)
}

func (b *placementBuilder) add(number int, c cluster.Copy) {
	b.rows = append(b.rows, row{number, c})
}

// finish puts the index that came last among those that are done.
func (b *placementBuilder) finish() {
	if !b.open || len(b.rows) == 0 {
		return
	}
	b.open = false
	slices.SortStableFunc(b.rows, func(a, b row) int { return cmp.Compare(a.number, b.number) })
	index := cluster.Index{Name: b.name, Shards: b.shardsKnown()}
	if index.Shards == nil {
		index.Shards = shardsOf(b.name, b.rows)
	}
	if at, ok := b.at[b.name]; ok {
		b.done[at] = index
		return
	}
	b.at[b.name] = len(b.done)
	b.done = append(b.done, index)
}

// shardsKnown returns the shards of the index as they were known, nil if they are
// others now.
func (b *placementBuilder) shardsKnown() []cluster.Shard {
	if b.known == nil {
		return nil
	}
	placed, ok := b.known.Lookup(b.name)
	if !ok {
		return nil
	}
	rest := b.rows
	for _, shard := range placed.Shards {
		for _, c := range shard.Copies {
			if len(rest) == 0 || rest[0] != (row{shard.Number, c}) {
				return nil
			}
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		return nil
	}
	return placed.Shards
}

// shardsOf makes shards of copies that are sorted by number.
func shardsOf(index string, rows []row) []cluster.Shard {
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
		shards = append(shards, cluster.Shard{Index: index, Number: rows[first].number, Copies: copies[first:i:i]})
	}
	return shards
}

// indices returns what was added, sorted by name, the shards by number. It is never
// nil: a cluster without indices has a placement, too.
func (b *placementBuilder) indices() []cluster.Index {
	b.finish()
	if b.done == nil {
		return []cluster.Index{}
	}
	slices.SortFunc(b.done, func(a, b cluster.Index) int { return strings.Compare(a.Name, b.Name) })
	return b.done
}
