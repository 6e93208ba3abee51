package cluster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/es"
)

// served is a snapshot of nodes a, b and c: c has copies of a hidden index alone.
func served() *Snapshot {
	shard := func(number int, copies ...Copy) Shard {
		return Shard{Number: number, Copies: copies}
	}
	on := func(node string, state CopyState) Copy { return Copy{Node: node, Kind: 'p', State: state} }
	return NewSnapshot(Contents{
		Nodes: []*Node{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}},
		Indices: []Index{
			{Name: "idx", Shards: []Shard{shard(0, on("a", Started), on("b", Initializing)), shard(1, on("b", Relocating))}},
			{Name: "gap", Shards: []Shard{shard(1, on("a", Started))}},
			{Name: "frozen", Shards: []Shard{shard(0, on("d", Started))}},
			{Name: ".ds-logs-1", Shards: []Shard{shard(0, on("b", Started))}},
			{Name: ".tasks", Shards: []Shard{shard(0, on("b", Started), on("c", Started))}},
		},
		LeftAlone: map[string]Miss{"frozen": MissUnsupported},
	})
}

func TestServes(t *testing.T) {
	s := served()
	for shard, nodes := range map[ShardName][]bool{
		{"idx", 0}:     {true, false, false, false},
		{"idx", 1}:     {false, true, false, false},
		{"idx", 2}:     {false, false, false, false},
		{"gap", 0}:     {false, false, false, false},
		{"frozen", 0}:  {false, false, false, false},
		{".tasks", 0}:  {false, true, true, false},
		{"nowhere", 0}: {false, false, false, false},
	} {
		for node, want := range nodes {
			require.Equal(t, want, s.Serves(node, shard), "%v on node %d", shard, node)
		}
	}
	require.False(t, NewSnapshot(Contents{Nodes: []*Node{{ID: "a"}}}).Serves(0, ShardName{"idx", 0}), "no placement")
}

func TestAnyServedPrefersWhatClientsSearch(t *testing.T) {
	s := served()
	for range 50 { // it begins anywhere
		got, ok := s.AnyServed(0)
		require.True(t, ok)
		require.Contains(t, []ShardName{{"idx", 0}, {"gap", 1}}, got)
		got, ok = s.AnyServed(1)
		require.True(t, ok)
		require.Contains(t, []ShardName{{"idx", 1}, {".ds-logs-1", 0}}, got)
		got, ok = s.AnyServed(2)
		require.True(t, ok)
		require.Equal(t, ShardName{".tasks", 0}, got)
	}
	_, ok := s.AnyServed(3)
	require.False(t, ok, "only an index that is left alone")
	_, ok = NewSnapshot(Contents{Nodes: []*Node{{ID: "a"}}}).AnyServed(0)
	require.False(t, ok, "no placement")
}

// One of some indices of a node is drawn, whatever other nodes hold.
func TestAnyServedIsNotAlwaysTheSame(t *testing.T) {
	t.Parallel()
	var indices []Index
	for i := range 200 {
		indices = append(indices, indexOn(fmt.Sprintf("i%d", i), []string{[]string{"a", "b"}[min(i%20, 1)]}))
	}
	s := NewSnapshot(Contents{Nodes: []*Node{{ID: "a"}, {ID: "b"}}, Indices: indices})
	seen := map[ShardName]bool{}
	for range 5000 { // the first one in the table's order is drawn rarely
		shard, ok := s.AnyServed(0)
		require.True(t, ok)
		require.True(t, s.Serves(0, shard))
		seen[shard] = true
	}
	require.Len(t, seen, 10, "all that it has")
}

func TestDocumentsOfClosedIndices(t *testing.T) {
	t.Parallel()
	s := NewSnapshot(Contents{
		Nodes: []*Node{{ID: "n1"}}, Indices: []Index{indexOn("shut", []string{"n1"})}, LeftAlone: map[string]Miss{"shut": MissClosed},
		Layouts: map[string]Layout{"shut": {Index: "shut", Routing: es.Routing{Shards: 1, RoutingShards: 1, PartitionSize: 1}}},
	})
	_, miss := s.Locate([]es.Document{{Index: "shut", ID: "1"}})
	require.Equal(t, MissClosed, miss)
}
