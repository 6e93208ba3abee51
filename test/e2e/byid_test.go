package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/es"
	"sidestep/internal/selection"
	"sidestep/test/harness"
)

// layouts are indices whose documents are spread in every way there is.
func layouts(t *testing.T) []string {
	t.Helper()
	settings := map[string]object{
		"spread-one":   {"number_of_shards": 1},
		"spread-odd":   {"number_of_shards": 7},
		"spread-wide":  {"number_of_shards": 3, "number_of_routing_shards": 12},
		"spread-split": {"number_of_shards": 3, "number_of_routing_shards": 6, "routing_partition_size": 2},
		"spread-thick": {"number_of_shards": 4, "routing_partition_size": 3},
		"spread-tight": {"number_of_shards": 8, "number_of_replicas": 0, "routing.allocation.require._name": shared.Cluster.Nodes[0].Name},
	}
	names := []string{"spread-six", "spread-cut"}
	for name, s := range settings {
		mappings := object{}
		if s["routing_partition_size"] != nil {
			mappings["_routing"] = object{"required": true}
		}
		change(t, http.MethodPut, "/"+name, object{"settings": object{"index": s}, "mappings": mappings})
		names = append(names, name)
	}
	require.NoError(t, shared.Cluster.WaitGreen(t.Context(), "spread-*"))
	change(t, http.MethodPut, "/spread-wide,spread-tight/_settings", object{"index.blocks.write": true})
	change(t, http.MethodPost, "/spread-wide/_split/spread-six", object{"settings": object{"index.number_of_shards": 6}})
	change(t, http.MethodPost, "/spread-tight/_shrink/spread-cut", object{"settings": object{
		"index.number_of_shards": 2, "index.routing.allocation.require._name": nil,
	}})
	require.NoError(t, shared.Cluster.WaitGreen(t.Context(), "spread-*"))
	t.Cleanup(func() { change(t, http.MethodDelete, "/"+strings.Join(names, ","), nil) })
	return names
}

// layout reads what the cluster state says of an index.
func layout(t *testing.T, index string) es.Routing {
	t.Helper()
	var state struct {
		Metadata struct {
			Indices map[string]struct {
				RoutingShards int `json:"routing_num_shards"`
				Settings      struct {
					Index struct {
						Shards    string `json:"number_of_shards"`
						Partition string `json:"routing_partition_size"`
					} `json:"index"`
				} `json:"settings"`
			} `json:"indices"`
		} `json:"metadata"`
	}
	require.NoError(t, shared.Cluster.Do(t.Context(), http.MethodGet, "/_cluster/state/metadata/"+index, nil, &state))
	meta, r := state.Metadata.Indices[index], es.Routing{PartitionSize: 1}
	r.RoutingShards = meta.RoutingShards
	var err error
	r.Shards, err = strconv.Atoi(meta.Settings.Index.Shards)
	require.NoError(t, err)
	if partition := meta.Settings.Index.Partition; partition != "" {
		r.PartitionSize, err = strconv.Atoi(partition)
		require.NoError(t, err)
	}
	require.True(t, r.Valid(), "%s: %+v", index, r)
	return r
}

// text draws a string of any script, sometimes beyond the first plane.
func text(random *rand.Rand) string {
	runes := []rune{}
	for range 1 + random.IntN(20) {
		from, to := 'a', 'z'
		switch random.IntN(5) {
		case 0:
			from, to = 0xC0, 0x24F
		case 1:
			from, to = 0x4E00, 0x9FFF
		case 2:
			from, to = 0x1F300, 0x1F6FF
		}
		runes = append(runes, from+random.Int32N(to-from))
	}
	return string(runes)
}

var shardNamed = regexp.MustCompile(`found for shard: \[[^]]*\]\[(\d+)\]`)

// engineShard asks the engine which shard a read goes to: it says so of one that no
// node may serve.
func engineShard(t *testing.T, index, id, routing string) int {
	t.Helper()
	query := "preference=_only_nodes:nobody"
	if routing != "" {
		query += "&routing=" + url.QueryEscape(routing)
	}
	got := directly(t, search{path: "/" + index + "/_doc/" + url.PathEscape(id), query: query})
	named := shardNamed.FindSubmatch(got.body)
	require.NotNil(t, named, "%s", got.body)
	n, err := strconv.Atoi(string(named[1]))
	require.NoError(t, err)
	return n
}

// The shard computed is the one that the engine computes.
func TestShardsAreTheEngines(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 2026))
	for _, index := range layouts(t) {
		t.Run(index, func(t *testing.T) {
			r := layout(t, index)
			t.Logf("%+v", r)
			seen := map[int]bool{}
			for i := range 100 {
				id, routing := text(random), text(random)
				if i%2 == 0 && r.PartitionSize == 1 {
					routing = ""
				}
				shard := r.Shard(id, routing)
				require.Equal(t, engineShard(t, index, id, routing), shard, "id %q, routing %q", id, routing)
				seen[shard] = true
				if routing == "" {
					routing = id
				}
				var searched struct {
					Shards [][]struct{ Shard int } `json:"shards"`
				}
				path := "/" + index + "/_search_shards?local=true&routing=" + url.QueryEscape(routing)
				require.NoError(t, shared.Cluster.Do(t.Context(), http.MethodGet, path, nil, &searched))
				require.Len(t, searched.Shards, min(len(searched.Shards), r.PartitionSize))
				require.True(t, slices.ContainsFunc(searched.Shards, func(copies []struct{ Shard int }) bool {
					return len(copies) > 0 && copies[0].Shard == shard
				}), "a search with routing %q does not touch shard %d", routing, shard)
			}
			require.Len(t, seen, r.Shards, "shards touched")
		})
	}
}

