package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// Where an index has search-only replicas (OpenSearch 3), the engine searches these
// alone, and so do searches that are steered. They need a remote store, which the
// shared cluster does not have.
func TestSearchOnlyReplicas(t *testing.T) {
	t.Parallel()
	const definition = `{"settings":{"index":{"number_of_shards":2,"number_of_replicas":0,"number_of_search_replicas":2}},
		"mappings":{"properties":{"n":{"type":"long"}}}}`
	asked := search{method: http.MethodPut, path: "/searched", body: definition}
	if lacks(t, "search-only replicas", asked) {
		return
	}
	c, sidestep := withRemoteStore(t)
	send := func(base string, s search) *answer { return sendTo(t, base, s) }
	created := send(c.Nodes[0].HTTPURL, asked)
	require.Equal(t, http.StatusOK, created.status, "%s", created.body)
	require.NoError(t, c.WaitGreen(t.Context(), "searched"))
	var body strings.Builder
	for n := range 200 {
		fmt.Fprintf(&body, "{\"index\":{\"_id\":\"%d\"}}\n{\"n\":%d}\n", n, n)
	}
	require.NoError(t, c.Do(t.Context(), http.MethodPost, "/searched/_bulk?refresh=true", []byte(body.String()), nil))
	all := search{target: "searched", body: `{"size":20,"sort":["n"]}`}
	for _, node := range c.Nodes[1:] { // each of their copies has them all
		s := search{target: "searched", query: "preference=_only_nodes:" + node.ID, body: all.body}
		require.Eventually(t, func() bool { return send(node.HTTPURL, s).results(t).Hits.Total.Value == 200 }, patience, 200*time.Millisecond)
	}
	awaitSteered(t, sidestep.URL, all)
	for range 30 {
		got, want := send(sidestep.URL, all), send(c.Nodes[0].HTTPURL, all)
		require.Equal(t, want.stable(t), got.stable(t))
		require.Equal(t, "ranked", got.decision.Reason)
		require.NotEmpty(t, got.decision.Nodes)
		require.NotContains(t, got.decision.Nodes, c.Nodes[0].Name, "the primaries' node is not searched")
	}
	var e explanation
	require.NoError(t, sidestep.AdminJSON(t.Context(), "/explain?target=searched", &e))
	require.Len(t, e.Shards, 2)
	for _, shard := range e.Shards {
		require.Len(t, shard.Copies, 2, "search-only copies")
	}
}

// withRemoteStore starts a cluster of one data node and two search nodes over a
// remote store in a local folder, and a sidestep before it.
func withRemoteStore(t *testing.T) (*harness.Cluster, *harness.Front) {
	t.Helper()
	store, err := os.MkdirTemp("", "sidestep-remote-store-") //nolint:usetesting // the nodes run as another user, who could not enter t.TempDir
	require.NoError(t, err)
	require.NoError(t, os.Chmod(store, 0o777)) //nolint:gosec // see above
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(store)) })
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	const attribute = "node.attr.remote_store."
	c, err := harness.StartCluster(ctx, harness.ClusterOptions{
		Distribution: shared.Cluster.Distribution, Version: shared.Cluster.Version, Nodes: 3, SerialGC: true, Logf: t.Logf,
		NodeSettings: eachWith("node.roles", "[cluster_manager, data, ingest]", "[search]", "[search]"),
		Settings: map[string]string{
			"path.repo":                                      store,
			"cluster.initial_cluster_manager_nodes":          "[node-1]",
			attribute + "segment.repository":                 "local",
			attribute + "translog.repository":                "local",
			attribute + "state.repository":                   "local",
			attribute + "repository.local.type":              "fs",
			attribute + "repository.local.settings.location": store,
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, harness.Close(nil, c, t.Failed())) })
	return c, startBefore(t, c, "routing: {when: always}\n")
}
