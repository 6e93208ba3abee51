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
	dec := json.NewDecoder(r)
	if err := expectDelim(dec, '['); err != nil {
		return nil, err
	}
	b := newPlacementBuilder()
	for dec.More() {
		var row catRow
		if err := dec.Decode(&row); err != nil {
			return nil, fmt.Errorf("row of _cat/shards: %w", err)
		}
		if err := b.addRow(row); err != nil {
			return nil, err
		}
	}
	if err := expectDelim(dec, ']'); err != nil {
		return nil, err
	}
	return b.indices(), nil
}

func expectDelim(dec *json.Decoder, want json.Delim) error {
	token, err := dec.Token()
	if err != nil {
		return fmt.Errorf("answer of _cat/shards: %w", err)
	}
	if token != want {
		return fmt.Errorf("answer of _cat/shards: found %v where %v was expected", token, want)
	}
	return nil
}

// routedCopy is one copy in the routing table of the cluster state and in the
// answer of _search_shards.
type routedCopy struct {
	State      string `json:"state"`
	Primary    bool   `json:"primary"`
	SearchOnly bool   `json:"searchOnly"`
	Node       string `json:"node"`
	Shard      int    `json:"shard"`
	Index      string `json:"index"`
}

func (c routedCopy) kind() byte {
	switch {
	case c.Primary:
		return 'p'
	case c.SearchOnly:
		return 's'
	}
	return 'r'
}

// routingState is _cluster/state/routing_table,nodes.
type routingState struct {
	ClusterUUID  string               `json:"cluster_uuid"`
	Nodes        map[string]stateNode `json:"nodes"`
	RoutingTable struct {
		Indices map[string]struct {
			Shards map[string][]routedCopy `json:"shards"`
		} `json:"indices"`
	} `json:"routing_table"`
}

func parseRoutingTable(r io.Reader) (*routingState, []Index, error) {
	var state routingState
	if err := json.NewDecoder(r).Decode(&state); err != nil {
		return nil, nil, fmt.Errorf("answer of _cluster/state/routing_table: %w", err)
	}
	if state.RoutingTable.Indices == nil {
		return nil, nil, errors.New("answer of _cluster/state/routing_table has no routing table")
	}
	b := newPlacementBuilder()
	for index, shards := range state.RoutingTable.Indices {
		for number, copies := range shards.Shards {
			n, err := shardNumber(number)
			if err != nil {
				return nil, nil, fmt.Errorf("index %q in the routing table: %w", index, err)
			}
			for _, c := range copies {
				b.add(ShardName{Index: index, Number: n}, Copy{Node: b.intern(c.Node), Kind: c.kind(), State: copyState(c.State)})
			}
		}
	}
	return &state, b.indices(), nil
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

func (b *placementBuilder) addRow(row catRow) error {
	number, err := shardNumber(row.Shard)
	if err != nil {
		return fmt.Errorf("index %q in _cat/shards: %w", row.Index, err)
	}
	if row.Index == "" {
		return errors.New("a row of _cat/shards has no index")
	}
	if len(row.Prirep) != 1 {
		return fmt.Errorf("shard [%s][%d] in _cat/shards: prirep is %q", row.Index, number, row.Prirep)
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
