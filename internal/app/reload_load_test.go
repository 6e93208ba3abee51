package app_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	simcluster "sidestep/internal/sim/cluster"
)

// Reloads of all kinds, while searches wait for a busy cluster, drop none.
func TestReloadsWhileSearchesWaitDropNone(t *testing.T) {
	t.Parallel()
	c, err := simcluster.Start(simcluster.Options{
		Nodes: 2, Threads: 1, ServiceTime: 5 * time.Millisecond, Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 2, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	cfg := settings(c.URLs()...)
	cfg.Upstream.Discovery, cfg.Admission.Mode, cfg.Admission.Max = "sniff", "auto", 3
	s := startReady(t, cfg, nil)
	var served atomic.Int64
	finish := trafficOf(s, 20, &served)
	for i := range 12 {
		switch i % 3 {
		case 0: // what waits stays where it is
			cfg.Limits.HeldBody++
		case 1: // it waits beside what comes, in a queue of its own
			cfg.Admission.Queue.Length = 1000 + i
		case 2: // and nobody polls its nodes from there
			cfg.Routing.Clients = 2 + i
		}
		require.NoError(t, s.Reload(cfg))
		before := served.Load()
		require.Eventually(t, func() bool { return served.Load() > before+20 }, patience, time.Millisecond)
	}
	require.Empty(t, finish())
	_, err = s.registry.Gather()
	require.NoError(t, err)
}
