package poll

import (
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

func golden(t *testing.T, path ...string) *bytes.Reader {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, path...)...))
	require.NoError(t, err)
	return bytes.NewReader(content)
}

func TestParseInfo(t *testing.T) {
	t.Parallel()
	tests := map[string]cluster.Engine{
		"elasticsearch-7.17":         {Distribution: "elasticsearch", Version: "7.17.10", Major: 7, Minor: 17, BuildFlavor: "default"},
		"elasticsearch-8":            {Distribution: "elasticsearch", Version: "8.19.4", Major: 8, Minor: 19, BuildFlavor: "default"},
		"elasticsearch-9":            {Distribution: "elasticsearch", Version: "9.1.2", Major: 9, Minor: 1, BuildFlavor: "default"},
		"elasticsearch-9-snapshot":   {Distribution: "elasticsearch", Version: "9.2.0-SNAPSHOT", Major: 9, Minor: 2, BuildFlavor: "default"},
		"elasticsearch-serverless":   {Distribution: "elasticsearch", Version: "8.11.0", Major: 8, Minor: 11, BuildFlavor: "serverless"},
		"opensearch-2":               {Distribution: "opensearch", Version: "2.19.6", Major: 2, Minor: 19},
		"opensearch-3":               {Distribution: "opensearch", Version: "3.6.0", Major: 3, Minor: 6},
		"opensearch-2-compatibility": {Distribution: "opensearch", Version: "7.10.2", Major: 7, Minor: 10},
	}
	for name, want := range tests {
		found, err := parseInfo(golden(t, "info", name+".json"))
		require.NoError(t, err, name)
		require.Equal(t, want, found.Engine, name)
		require.Len(t, found.ClusterUUID, 22, name)
		require.Equal(t, name == "elasticsearch-serverless", found.Engine.Serverless())
	}
}

func TestParseInfoRefusesStrangers(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		`<html>`: "does not decode",
		``:       "does not decode",
		`{}`:     "neither Elasticsearch nor OpenSearch",
		`{"version":{"distribution":"opensearch","number":"next"}}`: `unreadable version "next"`,
	}
	for body, want := range tests {
		_, err := parseInfo(strings.NewReader(body))
		require.ErrorContains(t, err, want, body)
		require.Equal(t, StateNotAnEngine, stateOf(err), body)
	}
	for name, want := range map[string]string{"elasticsearch-6": "too old", "stranger": "neither Elasticsearch nor OpenSearch"} {
		_, err := parseInfo(golden(t, "info", name+".json"))
		require.ErrorContains(t, err, want)
	}
}

// listed reads the rows of _cat/shards.
func listed(t *testing.T, r io.Reader) []cluster.Index {
	t.Helper()
	var all []struct{ Index, Shard, Prirep, State, ID string }
	require.NoError(t, json.NewDecoder(r).Decode(&all))
	rows := map[string][]row{}
	for _, one := range all {
		number, err := strconv.Atoi(one.Shard)
		require.NoError(t, err)
		rows[one.Index] = append(rows[one.Index], row{number, cluster.Copy{Node: one.ID, Kind: one.Prirep[0], State: cluster.CopyState(one.State)}})
	}
	b := newPlacementBuilder(nil)
	for name := range rows {
		b.rows = rows[name]
		b.add(name)
	}
	return b.indices()
}

// What real engines answered, with two unassigned primaries and two unassigned
// replicas: it is what they list for people.
func TestPlacementOfRealEngines(t *testing.T) {
	t.Parallel()
	for engine, node := range map[string]string{"opensearch-3.6.0": "x-h-GsjMRiGiAfkq9F230w", "elasticsearch-8.19.4": "Ai04ZWRkTnmX18JgZy_LiQ"} {
		fromCat := listed(t, golden(t, engine, "cat_shards.json"))
		content, err := io.ReadAll(golden(t, engine, "routing_table.json"))
		require.NoError(t, err)
		state, err := parseRoutingTable(strings.NewReader(strings.Replace(string(content), "{", `{"version":7,`, 1)), newPlacementBuilder(nil))
		require.NoError(t, err)
		require.Equal(t, fromCat, state.Indices)
		require.Len(t, state.ClusterUUID, 22)
		require.Equal(t, int64(7), state.Version)
		missing := cluster.Copy{Kind: 'p', State: cluster.Unassigned}
		require.Equal(t, cluster.Index{Name: "stuck", Shards: []cluster.Shard{
			{Number: 0, Copies: []cluster.Copy{missing}}, {Number: 1, Copies: []cluster.Copy{missing}},
		}}, fromCat[3])
		require.Equal(t, []cluster.Copy{{Node: node, Kind: 'p', State: cluster.Started}, {Kind: 'r', State: cluster.Unassigned}}, fromCat[1].Shards[1].Copies)

		shards, incomplete, err := parseSearchShards(golden(t, engine, "search_shards.json"))
		require.NoError(t, err)
		require.True(t, incomplete)
		require.ElementsMatch(t, []cluster.ShardName{{Index: "logs-a", Number: 1}, {Index: "logs-b", Number: 0}}, shards)
	}
}

