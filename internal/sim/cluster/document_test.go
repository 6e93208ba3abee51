package simcluster

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// reads returns the documents that each node has read, by the number of the node.
func reads(t *testing.T, c *Cluster) map[int]int {
	t.Helper()
	counts := map[int]int{}
	for i, n := range c.Nodes() {
		o := ask(t, n, http.StatusOK, "GET /_nodes/_local/stats/indices/get")
		if got := o.number("nodes", n.ID(), "indices", "get", "total"); got > 0 {
			counts[i] = got
		}
	}
	return counts
}

func TestReadsByID(t *testing.T) {
	c := quick(t, nil)
	n := c.Nodes()[0]
	doc := ask(t, n, http.StatusOK, "GET /shop/_doc/17")
	require.Equal(t, "products", doc.at("_index"))
	require.Equal(t, true, doc.at("found"))
	require.Equal(t, 17, doc.number("_source", "n"))
	require.Equal(t, object{"n": 17.0}, ask(t, n, http.StatusOK, "GET /products/_source/17"))
	require.Equal(t, false, ask(t, n, http.StatusNotFound, "GET /products/_doc/1000").at("found"))
	ask(t, n, http.StatusNotFound, "GET /products/_source/x")
	ask(t, n, http.StatusNotFound, "GET /nothing/_doc/1")
	ask(t, n, http.StatusBadRequest, "GET /products/_doc/1?sise=3")
	require.Equal(t, true, ask(t, n, http.StatusOK, "POST /products/_explain/1?q=x").at("matched"))
	require.Equal(t, true, ask(t, n, http.StatusOK, "GET /products/_termvectors/1").at("found"))
	status, body := call(t, n, "HEAD /products/_doc/1")
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, body)

	many := ask(t, n, http.StatusOK, "POST /_mget", `{"docs":[{"_index":"products","_id":"1"},{"_index":"nothing","_id":2},{"_index":"shop","_id":"x"}]}`)
	docs, _ := many.at("docs").([]any)
	require.Len(t, docs, 3)
	require.Equal(t, true, object(docs[0].(map[string]any)).at("found"))
	require.Contains(t, docs[1], "error")
	require.Equal(t, false, object(docs[2].(map[string]any)).at("found"))
	require.NoError(t, c.CreateIndex(IndexSpec{Name: "more", Aliases: []string{"shop"}}))
	ask(t, n, http.StatusBadRequest, "GET /shop/_doc/17")
}

func TestReadsByIDObeyPreference(t *testing.T) {
	c := quick(t, func(o *Options) {
		o.Nodes = 3
		o.Indices = []IndexSpec{{Name: "one", Replicas: 1}, {Name: "lagging", Replicas: 2, SegmentReplication: true}}
	})
	via := c.Nodes()[2] // "one" is on the first two
	for range 20 {
		ask(t, via, http.StatusOK, "GET /one/_doc/1?preference=_prefer_nodes:"+c.Nodes()[1].ID())
	}
	require.Equal(t, map[int]int{1: 20}, reads(t, c))
	ask(t, via, http.StatusOK, "GET /one/_doc/1?preference=_prefer_nodes:"+via.ID())
	_, body := call(t, via, "GET /one/_doc/1?preference=_only_nodes:"+via.ID())
	require.Contains(t, string(body), "no data nodes with criteria")
	_, body = call(t, via, "POST /one/_mget?preference=_only_nodes:"+via.ID(), `{"ids":["1"]}`)
	require.Contains(t, string(body), "no data nodes with criteria")

	c.Nodes()[1].SetFault(Fault{Partial: true})
	ask(t, via, http.StatusOK, "GET /one/_doc/1?preference=_prefer_nodes:"+c.Nodes()[1].ID()) // falls back

	c.Nodes()[1].SetFault(Fault{})

	before := reads(t, c)
	primary := 0
	for i, n := range c.Nodes() {
		if n.ID() == c.state.Load().index("lagging").Shards[0][0].Node {
			primary = i
		}
	}
	for range 10 {
		ask(t, via, http.StatusOK, "GET /lagging/_doc/1")
	}
	before[primary] += 10
	require.Equal(t, before, reads(t, c))
}

func TestRoutingIsTheEngines(t *testing.T) {
	plain := IndexSpec{Shards: 5, RoutingNumShards: 640}.withDefaults()
	require.Equal(t, int32(-675079799), routingHash("hello")) // 0xd7c31989
	touched := map[int]bool{}
	for i := range 200 {
		id := strconv.Itoa(i)
		touched[plain.shardOf(id, nil)] = true
		require.Equal(t, []int{plain.shardOf(id, nil)}, plain.routedShards(id))
		require.Equal(t, plain.shardOf(id, nil), plain.shardOf("other", &id))
	}
	require.Len(t, touched, 5)
	spread := IndexSpec{Shards: 4, RoutingNumShards: 8, RoutingPartitionSize: 3}
	routing := "user-1"
	for i := range 50 {
		require.Contains(t, spread.routedShards(routing), spread.shardOf(strconv.Itoa(i), &routing))
	}

	c := quick(t, func(o *Options) {
		o.Indices = []IndexSpec{{Name: "part", Shards: 4, RoutingNumShards: 8, RoutingPartitionSize: 2, SegmentReplication: true}}
	})
	meta := ask(t, c.Nodes()[0], http.StatusOK, "GET /_cluster/state/metadata/part?local=true")
	require.Equal(t, 8, meta.number("metadata", "indices", "part", "routing_num_shards"))
	require.Equal(t, "2", meta.at("metadata", "indices", "part", "settings", "index", "routing_partition_size"))
	require.Equal(t, "SEGMENT", meta.at("metadata", "indices", "part", "settings", "index", "replication", "type"))
	require.ErrorContains(t, c.CreateIndex(IndexSpec{Name: "odd", Shards: 3, RoutingNumShards: 4}), "4 routing shards for 3 shards")
	aliases := ask(t, c.Nodes()[0], http.StatusOK, "GET /part/_alias?local=true")
	require.Equal(t, map[string]any{}, aliases.at("part", "aliases"))
}
