package e2e

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/test/harness"
)

// The engines show the copies of a closed index as started. Searches on it get the
// engine's own error, before sidestep knows that it is closed, and after; when it is
// open again they are steered again, and no node was blamed meanwhile.
func TestClosedIndex(t *testing.T) {
	index := harness.Index{Name: "closed-lately", Shards: 2, Replicas: 1, Docs: 50, Seed: 11}
	require.NoError(t, shared.Cluster.CreateIndex(t.Context(), index))
	t.Cleanup(func() { change(t, http.MethodDelete, "/"+index.Name, nil) })
	learned(t, index.Name)
	closed := func() float64 {
		return sum(t, "sidestep_cluster_placement_unsettled_copies", map[string]string{"state": "closed"})
	}
	require.Zero(t, closed())

	change(t, http.MethodPost, "/"+index.Name+"/_close", nil)
	s := search{target: index.Name, body: `{"size":0}`}
	for known, end := false, time.Now().Add(patience); !known; {
		require.True(t, time.Now().Before(end), "it is not known that the index is closed")
		got := requireSame(t, s)
		require.Equal(t, http.StatusBadRequest, got.status, "%s", got.body)
		require.Contains(t, string(got.body), "index_closed_exception")
		known = got.decision.Reason == "closed_index"
		require.NoError(t, harness.Pause(t.Context(), 20*time.Millisecond))
	}
	// The engine takes its copies down and starts them again, closed.
	started := string(cluster.Started)
	require.Eventually(t, func() bool {
		return slices.Equal([]string{started, started, started, started}, copies(t)[index.Name])
	}, patience, 200*time.Millisecond, "the engine shows the copies of a closed index as started")
	require.Eventually(t, func() bool {
		others := 0.0
		for name, states := range copies(t) {
			for _, state := range states {
				if name != index.Name && (state == started || state == string(cluster.Relocating)) {
					others++
				}
			}
		}
		return closed() == 4 && sum(t, "sidestep_cluster_placement_copies", nil) == others
	}, patience, 200*time.Millisecond, "the copies of the others serve, these do not")
	for _, other := range []search{
		{target: index.Name, query: "routing=7", body: `{"size":0}`}, {target: "products," + index.Name, body: `{"size":0}`},
		{target: "closed-*", body: `{"size":0}`}, {target: index.Name, query: "ignore_unavailable=true", body: `{"size":0}`},
		{path: "/" + index.Name + "/_count"}, {path: "/" + index.Name + "/_doc/1"},
	} {
		got := requireSame(t, other)
		t.Logf("%s: status %d, reason %s", other, got.status, got.decision.Reason)
	}

	change(t, http.MethodPost, "/"+index.Name+"/_open", nil)
	require.NoError(t, shared.Cluster.WaitGreen(t.Context(), index.Name))
	require.Eventually(t, func() bool {
		return requireSame(t, s).decision.Reason == "ranked"
	}, patience, 100*time.Millisecond, "it is not known that the index is open")
	require.Zero(t, closed())
	var nodes []struct{ State, Node string }
	require.NoError(t, shared.sidestep.AdminJSON(t.Context(), "/nodes", &nodes))
	for _, n := range nodes {
		require.NotEqual(t, "failing", n.State, n.Node)
	}
}

// copies are the states of all copies by index, as the engine has them.
func copies(t *testing.T) map[string][]string {
	t.Helper()
	var rows []struct{ Index, State string }
	require.NoError(t, shared.Cluster.Do(t.Context(), http.MethodGet, "/_cat/shards?format=json&h=index,state", nil, &rows))
	states := make(map[string][]string)
	for _, row := range rows {
		states[row.Index] = append(states[row.Index], row.State)
	}
	return states
}
