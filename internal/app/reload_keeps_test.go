package app_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
	simcluster "sidestep/internal/sim/cluster"
)

// startFailing starts sidestep before a cluster of which one node fails, and is ejected. Copies by a wildcard are known.
func startFailing(t *testing.T) (c *simcluster.Cluster, s *sidestep, cfg config.Config, failing string) {
	t.Helper()
	c, err := simcluster.Start(simcluster.Options{
		Nodes: 4, ServiceTime: time.Millisecond, Seed: 5,
		Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 4, Replicas: 2}},
	})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	cfg = settings(c.URLs()[0])
	cfg.Upstream.Discovery, cfg.Routing.When = "sniff", "always"
	s = startReady(t, cfg, nil)
	node := c.Nodes()[1]
	node.SetFault(simcluster.Fault{FailFast: http.StatusServiceUnavailable})
	s.eventually(func() bool {
		s.get(s.dataURL("/lo*/_search"))
		return s.stateOf(node.Name()) == "failing" && shardsOf(t, s, "lo*") == 4
	}, "the node that fails is ejected")
	return c, s, cfg, node.Name()
}

// What has nothing to do with the keys that change stays: which nodes are ejected, and where copies are.
func TestAReloadKeepsWhatWasLearned(t *testing.T) {
	t.Parallel()
	_, s, cfg, failing := startFailing(t)
	cfg.Explain.Header, cfg.Limits.HeldBody, cfg.Admission.Max = "off", 1000, 100
	cfg.Routing.CoordinatingOnly, cfg.Routing.HedgeBudget = true, 0.1
	require.NoError(t, s.Reload(cfg))
	require.Equal(t, "failing", s.stateOf(failing))
	require.Equal(t, 4, shardsOf(t, s, "lo*"))
	require.Empty(t, s.get(s.dataURL("/logs/_search"), "X-Sidestep-Explain", "1").header.Get("X-Sidestep-Decision"), "the reload is in force")
	polls := s.counter("sidestep_cluster_polls_total", "stats")
	require.Positive(t, polls)
	s.eventually(func() bool { return s.counter("sidestep_cluster_polls_total", "stats") > polls }, "they go on")
	_, err := s.registry.Gather()
	require.NoError(t, err)
}

// Nodes of the same cluster stay ejected, however it is polled now. Of another cluster nothing is believed.
func TestANodeStaysEjectedWhenItsClusterIsPolledAnew(t *testing.T) {
	t.Parallel()
	c, s, cfg, failing := startFailing(t)
	require.Equal(t, http.StatusOK, s.admin("PUT /-/drain", `{"node":"`+c.Nodes()[2].Name()+`","for":"10m"}`).status)
	cfg.Upstream.URLs = c.URLs()[2:]
	require.NoError(t, s.Reload(cfg))
	require.Equal(t, "failing", s.stateOf(failing))
	require.Contains(t, s.get(s.adminURL("/nodes")).body, "leaving_until")

	other, err := simcluster.Start(simcluster.Options{Nodes: 4, Seed: 6, Indices: []simcluster.IndexSpec{{Name: "logs"}}})
	require.NoError(t, err)
	t.Cleanup(other.Stop)
	require.Equal(t, c.Nodes()[1].ID(), other.Nodes()[1].ID(), "else the ids alone would tell")
	cfg.Upstream.URLs = other.URLs()
	require.NoError(t, s.Reload(cfg))
	require.NotEqual(t, "failing", s.stateOf(failing))
	require.NotContains(t, s.get(s.adminURL("/nodes")).body, "leaving_until")
}

// Searches go on over the connections that there are.
func TestAReloadKeepsConnections(t *testing.T) {
	t.Parallel()
	u := prepareUpstream(t)
	var mu sync.Mutex
	from := map[string]bool{}
	cluster := u.Config.Handler
	u.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/logs/_search" {
			mu.Lock()
			from[r.RemoteAddr] = true
			mu.Unlock()
		}
		cluster.ServeHTTP(w, r)
	})
	u.Start()
	cfg := settings(u.URL)
	cfg.Routing.HedgeBudget = 0
	s := startReady(t, cfg, nil)
	for i := range 5 {
		require.Equal(t, http.StatusOK, s.get(s.dataURL("/logs/_search")).status)
		cfg.Limits.HeldBody = config.Size(i + 1)
		require.NoError(t, s.Reload(cfg))
	}
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, from, 1)
}
