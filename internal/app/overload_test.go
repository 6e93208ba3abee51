package app_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	simcluster "sidestep/internal/sim/cluster"
	loadgen "sidestep/internal/sim/load"
)

// overload sends a cluster half as many searches again as it can serve, directly or
// through sidestep, and returns how many of them failed and how many shard queries the
// cluster rejected.
func overload(t *testing.T, through bool) (failed float64, rejected int64) {
	t.Helper()
	simulated, err := simcluster.Start(simcluster.Options{
		Nodes: 5, Threads: 1, QueueSize: 20, ServiceTime: 10 * time.Millisecond, Adaptive: true,
		Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 5, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(simulated.Stop)
	targets := simulated.URLs()
	if through {
		targets = []string{startReady(t, settings(targets...), nil).dataURL("")}
	}
	result, err := loadgen.Run(t.Context(), loadgen.Options{
		Targets: targets, Rate: 150, Duration: 4 * time.Second,
		Request: func(int) *http.Request {
			return &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/logs/_search"}}
		},
	})
	require.NoError(t, err)
	var stats struct {
		Nodes map[string]struct {
			Pools map[string]struct{ Rejected int64 } `json:"thread_pool"`
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := ask(t, client, "GET "+simulated.URLs()[0]+"/_nodes/stats/thread_pool", "")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(answer.body), &stats))
	for _, n := range stats.Nodes {
		rejected += n.Pools["search"].Rejected
	}
	return float64(result.Failed) / float64(result.Sent), rejected
}

// Sending again what a full queue rejected fills it even more: a cluster that gets more
// than it can serve must not get more still, nor its clients more errors.
// A machine that is busy itself makes both worse for a while: one of three trials counts.
func TestOverloadIsNotMadeWorse(t *testing.T) {
	for range 3 {
		failed, rejected := overload(t, false)
		require.Positive(t, rejected, "the cluster is not overloaded")
		failedThrough, rejectedThrough := overload(t, true)
		t.Logf("failed: directly %.3f, through sidestep %.3f; rejected: %d, %d", failed, failedThrough, rejected, rejectedThrough)
		if rejectedThrough < 2*rejected && failedThrough < failed+0.15 {
			return
		}
	}
	require.Fail(t, "an overloaded cluster got more through sidestep, or its clients more errors, in each of three trials")
}
