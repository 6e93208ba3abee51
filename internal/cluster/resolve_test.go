package cluster

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// variety is a snapshot of three nodes with indices in all kinds of states.
func variety() *Snapshot {
	split := indexOn("split", []string{"n1", "n2"}, []string{"n2", "n3"}, []string{"n3", "n1"})
	moving := indexOn("moving", []string{"n1"})
	moving.Shards[0].Copies[0].State = Relocating
	starting := indexOn("starting", []string{"n1", "n2"}, []string{"n2"})
	starting.Shards[0].Copies[1].State = Initializing
	red := indexOn("red", []string{"n1"}, []string{"n1"})
	red.Shards[1].Copies[0] = Copy{Kind: 'p', State: Unassigned}
	gap := indexOn("gap", []string{"n1"})
	gap.Shards[0].Number = 1
	searchOnly := indexOn("search-only", []string{"n1", "n2", "n3"})
	searchOnly.Shards[0].Copies[2].Kind = 's'
	searchOnlyDown := indexOn("search-only-down", []string{"n1", "n2"}, []string{"n1", "n3"})
	searchOnlyDown.Shards[0].Copies[1] = Copy{Kind: 's', State: Unassigned}
	searchOnlyDown.Shards[1].Copies[1].Kind = 's'
	return NewSnapshot(Contents{
		Nodes: []*Node{{ID: "n3"}, {ID: "n1"}, {ID: "n2"}},
		Indices: []Index{
			split, indexOn("one", []string{"n2"}), moving, starting, red, gap, searchOnly, searchOnlyDown,
			indexOn("frozen", []string{"n1"}), indexOn("elsewhere", []string{"n9"}), {Name: "hollow"},
		},
		LeftAlone: map[string]Miss{"frozen": MissUnsupported},
		Targets: map[Target][]ShardName{
			{"alias", ""}:      {{"split", 0}, {"split", 2}, {"one", 0}},
			{"alias", "r"}:     {{"split", 2}},
			{"split", "r"}:     {{"split", 1}},
			{"red", "fine"}:    {{"red", 0}},
			{"red", "bad"}:     {{"red", 1}},
			{"none*", ""}:      {},
			{"all-frozen", ""}: {{"one", 0}, {"frozen", 0}},
			{"gone", ""}:       {{"deleted", 0}},
			{"shrunk", ""}:     {{"one", 1}},
			{"gap*", ""}:       {{"gap", 0}},
		},
	})
}

func TestResolve(t *testing.T) {
	t.Parallel()
	s := variety()
	tests := []struct {
		target, routing string
		want            [][]string
		inexact         bool
		miss            Miss
	}{
		{target: "split", want: [][]string{{"n1", "n2"}, {"n2", "n3"}, {"n1", "n3"}}},
		{target: "split", routing: "new", want: [][]string{{"n1", "n2"}, {"n2", "n3"}, {"n1", "n3"}}, inexact: true},
		{target: "split", routing: "r", want: [][]string{{"n2", "n3"}}},
		{target: "one", routing: "new", want: [][]string{{"n2"}}},
		{target: "moving", want: [][]string{{"n1"}}},
		{target: "starting", want: [][]string{{"n1"}, {"n2"}}},
		{target: "red", miss: MissShardUnavailable},
		{target: "red", routing: "new", miss: MissUnknownTarget},
		{target: "red", routing: "fine", want: [][]string{{"n1"}}},
		{target: "red", routing: "bad", miss: MissShardUnavailable},
		{target: "gap", miss: MissShardUnavailable},
		{target: "gap*", miss: MissShardUnavailable},
		{target: "search-only", want: [][]string{{"n3"}}},
		{target: "search-only-down", miss: MissShardUnavailable},
		{target: "frozen", miss: MissUnsupported},
		{target: "frozen", routing: "r", miss: MissUnsupported},
		{target: "all-frozen", miss: MissUnsupported},
		{target: "elsewhere", miss: MissShardUnavailable},
		{target: "hollow", miss: MissEmptyTarget},
		{target: "alias", want: [][]string{{"n1", "n2"}, {"n1", "n3"}, {"n2"}}},
		{target: "alias", routing: "r", want: [][]string{{"n1", "n3"}}},
		{target: "alias", routing: "new", want: [][]string{{"n1", "n2"}, {"n1", "n3"}, {"n2"}}, inexact: true},
		{target: "none*", miss: MissEmptyTarget},
		{target: "none*", routing: "r", miss: MissEmptyTarget},
		{target: "gone", miss: MissShardUnavailable},
		{target: "shrunk", miss: MissShardUnavailable},
		{target: "split,one", miss: MissUnknownTarget},
		{target: "", miss: MissUnknownTarget},
		{target: "", routing: "r", miss: MissUnknownTarget},
	}
	for range 2 { // the second time from the plans that were kept
		for _, tt := range tests {
			plan, miss := s.Resolve(tt.target, tt.routing)
			require.Equal(t, tt.miss, miss, tt)
			require.Equal(t, tt.want, servingIDs(s, tt.target, tt.routing), tt)
			if plan != nil {
				require.Equal(t, !tt.inexact, plan.Exact, tt)
				require.Len(t, plan.Names, len(plan.Shards))
			}
		}
	}
}

func TestResolveWithoutPlacement(t *testing.T) {
	t.Parallel()
	_, miss := NewSnapshot(Contents{}).Resolve("i", "")
	require.Equal(t, MissNoPlacement, miss)
	_, miss = NewSnapshot(Contents{Engine: Engine{BuildFlavor: "serverless"}}).Resolve("i", "")
	require.Equal(t, MissUnsupported, miss)
	_, ok := NewSnapshot(Contents{}).Lookup("i")
	require.False(t, ok)
}

func TestLookupAndPosition(t *testing.T) {
	t.Parallel()
	s := NewSnapshot(Contents{Nodes: []*Node{{ID: "b"}, {ID: "a"}}, Indices: []Index{indexOn("i", []string{"a"})}})
	at, ok := s.Position("b")
	require.True(t, ok)
	require.Equal(t, "b", s.Nodes[at].ID)
	_, ok = s.Position("c")
	require.False(t, ok)
	found, ok := s.Lookup("i")
	require.True(t, ok)
	require.Equal(t, "a", found.Shards[0].Copies[0].Node)
	_, ok = s.Lookup("j")
	require.False(t, ok)
}

// bigContents has indices with two copies of each shard on 50 nodes, and a target
// that stands for them all.
func bigContents(indices, shards int) Contents {
	const nodes = 50
	c := Contents{Targets: map[Target][]ShardName{}}
	for i := range nodes {
		c.Nodes = append(c.Nodes, &Node{ID: "node-with-an-id-of-" + strconv.Itoa(100+i)})
	}
	var all []ShardName
	for i := range indices {
		copies := make([][]string, shards)
		name := "index-" + strconv.Itoa(i)
		for n := range shards {
			copies[n] = []string{c.Nodes[(i+n)%nodes].ID, c.Nodes[(i+n+7)%nodes].ID}
			all = append(all, ShardName{name, n})
		}
		c.Indices = append(c.Indices, indexOn(name, copies...))
	}
	c.Targets[Target{Expression: "index-*"}] = all
	return c
}
