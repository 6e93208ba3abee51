package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What not every engine has is tested where the engine itself says that it has it.

// lacks reports, and logs, that the engine does not have what a request asks for.
func lacks(t *testing.T, what string, s search) bool {
	t.Helper()
	a := directly(t, s)
	missing := a.status == http.StatusMethodNotAllowed ||
		a.status >= 400 && (strings.Contains(string(a.body), "no handler found") || strings.Contains(string(a.body), "unknown setting"))
	if missing {
		c := shared.Cluster
		t.Logf("%s %s has no %s, it says: %d %.200s", c.Distribution, c.Version, what, a.status, a.body)
	}
	return missing
}

// change sends a request past sidestep that must succeed.
func change(t *testing.T, method, path string, body any) {
	t.Helper()
	// Also called while the test is cleaned up.
	require.NoError(t, shared.Cluster.Do(context.WithoutCancel(t.Context()), method, path, body, nil))
}

// A mapping type in the path passes: 7.x knows what it means, the others refuse it.
func TestTypedPath(t *testing.T) {
	s := search{path: "/products/_doc/_search", query: "sort=n&size=3&q=title:alpha"}
	got := requireSame(t, s)
	require.Equal(t, "typed_path", got.decision.Reason)
	if strings.HasPrefix(shared.Cluster.Version, "7.") {
		require.Len(t, got.results(t).Hits.Hits, 3)
		return
	}
	require.GreaterOrEqual(t, got.status, 400)
	t.Logf("%s %s has no mapping types: %d", shared.Cluster.Distribution, shared.Cluster.Version, got.status)
}

// zoneWeights is where OpenSearch has the weights of zones.
const zoneWeights = "/_cluster/routing/awareness/zone/weights"

// weighZones gives the zones of the nodes weights, none to the last, until the function that is returned is called, or the
// test ends.
func weighZones(t *testing.T) (forget func()) {
	t.Helper()
	awareness := func(attributes, zones any) {
		change(t, http.MethodPut, "/_cluster/settings", object{"persistent": object{
			"cluster.routing.allocation.awareness.attributes":        attributes,
			"cluster.routing.allocation.awareness.force.zone.values": zones,
		}})
	}
	awareness("zone", "a,b,c")
	t.Cleanup(func() { awareness(nil, nil) })
	change(t, http.MethodPut, zoneWeights, object{"weights": object{"a": "1", "b": "1", "c": "0"}, "_version": weightsVersion(t)})
	forget = sync.OnceFunc(func() { change(t, http.MethodDelete, zoneWeights, object{"_version": weightsVersion(t)}) })
	t.Cleanup(forget)
	return forget
}

// weightsVersion returns the version of the weights of zones, which a change of them must name: -1 before the first.
func weightsVersion(t *testing.T) int {
	t.Helper()
	var state struct {
		Metadata struct {
			Routing *struct {
				Version int `json:"_version"`
			} `json:"weighted_shard_routing"`
		} `json:"metadata"`
	}
	require.NoError(t, shared.Cluster.Do(context.WithoutCancel(t.Context()), http.MethodGet, "/_cluster/state/metadata?filter_path=metadata.weighted_shard_routing", nil, &state))
	if state.Metadata.Routing == nil {
		return -1
	}
	return state.Metadata.Routing.Version
}

