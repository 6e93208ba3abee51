package app_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
	simcluster "sidestep/internal/sim/cluster"
)

// inFrontOfMany is sidestep before 1,000 indices with 4,000 shards, which steers
// every search.
func inFrontOfMany(t *testing.T) (*simcluster.Cluster, *sidestep) {
	t.Helper()
	c, err := simcluster.Start(simcluster.Options{
		Nodes: 12, ServiceTime: time.Millisecond, Seed: 3, RecoveryTime: 50 * time.Millisecond, Threads: 16,
		Indices: simcluster.Many(1000, simcluster.IndexSpec{Name: "index", Shards: 4, Replicas: 1}, 250),
	})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	cfg := settings(c.URLs()[0])
	cfg.Upstream.Discovery = config.Default().Upstream.Discovery
	cfg.Routing.When = "always"
	cfg.Cluster.PlacementInterval = 100 * time.Millisecond
	cfg.Cluster.PollTimeout = 20 * time.Second // a busy machine needs more than a second for a table of 8,000 copies
	return c, startReady(t, cfg, nil)
}

func TestStormReachesNoClient(t *testing.T) {
	t.Parallel()
	c, s := inFrontOfMany(t)
	ctx, calm := context.WithCancel(t.Context())
	changes := make(chan int64, 1)
	go func() { changes <- c.Storm(ctx, simcluster.Storm{Relocations: 200, Churn: 20}) }()
	for _, path := range []string{"/index-7/_search", "/index-group-3/_search", "/index-99*/_search", "/index-1,index-2/_search", "/churn-*/_search"} {
		found := loadPath(t, s, path, 60, 1500*time.Millisecond)
		require.Zero(t, found.Failed, "%s: %v", path, found.FirstErrors)
		require.Zero(t, found.Partial, path)
		require.Greater(t, found.OK, int64(50), path)
	}
	calm()
	require.Greater(t, <-changes, int64(100))
}

// shardsOf returns how many shards sidestep knows of a target, 0 while it does not
// steer searches on it.
func shardsOf(t *testing.T, s *sidestep, target string) int {
	t.Helper()
	found := s.get(s.adminURL("/explain?target=" + target))
	var e struct {
		Steered bool  `json:"steered"`
		Shards  []any `json:"shards"`
	}
	require.NoError(t, json.Unmarshal([]byte(found.body), &e), "%s", found.body)
	if !e.Steered {
		return 0
	}
	return len(e.Shards)
}

func TestChangedTargetsAreSeen(t *testing.T) {
	t.Parallel()
	c, s := inFrontOfMany(t)
	known := func(target string, shards int) {
		t.Helper()
		require.Eventually(t, func() bool {
			_ = s.get(s.dataURL("/" + target + "/_search"))
			return shardsOf(t, s, target) == shards
		}, patience, 20*time.Millisecond, target)
	}
	known("index-group-3", 4*4)
	known("index-99*", 11*4)
	known("index-7", 4)
	require.NoError(t, c.SetAlias("index-group-3", "index-3", "index-9"))
	known("index-group-3", 2*4)
	require.NoError(t, c.CreateIndex(simcluster.IndexSpec{Name: "index-99-new", Shards: 3, Replicas: 1}))
	known("index-99*", 11*4+3)
	known("index-99-new", 3)
	require.NoError(t, c.DeleteIndex("index-7"))
	require.Eventually(t, func() bool { return shardsOf(t, s, "index-7") == 0 }, patience, 20*time.Millisecond)
	require.NoError(t, c.CreateIndex(simcluster.IndexSpec{Name: "index-7", Shards: 2, Replicas: 1}))
	known("index-7", 2)
}
