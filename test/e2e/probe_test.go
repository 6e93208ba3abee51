package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/selection"
)

// probe is the search by which sidestep finds out how a node is: of one shard, on
// that node alone.
func probe(index string, shard int, nodeID string) search {
	return search{
		target: index,
		query: fmt.Sprintf("preference=_shards:%d%%7C_only_nodes:%s&size=0&terminate_after=1&request_cache=false"+
			"&allow_partial_search_results=false&filter_path=took,_shards", shard, nodeID),
	}
}

// A probe is served by the node it is about, whichever node it goes through.
func TestProbeIsServedByItsNodeAlone(t *testing.T) {
	allFine(t)
	// sidestep's own probes would be counted, too, also those under way.
	setMode(t, "off")
	t.Cleanup(func() { setMode(t, "route") })
	time.Sleep(selection.ProbeTimeout)
	const index = "single" // one shard, with a copy on each node
	for _, target := range shared.Cluster.Nodes {
		for _, via := range shared.Cluster.Nodes {
			before := queries(t)
			got := sendTo(t, via.DirectURL, probe(index, 0, target.ID))
			require.Equal(t, http.StatusOK, got.status, "%s", got.body)
			var content map[string]any
			require.NoError(t, json.Unmarshal(got.body, &content), "%s", got.body)
			require.Len(t, content, 2, "%s", got.body)
			require.Contains(t, content, "took")
			require.Equal(t, 1, got.results(t).Shards.Total, "%s", got.body)
			require.Zero(t, got.results(t).Shards.Failed, "%s", got.body)
			require.Equal(t, map[string]int{target.Name: 1}, served(before, queries(t)))
		}
	}
}

// What a probe cannot do is told by status and an error that is not filtered.
func TestProbeThatCannotBeServed(t *testing.T) {
	node := shared.Cluster.Nodes[0]
	got := sendTo(t, node.DirectURL, probe("single", 0, "nobody"))
	require.Equal(t, http.StatusBadRequest, got.status)
	require.Contains(t, string(got.body), "no data nodes with criteri")
	got = sendTo(t, node.DirectURL, probe("nosuch", 0, node.ID))
	require.Equal(t, http.StatusNotFound, got.status)
	require.Contains(t, string(got.body), "index_not_found_exception")
}

// setMode switches sidestep.
func setMode(t *testing.T, mode string) {
	t.Helper()
	status, body, err := shared.sidestep.Admin(context.WithoutCancel(t.Context()), http.MethodPut, "/-/routing", `{"mode":"`+mode+`"}`)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, "%s", body)
}