// While zones have weights OpenSearch forbids node preferences. Clients notice
// nothing, sidestep stops to send them, and takes them up when weights are gone.
func TestStrictWeightedRouting(t *testing.T) {
	if lacks(t, "weighted routing", search{path: zoneWeights}) {
		return
	}
	learned(t, "products")
	forget := weighZones(t)

	told := checked(t).find(t, `^weighted routing by zone is set: a 1\.0, b 1\.0, c 0\.0; it is strict`)
	require.Equal(t, "problem", told.Level)

	one := shared.Cluster.Nodes[0]
	refused := directly(t, search{target: "products", query: "preference=_only_nodes:" + one.ID, body: `{"size":1}`})
	require.Equal(t, http.StatusForbidden, refused.status, "%s", refused.body)
	// Of the first searches one finds out: it is answered all the same.
	for range 20 {
		requireSame(t, search{target: "products", query: "sort=n", body: `{"size":3}`})
	}
	require.Equal(t, "preference_forbidden", through(t, search{target: "products"}).decision.Reason)
	g := generator{rand.New(rand.NewPCG(3, 2026))}
	for range 20 {
		got := requireSame(t, g.search())
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		require.NotEqual(t, "ranked", got.decision.Reason)
	}
	for _, s := range []search{
		{target: "products", query: "preference=_only_nodes:" + one.ID, body: `{"size":1}`}, // the client's own
		{path: "/products/_count", body: `{"query":{"match":{"title":"alpha"}}}`},
		{path: "/products/_doc/17"},
		{
			path: "/_msearch", headers: map[string]string{"Content-Type": "application/x-ndjson"},
			body: `{"index":"products"}` + "\n" + `{"size":2,"sort":["n"]}` + "\n" + `{"index":"single"}` + "\n" + `{"size":2,"sort":["n"]}` + "\n",
		},
	} {
		requireSame(t, s)
	}
	require.GreaterOrEqual(t, sum(t, "sidestep_requests_total", map[string]string{"reason": "preference_forbidden"}), 20.0)

	forget()
	learned(t, "products")
	var log []byte
	require.Eventually(t, func() bool { // nobody waits for a log to be written
		var err error
		log, err = os.ReadFile(shared.sidestep.LogPath)
		require.NoError(t, err)
		return bytes.Contains(log, []byte("allows node preferences again"))
	}, patience, 20*time.Millisecond)
	require.Equal(t, 1, bytes.Count(log, []byte("forbids node preferences")))
}

// On an index with segment replication the replicas lag behind the primary:
// searches are steered, what must be read in real time finds what was just written.
func TestSegmentReplication(t *testing.T) {
	const index = "segments"
	create := search{method: http.MethodPut, path: "/" + index, body: `{"settings":{"index":{"number_of_shards":2,"number_of_replicas":1,
		"replication.type":"SEGMENT"}},"mappings":{"properties":{"n":{"type":"long"}}}}`}
	if lacks(t, "segment replication", create) {
		return
	}
	t.Cleanup(func() { change(t, http.MethodDelete, "/"+index, nil) })
	require.NoError(t, shared.Cluster.WaitGreen(t.Context(), index))
	var body strings.Builder
	for n := range 200 {
		fmt.Fprintf(&body, "{\"index\":{\"_id\":\"%d\"}}\n{\"n\":%d}\n", n, n)
	}
	change(t, http.MethodPost, "/"+index+"/_bulk?refresh=true", []byte(body.String()))
	all := search{target: index, body: `{"size":50,"sort":["n"]}`}
	for _, node := range shared.Cluster.Nodes { // every copy has them all
		s := search{target: index, query: "preference=_prefer_nodes:" + node.ID, body: all.body}
		require.Eventually(t, func() bool { return directly(t, s).results(t).Hits.Total.Value == 200 }, patience, 100*time.Millisecond)
	}
	learned(t, index)
	for range 10 {
		require.Equal(t, 200, requireSame(t, all).results(t).Hits.Total.Value)
	}
	for n := range 20 {
		id := fmt.Sprintf("new-%d", n)
		change(t, http.MethodPut, "/"+index+"/_doc/"+id, object{"n": 1000 + n})
		requireSame(t, search{path: "/" + index + "/_doc/" + id})
		got := through(t, search{path: "/" + index + "/_mget", body: `{"ids":["` + id + `"]}`})
		var found struct {
			Docs []struct {
				Found bool `json:"found"`
			} `json:"docs"`
		}
		require.NoError(t, json.Unmarshal(got.body, &found), "%s", got.body)
		require.Len(t, found.Docs, 1, "%s", got.body)
		require.True(t, found.Docs[0].Found, "written, but not found in real time: %s", got.body)
	}
}
