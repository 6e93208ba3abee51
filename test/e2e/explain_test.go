package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The engine's own routing says in which shard a document is; /explain names the same.
func TestExplainNamesTheShardOfADocument(t *testing.T) {
	for _, id := range []string{"1", "42", "a document with spaces", "ä/%2F?#"} {
		query := "operation=get&target=products&id=" + url.QueryEscape(id)
		var e explanation
		require.Eventually(t, func() bool { e = explain(t, query); return e.Steered }, patience, 100*time.Millisecond, "%s: %+v", id, &e)
		require.Len(t, e.Shards, 1)
		require.Equal(t, engineShard(t, "products", id, ""), e.Shards[0].Shard, id)
		require.Len(t, e.Shards[0].Copies, 2)
		require.Len(t, e.Nodes, 1)
		require.NotEmpty(t, e.Summary)
	}
}

// A slow request is kept with what became of it.
func TestASlowRequestIsKept(t *testing.T) {
	const opaque = "e2e-slow"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, shared.sidestep.URL+"/_cluster/health?wait_for_nodes=99&timeout=1500ms", http.NoBody)
	require.NoError(t, err)
	r.Header.Set("X-Opaque-Id", opaque)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusRequestTimeout, resp.StatusCode)

	type record struct {
		Path     string   `json:"path"`
		OpaqueID string   `json:"x_opaque_id"`
		Status   int      `json:"status"`
		Outcome  string   `json:"outcome"`
		Duration float64  `json:"duration_ms"`
		Upstream float64  `json:"upstream_ms"`
		Kept     []string `json:"kept"`
		Attempts []struct {
			Node    string `json:"node"`
			Outcome string `json:"outcome"`
			Status  int    `json:"status"`
		} `json:"attempts"`
	}
	var found *record
	require.Eventually(t, func() bool {
		var page struct {
			Slow []record `json:"slow"`
		}
		require.NoError(t, shared.sidestep.AdminJSON(t.Context(), "/slow?limit=1000", &page))
		for i := range page.Slow {
			if page.Slow[i].OpaqueID == opaque {
				found = &page.Slow[i]
			}
		}
		return found != nil
	}, patience, 100*time.Millisecond)
	require.Equal(t, "/_cluster/health", found.Path, "without the query")
	require.Equal(t, []any{408, "client_error", []string{"slow"}}, []any{found.Status, found.Outcome, found.Kept})
	require.GreaterOrEqual(t, found.Duration, 1500.0)
	require.GreaterOrEqual(t, found.Upstream, 1500.0, "it is the engine that took long")
	require.Len(t, found.Attempts, 1)
	require.Equal(t, "answered 408", fmt.Sprint(found.Attempts[0].Outcome, " ", found.Attempts[0].Status))
	require.NotEmpty(t, found.Attempts[0].Node)
}
