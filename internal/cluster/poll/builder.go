package poll

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"sidestep/internal/cluster"
)

// placementBuilder gathers the indices of a routing table.
type placementBuilder struct {
	// known is what was placed before, nil if nothing: what is the same is taken from
	// there. A placement that was read again would else be there twice for a while.
	known   *cluster.Snapshot
	done    []cluster.Index
	strings map[string]string
	read    tableCopy // each copy is read into the memory of the one before
	rows    []row     // of the index that is read
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

// decodeCopy adds a copy of a shard of the index that is read.
func (b *placementBuilder) decodeCopy(dec *json.Decoder, number int) error {
	c := &b.read
	*c = tableCopy{State: c.State[:0], Node: c.Node[:0]}
	if err := dec.Decode(c); err != nil {
		return err
	}
	b.rows = append(b.rows, row{number, cluster.Copy{Node: b.intern(c.Node), Kind: c.kind(), State: cluster.ParseCopyState(b.intern(c.State))}})
	return nil
}

// finish puts the index that was read among those that are done, if it has copies.
func (b *placementBuilder) finish(name string) {
	if len(b.rows) == 0 {
		return
	}
	slices.SortStableFunc(b.rows, func(a, b row) int { return cmp.Compare(a.number, b.number) })
	index := b.indexKnown(name)
	if index.Shards == nil {
		index.Shards = shardsOf(index.Name, b.rows)
	}
	b.done, b.rows = append(b.done, index), b.rows[:0]
}

// indexKnown returns the index as it was known, without shards if they are others now.
func (b *placementBuilder) indexKnown(name string) cluster.Index {
	if b.known == nil {
		return cluster.Index{Name: name}
	}
	placed, ok := b.known.Lookup(name)
	if !ok {
		return cluster.Index{Name: name}
	}
	rest := b.rows
	for _, shard := range placed.Shards {
		for _, c := range shard.Copies {
			if len(rest) == 0 || rest[0] != (row{shard.Number, c}) {
				return cluster.Index{Name: placed.Name}
			}
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		return cluster.Index{Name: placed.Name}
	}
	return cluster.Index{Name: placed.Name, Shards: placed.Shards}
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

// indices returns what was read, sorted by name, the shards by number. It is never
// nil: a cluster without indices has a placement, too.
func (b *placementBuilder) indices() []cluster.Index {
	if b.done == nil {
		return []cluster.Index{}
	}
	slices.SortFunc(b.done, func(a, b cluster.Index) int { return strings.Compare(a.Name, b.Name) })
	return b.done
}