// reads draws a read by id of any kind.
func reads(random *rand.Rand) search {
	indices := []struct {
		name string
		docs int
	}{{"products", 20_000}, {"logs-1", 2000}, {"single", 500}, {"catalog", 20_000}}
	index := indices[random.IntN(len(indices))]
	id := func() string { return strconv.Itoa(random.IntN(index.docs + index.docs/10)) } // some do not exist
	at := func(kind string) search { return search{path: "/" + index.name + "/" + kind + "/" + id()} }
	switch random.IntN(10) {
	case 0:
		s := at("_doc")
		s.method = http.MethodHead
		return s
	case 1:
		s := at("_source")
		s.query = "_source_includes=title,n"
		return s
	case 2:
		s := at("_explain")
		s.body = `{"query":{"match":{"title":"alpha beta"}}}`
		return s
	case 3:
		s := at("_termvectors")
		s.query = "fields=title&term_statistics=true"
		return s
	case 4:
		s := at("_doc")
		s.query = "realtime=false&refresh=false&stored_fields=_none_"
		return s
	case 5:
		return search{path: "/" + index.name + "/_mget", body: fmt.Sprintf(`{"ids":[%q,%s,%q]}`, id(), id(), id())}
	case 6:
		category := harness.Words()[random.IntN(harness.Categories)]
		return search{path: "/_mget", query: "_source_excludes=title", body: fmt.Sprintf(
			`{"docs":[{"_index":%q,"_id":%q},{"_index":"routed","_id":"%d","routing":%q}]}`, index.name, id(), random.IntN(3000), category)}
	case 7:
		return search{path: "/routed/_doc/" + strconv.Itoa(random.IntN(3000)), query: "routing=" + harness.Words()[random.IntN(harness.Categories)]}
	default:
		return at("_doc")
	}
}

// awaitStatistics reads a document until some time is known of every node. Reads by id
// tell nothing of searches. Before a cluster that nobody searches it is probes that do:
// one node a second is sent one, while decisions are made.
func awaitStatistics(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		through(t, search{path: "/single/_doc/1"})
		var nodes []struct{ Parts selection.Parts }
		require.NoError(t, shared.sidestep.AdminJSON(t.Context(), "/nodes", &nodes))
		measured := slices.DeleteFunc(nodes, func(n struct{ Parts selection.Parts }) bool {
			return n.Parts.ResponseTime == 0 && n.Parts.ServiceTime == 0
		})
		return len(measured) == len(shared.Cluster.Nodes)
	}, patience, 50*time.Millisecond, "no time is known of some node")
}

func TestReadsByIDAreTheSame(t *testing.T) {
	for _, index := range []string{"products", "logs-1", "single", "catalog", "routed"} {
		awaitSteered(t, shared.sidestep.URL, search{path: "/" + index + "/_doc/1"})
	}
	awaitStatistics(t)
	random := rand.New(rand.NewPCG(4, 2026))
	number := regexp.MustCompile(` in \d+\)`)
	reasons, statuses := map[string]int{}, map[int]int{}
	for range 300 {
		s := reads(random)
		got, want := through(t, s), directly(t, s)
		require.Equal(t, want.status, got.status, s)
		require.Equal(t, want.header.Get("Content-Type"), got.header.Get("Content-Type"), s)
		switch {
		case strings.Contains(s.path, "/_termvectors/"): // it has a took
			require.Equal(t, want.stable(t), got.stable(t), s)
		case strings.Contains(s.path, "/_explain/"): // each copy has its own segments, and numbers its documents by them
			require.Equal(t, number.ReplaceAllString(string(want.body), " in N)"), number.ReplaceAllString(string(got.body), " in N)"), s)
		default:
			require.Equal(t, string(want.body), string(got.body), s)
			require.Equal(t, want.header.Get("Content-Length"), got.header.Get("Content-Length"), s)
		}
		reasons[got.decision.Reason]++
		statuses[got.status]++
	}
	t.Logf("decisions about 300 reads: %v; answers: %v", reasons, statuses)
	require.GreaterOrEqual(t, reasons["ranked"], 290)
	require.Greater(t, statuses[http.StatusOK], 200)
	require.Greater(t, statuses[http.StatusNotFound], 5)
}

// gets returns how many documents each node has read by id, by its own count.
func gets(t *testing.T) map[string]int { return counts(t, "get", "total") }

