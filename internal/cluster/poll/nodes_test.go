package poll

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
)

// recorded answers polls by path with what a real engine answered.
type recorded map[string]string

func (a recorded) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(a[r.URL.Path])), Request: r}, nil
}

func TestNodesOfRealEngines(t *testing.T) {
	t.Parallel()
	tests := map[string]map[string]string{ // engine, attributes
		"opensearch-3.6.0":     {"zone": "a", "shard_indexing_pressure_enabled": "true"},
		"elasticsearch-8.19.4": {"xpack.installed": "true"},
	}
	seed := &url.URL{Scheme: "https", Host: "seed:9200"}
	read := func(engine, name string) string {
		content, err := io.ReadAll(golden(t, engine, name))
		require.NoError(t, err)
		return string(content)
	}
	for engine, attributes := range tests {
		for _, static := range []bool{false, true} {
			answers := recorded{"/_cluster/state/version,nodes": read(engine, "members.json"), "/_nodes/http,os,thread_pool": read(engine, "nodes.json")}
			c := New(cluster.NewStore(cluster.StoreOptions{}), Options{Seeds: []*url.URL{seed}, Static: static, Client: &http.Client{Transport: answers}, Registerer: prometheus.NewRegistry()})
			c.departures.of("u")
			state, from, err := c.askMembers(t.Context(), nil, cluster.Engine{}, "")
			require.NoError(t, err)
			nodes, err := c.listNodes(t.Context(), from, state)
			require.NoError(t, err)
			require.Len(t, nodes, 1)
			require.Equal(t, attributes, nodes[0].Attributes, engine)
			require.Equal(t, 2, nodes[0].Processors)
			require.True(t, nodes[0].Data())
			require.Equal(t, static, nodes[0].URL == nil)
			require.NotEmpty(t, nodes[0].EphemeralID)
			require.Equal(t, membership{nodes[0].ID: nodes[0].EphemeralID}, state.members())

			answers["/_nodes/http,os,thread_pool"] = `{"nodes":{}}`
			nodes, err = c.listNodes(t.Context(), from, state)
			require.NoError(t, err)
			require.Equal(t, attributes, nodes[0].Attributes, "also of one that is stuck")
		}
	}
	for _, path := range []string{membersPath(cluster.Engine{}), nodesPath} {
		require.Contains(t, path, "nodes.*.attributes")
	}
}

func TestLargeClustersAreAskedForLess(t *testing.T) {
	t.Parallel()
	c := New(cluster.NewStore(cluster.StoreOptions{}), Options{Registerer: prometheus.NewRegistry()})
	full := func(nodes int, first bool) (n int) {
		known := make([]*cluster.Node, nodes)
		for i := range known {
			known[i] = &cluster.Node{ID: fmt.Sprintf("n%04d", i)}
		}
		discover(c, known)
		for range 1000 {
			if strings.Contains(c.statsPath(first), "adaptive_selection") {
				n++
			}
		}
		return n
	}
	require.Equal(t, 1000, full(1, false))
	require.Equal(t, 1000, full(seenPerPoll, false))
	require.InDelta(t, 100, full(10*seenPerPoll, false), 60)
	require.Equal(t, 1000, full(10*seenPerPoll, true))
}

// BenchmarkDecodeStats decodes the statistics of one node of a cluster, whose part
// about the other nodes grows with it.
func BenchmarkDecodeStats(b *testing.B) {
	for _, nodes := range []int{3, 30, 300} {
		seen := map[string]rawCoordinated{}
		for i := range nodes {
			seen["node-with-an-id-"+strconv.Itoa(100000+i)] = rawCoordinated{ResponseTime: int64(1234567 + i)}
		}
		pool := RawPool{Threads: 4, Active: 2, Completed: 123456}
		raw := &RawStats{AdaptiveSelection: seen}
		raw.ThreadPool.Search = &pool
		raw.Indices.Search = RawSearch{Queries: 12345, QueryMillis: 23456, FetchMillis: 3456}
		answer, err := json.Marshal(statsAnswer{Nodes: map[string]*RawStats{"node-with-an-id-100000": raw}})
		require.NoError(b, err)
		b.Run("nodes="+strconv.Itoa(nodes), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(answer)))
			for b.Loop() {
				var into statsAnswer
				if err := DecodeJSON(&into)(bytes.NewReader(answer)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A queue without a bound takes whatever comes: none of it is to be refused.
func TestSearchQueues(t *testing.T) {
	t.Parallel()
	for told, holds := range map[string]int{"1000": 1000, "-1": cluster.MaxSearchQueue, "2147483647": cluster.MaxSearchQueue, `"1k"`: 0, "null": 0} {
		var n infoNode
		require.NoError(t, json.Unmarshal([]byte(`{"thread_pool":{"search":{"queue_size":`+told+`}}}`), &n))
		require.Equal(t, holds, n.searchQueue(), told)
	}
}
