package cluster

import (
	"cmp"
	"slices"
	"strings"
)

// placementBuilder gathers copies into indices. They may come in any order; as the
// engines list them, those of an index together, they need the least memory.
type placementBuilder struct {
	// known is what was placed before, nil if nothing: what is the same is taken from
	// there. A placement that was read again would else be there twice for a while.
	known   *table
	done    []Index
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
	copy   Copy
}

// newPlacementBuilder returns a builder; known is the placement at hand, if there is
// one.
func newPlacementBuilder(known *table) *placementBuilder {
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
		if p, ok := b.known.indices.Get(string(index)); ok {
			b.name = p.index.Name
			return
		}
	}
	b.name = string(index)
}

func (b *placementBuilder) add(number int, c Copy) {
	b.rows = append(b.rows, row{number, c})
}

// finish puts the index that came last among those that are done.
func (b *placementBuilder) finish() {
	if !b.open || len(b.rows) == 0 {
		return
	}
	b.open = false
	slices.SortStableFunc(b.rows, func(a, b row) int { return cmp.Compare(a.number, b.number) })
	index := Index{Name: b.name, Shards: b.shardsKnown()}
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
func (b *placementBuilder) shardsKnown() []Shard {
	if b.known == nil {
		return nil
	}
	p := b.known.get(b.name)
	if p == nil {
		return nil
	}
	rest := b.rows
	for _, shard := range p.index.Shards {
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
	return p.index.Shards
}

// shardsOf makes shards of copies that are sorted by number.
func shardsOf(index string, rows []row) []Shard {
	count := 0
	for i := range rows {
		if i == 0 || rows[i].number != rows[i-1].number {
			count++
		}
	}
	shards, copies := make([]Shard, 0, count), make([]Copy, len(rows))
	for i := 0; i < len(rows); {
		first := i
		for ; i < len(rows) && rows[i].number == rows[first].number; i++ {
			copies[i] = rows[i].copy
		}
		shards = append(shards, Shard{Index: index, Number: rows[first].number, Copies: copies[first:i:i]})
	}
	return shards
}

// indices returns what was added, sorted by name, the shards by number. It is never
// nil: a cluster without indices has a placement, too.
func (b *placementBuilder) indices() []Index {
	b.finish()
	if b.done == nil {
		return []Index{}
	}
	slices.SortFunc(b.done, func(a, b Index) int { return strings.Compare(a.Name, b.Name) })
	return b.done
}

// copyState returns the constants for the known states, so that the decoded
// strings can be freed.
func copyState(s string) CopyState {
	for _, known := range []CopyState{Started, Relocating, Initializing, Unassigned} {
		if string(known) == s {
			return known
		}
	}
	return CopyState(s)
}
