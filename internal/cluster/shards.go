package cluster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// maxShardNumber is far above what an engine allows an index to have (1024, with
// a system property more).
const maxShardNumber = 1 << 20

// catRow is one row of _cat/shards. All values are strings or null.
type catRow struct {
	Index  string `json:"index"`
	Shard  string `json:"shard"`
	Prirep string `json:"prirep"`
	State  string `json:"state"`
	ID     string `json:"id"`
	// node is asked for as well but not read: names are not unique, and for a
	// relocating copy it holds both nodes. The id is that of the source.
}

// parseCatShards reads the rows of _cat/shards?format=json row by row.
func parseCatShards(r io.Reader) ([]Index, error) {
	b := newPlacementBuilder()
	dec := json.NewDecoder(r)
	err := eachElement(dec, func() error { return b.decodeRow(dec) })
	if err != nil {
		return nil, fmt.Errorf("answer of _cat/shards: %w", err)
	}
	return b.indices(), nil
}

// parseListShards adds a page of _list/shards?format=json to b, row by row. next
// names the page that follows, empty if none does.
func parseListShards(r io.Reader, b *placementBuilder) (next string, err error) {
	dec := json.NewDecoder(r)
	rows := false
	err = eachField(dec, func(key string) error {
		switch key {
		case "next_token":
			return dec.Decode(&next) // null is none
		case "shards":
			rows = true
			return eachElement(dec, func() error { return b.decodeRow(dec) })
		}
		return skipValue(dec)
	})
	if err == nil && !rows {
		err = errors.New("it has no shards")
	}
	if err != nil {
		return "", fmt.Errorf("answer of _list/shards: %w", err)
	}
	return next, nil
}

// placementBuilder gathers copies in any order into indices.
type placementBuilder struct {
	shards  map[string]map[int]*Shard
	strings map[string]string
}

func newPlacementBuilder() *placementBuilder {
	return &placementBuilder{shards: map[string]map[int]*Shard{}, strings: map[string]string{}}
}

// intern keeps one string of each value: a node id occurs once per copy.
func (b *placementBuilder) intern(s string) string {
	if kept, ok := b.strings[s]; ok {
		return kept
	}
	b.strings[s] = s
	return s
}

func (b *placementBuilder) decodeRow(dec *json.Decoder) error {
	var row catRow
	if err := dec.Decode(&row); err != nil {
		return err
	}
	return b.addRow(row)
}

func (b *placementBuilder) addRow(row catRow) error {
	number, err := shardNumber(row.Shard)
	if err != nil {
		return fmt.Errorf("index %q: %w", row.Index, err)
	}
	if row.Index == "" {
		return errors.New("a row has no index")
	}
	if len(row.Prirep) != 1 {
		return fmt.Errorf("shard [%s][%d]: prirep is %q", row.Index, number, row.Prirep)
	}
	b.add(ShardName{Index: row.Index, Number: number}, Copy{Node: b.intern(row.ID), Kind: row.Prirep[0], State: copyState(row.State)})
	return nil
}

func (b *placementBuilder) add(name ShardName, c Copy) {
	shards, ok := b.shards[name.Index]
	if !ok {
		shards = map[int]*Shard{}
		b.shards[name.Index] = shards
	}
	shard, ok := shards[name.Number]
	if !ok {
		shard = &Shard{Index: b.intern(name.Index), Number: name.Number}
		shards[name.Number] = shard
	}
	shard.Copies = append(shard.Copies, c)
}

// indices returns what was added, sorted by name and number. It is never nil: a
// cluster without indices has a placement, too.
func (b *placementBuilder) indices() []Index {
	indices := make([]Index, 0, len(b.shards))
	for name, shards := range b.shards {
		index := Index{Name: b.intern(name), Shards: make([]Shard, 0, len(shards))}
		for _, shard := range shards {
			index.Shards = append(index.Shards, *shard)
		}
		slices.SortFunc(index.Shards, func(a, b Shard) int { return cmp.Compare(a.Number, b.Number) })
		indices = append(indices, index)
	}
	slices.SortFunc(indices, func(a, b Index) int { return cmp.Compare(a.Name, b.Name) })
	return indices
}

func shardNumber(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxShardNumber {
		return 0, fmt.Errorf("%q is not a shard number", s)
	}
	return n, nil
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