func TestStatsOfRealEngines(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"opensearch-3.6.0", "elasticsearch-8.19.4"} {
		var answer statsAnswer
		require.NoError(t, DecodeJSON(&answer)(golden(t, engine, "stats.json")))
		require.Len(t, answer.Nodes, 1)
		for id, raw := range answer.Nodes {
			require.Positive(t, raw.ThreadPool.Search.Completed)
			require.Positive(t, raw.ThreadPool.Search.Threads)
			require.Positive(t, raw.Indices.Search.Queries)
			require.Positive(t, raw.Indices.Search.QueryMillis)
			require.Positive(t, raw.Indices.Search.FetchMillis)
			require.Positive(t, raw.AdaptiveSelection[id].ResponseTime)
		}
	}
}

func TestParseRoutingTable(t *testing.T) {
	t.Parallel()
	shard := func(copies ...cluster.Copy) []cluster.Index {
		return []cluster.Index{{Name: "i", Shards: []cluster.Shard{{Copies: copies}}}}
	}
	for name, c := range map[string]struct {
		indices string
		want    []cluster.Index
	}{
		"no indices": {`{}`, []cluster.Index{}},
		"a relocating copy is at its source": {
			`{"i":{"shards":{"0":[{"state":"RELOCATING","primary":true,"node":"a","relocating_node":"b"}]}}}`,
			shard(cluster.Copy{Node: "a", Kind: 'p', State: cluster.Relocating}),
		},
		"null after a value is empty": {
			`{"i":{"shards":{"0":[{"state":"INITIALIZING","searchOnly":true,"node":"a"},{"state":"UNASSIGNED","primary":false,"node":null}]}}}`,
			shard(cluster.Copy{Node: "a", Kind: 's', State: cluster.Initializing}, cluster.Copy{Kind: 'r', State: cluster.Unassigned}),
		},
		"an index without shards": {`{"i":{"shards":{}}}`, []cluster.Index{}},
	} {
		state, err := parseRoutingTable(strings.NewReader(`{"version":3,"routing_table":{"indices":`+c.indices+`}}`), newPlacementBuilder(nil))
		require.NoError(t, err, name)
		require.Equal(t, c.want, state.Indices, name)
	}
}

func TestParseRoutingTableRefuses(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"cluster_uuid":"u","routing_table":{}}`: "no version",
		`{"nodes":{}}`: "no routing table",
		`{"routing_table":{"indices":{"i":{"shards":{"x":[]}}}}}`: "not a shard number",
		`[`:                 "where { was expected",
		`{"routing_table":`: "EOF",
		`{"routing_table":{"indices":{"i":{"shards":[]}}}}`: "index \"i\"",
	} {
		_, err := parseRoutingTable(strings.NewReader(body), newPlacementBuilder(nil))
		require.ErrorContains(t, err, want)
	}
}

func TestSearchShardsPath(t *testing.T) {
	t.Parallel()
	tests := map[cluster.Target]string{
		{Expression: "", Routing: ""}:                        "/_search_shards",
		{Expression: "a,-b*", Routing: "x y&z"}:              "/a,-b*/_search_shards",
		{Expression: "<logs-{now/d{yyyy|+1}}>", Routing: ""}: "/<logs-{now/d{yyyy|+1}}>/_search_shards",
		{Expression: "ä%2F?#", Routing: ""}:                  "/ä%2F?#/_search_shards",
	}
	for target, want := range tests {
		u, err := url.Parse("http://h/" + searchShardsPath(target))
		require.NoError(t, err)
		require.Equal(t, want, u.Path)
		require.Equal(t, target.Routing, u.Query().Get("routing"))
		require.Equal(t, target.Routing != "", u.Query().Has("routing"))
		require.Equal(t, "true", u.Query().Get("local"))
	}
}

// BenchmarkFirstTable reads a routing table and makes the first table of it.
func BenchmarkFirstTable(b *testing.B) {
	const shardsPerIndex = 5
	for _, shards := range []int{100, 5000, 50_000, 500_000} {
		f := &clustertest.Fake{}
		for i := range shards / shardsPerIndex {
			copies := make([][]string, shardsPerIndex)
			for s := range copies {
				copies[s] = []string{"node-" + strconv.Itoa((i+s)%50), "node-" + strconv.Itoa((i+s+1)%50)}
			}
			f.Indices = append(f.Indices, clustertest.Index("index-"+strconv.Itoa(i), copies...))
		}
		f.Version = 1
		answer, err := json.Marshal(f.RoutingTable(&clustertest.Node{}, ""))
		require.NoError(b, err)
		b.Run("shards="+strconv.Itoa(shards), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(answer)))
			for b.Loop() {
				state, err := parseRoutingTable(bytes.NewReader(answer), newPlacementBuilder(nil))
				if err != nil {
					b.Fatal(err)
				}
				cluster.NewSnapshot(cluster.Contents{Indices: state.Indices})
			}
		})
	}
}
