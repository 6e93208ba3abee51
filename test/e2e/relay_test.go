package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// A sidestep whose relay tells it of a real cluster steers as one that polls, and
// polls when the relay is gone.
func TestRelay(t *testing.T) {
	t.Parallel()
	relay, err := harness.StartFront(t.Context(), shared.Binary, shared.Cluster.URLs())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, harness.Close(relay, nil, t.Failed())) })
	require.NoError(t, relay.AwaitReady(t.Context()))
	sidecar := startBefore(t, shared.Cluster, "routing: {when: always}\ncluster: {source: {url: "+relay.AdminURL+"/snapshot, silence: 10s}}\n")
	require.NoError(t, sidecar.AwaitReady(t.Context()))
	read := func(metric string, labels map[string]string) float64 {
		return sumOf(t, sidecar, metric, labels)
	}
	steered := func() bool {
		answer, err := send(t.Context(), sidecar.URL, search{target: "products"})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.status)
		return read("sidestep_requests_total", map[string]string{"reason": "ranked"}) > 0
	}
	require.Eventually(t, steered, patience, 100*time.Millisecond)
	require.Eventually(t, func() bool { // at once, but on a machine that stood still meanwhile
		polls := read("sidestep_cluster_polls_total", map[string]string{"kind": "stats"})
		time.Sleep(3 * time.Second)
		return steered() && read("sidestep_cluster_source", map[string]string{"source": "relay"}) == 1 &&
			read("sidestep_cluster_polls_total", map[string]string{"kind": "stats"}) == polls
	}, patience, 100*time.Millisecond, "it follows, and polls nothing")
	require.Eventually(t, func() bool {
		copies, err := relay.Sum(t.Context(), "sidestep_cluster_placement_copies", nil)
		require.NoError(t, err)
		return copies > 0 && copies == read("sidestep_cluster_placement_copies", nil)
	}, patience, 100*time.Millisecond, "it knows what the relay knows")
	require.Eventually(t, func() bool { return read("sidestep_node_up", nil) == 3 }, patience, 100*time.Millisecond,
		"statistics of all nodes come through the relay")

	require.NoError(t, relay.Stop())
	require.Eventually(t, func() bool {
		return read("sidestep_cluster_source", map[string]string{"source": "polls"}) == 1
	}, patience, 100*time.Millisecond)
	before := read("sidestep_requests_total", map[string]string{"reason": "ranked"})
	require.Eventually(t, func() bool {
		return steered() && read("sidestep_requests_total", map[string]string{"reason": "ranked"}) > before &&
			read("sidestep_cluster_polls_total", map[string]string{"kind": "stats", "result": "ok"}) > 0
	}, patience, 100*time.Millisecond)
}