// readMany reads documents one by one and returns how many sidestep sent to which
// node.
func readMany(t *testing.T, count int) map[string]int {
	t.Helper()
	named := map[string]int{}
	for i := range count {
		got := through(t, search{path: "/single/_doc/" + strconv.Itoa(i)})
		require.Equal(t, http.StatusOK, got.status)
		require.Len(t, got.decision.Nodes, 1, "reason %s", got.decision.Reason)
		named[got.decision.Nodes[0]]++
	}
	return named
}

// The nodes' own counters say that documents were read where sidestep said, and not
// on the slow node.
func TestReadsByIDAvoidTheSlowNode(t *testing.T) {
	awaitSteered(t, shared.sidestep.URL, search{path: "/single/_doc/1"})
	before := gets(t)
	named := readMany(t, 100)
	require.Equal(t, named, served(before, gets(t)))

	slow := shared.Cluster.Nodes[1]
	require.NoError(t, slow.SlowTransport(300*time.Millisecond, 0))
	t.Cleanup(func() { require.NoError(t, slow.ResetToxics(context.WithoutCancel(t.Context()))) })
	// On a busy machine the other nodes' probes may take a third of its own: then it is let in again.
	for known, end := false, time.Now().Add(patience); !known; {
		for !aloneSlow(t, slow.Name) {
			require.True(t, time.Now().Before(end), "nobody noticed")
			through(t, search{target: "single", body: `{"size":0}`})
		}
		before = gets(t)
		named = readMany(t, 100)
		require.Equal(t, named, served(before, gets(t)))
		known = aloneSlow(t, slow.Name)
	}
	require.Zero(t, named[slow.Name])
}

// aloneSlow reports whether sidestep says that a node is slow, and that all others are fine.
func aloneSlow(t *testing.T, name string) bool {
	t.Helper()
	var nodes []struct{ Name, State string }
	require.NoError(t, shared.sidestep.AdminJSON(t.Context(), "/nodes", &nodes))
	return len(nodes) > 1 && !slices.ContainsFunc(nodes, func(n struct{ Name, State string }) bool {
		return n.State != map[bool]string{true: "slow", false: "fine"}[n.Name == name]
	})
}

// Of an index with segment replication the engine reads the primary, which alone has
// what was just written, unless there is a preference.
func TestReadsByIDUnderSegmentReplication(t *testing.T) {
	err := shared.Cluster.Do(t.Context(), http.MethodPut, "/segments", object{"settings": object{"index": object{
		"number_of_shards": 1, "number_of_replicas": 2, "replication.type": "SEGMENT", "refresh_interval": "-1",
	}}}, nil)
	if shared.Cluster.Distribution != harness.OpenSearch {
		require.ErrorContains(t, err, "unknown setting [index.replication.type]", "Elasticsearch has no segment replication")
		return
	}
	require.NoError(t, err)
	t.Cleanup(func() { change(t, http.MethodDelete, "/segments", nil) })
	require.NoError(t, shared.Cluster.WaitGreen(t.Context(), "segments"))
	require.NoError(t, shared.Cluster.Do(t.Context(), http.MethodPut, "/segments/_doc/1", object{"n": 1}, nil))
	missed := 0
	for _, node := range shared.Cluster.Nodes {
		got := directly(t, search{path: "/segments/_doc/1", query: "preference=_prefer_nodes:" + node.ID})
		if got.status == http.StatusNotFound {
			missed++
		}
	}
	require.Equal(t, 2, missed, "replicas that do not have the document yet")
	one := search{path: "/segments/_doc/1"}
	require.Eventually(t, func() bool {
		got := through(t, one)
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		return got.decision.Reason == "segment_replication"
	}, patience, 50*time.Millisecond)
	for range 20 {
		require.Equal(t, http.StatusOK, through(t, one).status)
		got := through(t, search{path: "/segments/_mget", body: `{"ids":["1"]}`})
		require.Equal(t, "segment_replication", got.decision.Reason)
		require.Contains(t, string(got.body), `"found":true`)
	}
}

// An alias that is moved to another index is followed; one with a routing of its own
// is left alone.
func TestReadsByIDFollowAnAlias(t *testing.T) {
	point := func(actions ...object) {
		t.Helper()
		change(t, http.MethodPost, "/_aliases", object{"actions": actions})
	}
	action := func(name, index string) object { return object{name: object{"index": index, "alias": "current"}} }
	point(action("add", "logs-1"))
	index := func() string {
		var doc struct {
			Index string `json:"_index"`
		}
		require.NoError(t, json.Unmarshal(awaitSteered(t, shared.sidestep.URL, search{path: "/current/_doc/1"}).body, &doc))
		return doc.Index
	}
	require.Equal(t, "logs-1", index())
	point(action("remove", "logs-1"), action("add", "logs-2"))
	require.Equal(t, "logs-2", index())
	point(action("add", "logs-1"))
	for _, alias := range []string{"current", "alphas"} {
		require.Eventually(t, func() bool {
			s := search{path: "/" + alias + "/_doc/1"}
			return requireSame(t, s).decision.Reason == "not_one_index"
		}, patience, 100*time.Millisecond, alias)
	}
	point(action("remove", "logs-1"), action("remove", "logs-2"))
}
