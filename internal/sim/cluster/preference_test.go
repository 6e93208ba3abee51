package simcluster

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// testOrderer has one index with one shard: copies on a, b, c started, d
// initializing.
func testOrderer() orderer {
	copies := copiesOn("a", "b", "c", "d")
	copies[0].Kind = 'p'
	copies[3].State = initializing
	s := newState([]string{"a", "b", "c", "d", "e"}, false)
	s.Indices = s.Indices.Set("idx", &indexState{Spec: IndexSpec{Name: "idx"}, Shards: [][]shardCopy{copies}})
	return orderer{
		state: s, local: "b", rotate: func(shardRef) uint32 { return 0 },
		name: func(id string) string { return "node-" + strconv.Itoa(int(id[0]-'a')+1) },
	}
}

func TestPreferenceOrdersCopies(t *testing.T) {
	for preference, want := range map[string][]string{
		"":                          {"a", "b", "c", "d"},
		"_only_nodes:b":             {"b"},
		"_only_nodes:c,a":           {"a", "c"},
		"_only_nodes:d,c":           {"c", "d"},
		"_only_nodes:node-2":        {"b"},
		"_only_nodes:node-*":        {"a", "b", "c", "d"},
		"_only_nodes:_local":        {"b"},
		"_only_nodes:x,a":           {"a"},
		"_prefer_nodes:c":           {"c", "a", "b", "d"},
		"_prefer_nodes:d":           {"a", "b", "c", "d"},
		"_prefer_nodes:node-3":      {"a", "b", "c", "d"}, // ids only
		"_prefer_nodes:x":           {"a", "b", "c", "d"},
		"_local":                    {"b", "a", "c", "d"},
		"_only_local":               {"b"},
		"_shards:0|_prefer_nodes:b": {"b", "a", "c", "d"},
	} {
		t.Run(preference, func(t *testing.T) {
			got, err := testOrderer().order(shardRef{"idx", 0}, preference)
			require.Nil(t, err)
			require.Equal(t, want, nodesOf(got))
		})
	}
}

func TestPreferenceErrors(t *testing.T) {
	for preference, want := range map[string]string{
		"_only_nodes:e":   "no data nodes with criteria [e] found for shard: [idx][0]",
		"_only_nodes:e,x": "no data nodes with criterion [e,x] found for shard: [idx][0]",
		"_primary":        "no Preference for [_primary]",
	} {
		t.Run(preference, func(t *testing.T) {
			_, err := testOrderer().order(shardRef{"idx", 0}, preference)
			require.NotNil(t, err)
			require.Equal(t, 400, err.Status)
			require.Equal(t, "illegal_argument_exception", err.Type)
			require.Equal(t, want, err.Reason)
		})
	}
}

func TestCustomPreferenceIsSticky(t *testing.T) {
	o := testOrderer()
	turns := uint32(0)
	o.rotate = func(shardRef) uint32 { turns++; return turns }
	first := map[string]bool{}
	for _, user := range []string{"ann", "ben", "cat", "dan", "eve", "fay", "gus", "hal"} {
		a, err := o.order(shardRef{"idx", 0}, user)
		require.Nil(t, err)
		b, err := o.order(shardRef{"idx", 0}, user)
		require.Nil(t, err)
		require.Equal(t, a, b)
		first[a[0].Node] = true
	}
	require.Greater(t, len(first), 1, "strings spread over copies")
	require.Zero(t, turns)
}

func TestSearchReplicasServeAloneWithoutPreference(t *testing.T) {
	o := testOrderer()
	o.state.index("idx").Shards[0][2].Kind = 's'
	got, err := o.order(shardRef{"idx", 0}, "")
	require.Nil(t, err)
	require.Equal(t, []string{"c"}, nodesOf(got))
	got, err = o.order(shardRef{"idx", 0}, "_only_nodes:a")
	require.Nil(t, err)
	require.Equal(t, []string{"a"}, nodesOf(got))
}

func TestNodeListRotatesUnevenly(t *testing.T) {
	o := testOrderer()
	turns := uint32(0)
	o.rotate = func(shardRef) uint32 { turns++; return turns }
	first := map[string]int{}
	for range 300 {
		got, err := o.order(shardRef{"idx", 0}, "_only_nodes:a,b")
		require.Nil(t, err)
		first[got[0].Node]++
	}
	require.Equal(t, map[string]int{"a": 200, "b": 100}, first, "a inherits the turn of c, which is not listed")
}
