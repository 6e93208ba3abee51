package page

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/app"
	"sidestep/internal/config" //nolint:depguard // the test configures sidestep as cmd does
	simcluster "sidestep/internal/sim/cluster"
	loadgen "sidestep/internal/sim/load"
)

// stage is a sidestep before a simulated cluster, under a light load.
type stage struct {
	*app.App
	cluster *simcluster.Cluster
	cfg     config.Config
}

// startStage starts both. Five nodes, five shards with a replica each.
func startStage(t *testing.T) *stage {
	t.Helper()
	cluster, err := simcluster.Start(simcluster.Options{
		Nodes: 5, Seed: 1, Adaptive: true,
		Indices: []simcluster.IndexSpec{{Name: "products", Shards: 5, Replicas: 1}, {Name: "logs-1", Shards: 1, Replicas: 2}},
	})
	require.NoError(t, err)
	t.Cleanup(cluster.Stop)
	s := &stage{cluster: cluster, cfg: config.Default()}
	s.cfg.Listen, s.cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	s.cfg.Limits.DrainDelay = 0
	s.cfg.Upstream.URLs = cluster.URLs()
	s.start(t)
	s.load(t)
	return s
}

// start starts sidestep.
func (s *stage) start(t *testing.T) {
	t.Helper()
	var err error
	s.App, err = app.New(s.cfg, app.Options{Version: "1.2.3", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, s.Start(t.Context()))
	started := s.App
	t.Cleanup(func() {
		started.SkipDrain()
		_ = started.Stop(context.Background())
	})
	require.Eventually(t, func() bool { return started.Ready() == nil }, patience, 20*time.Millisecond)
}

// load sends searches until the test ends: on the whole index, and on one shard.
func (s *stage) load(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	transport := loadgen.NewTransport(64)
	go func() {
		defer close(done)
		// What becomes of it is not this test's concern; the page shows it.
		_, _ = loadgen.Run(ctx, loadgen.Options{
			Targets: []string{"http://" + s.DataAddr().String()}, Rate: 40, Duration: time.Hour, Transport: transport,
			Request: func(i int) *http.Request {
				path := []string{"/products/_search", "/products/_search", "/logs-1/_search", "/_cluster/health"}[i%4]
				return &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}}
			},
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		transport.CloseIdleConnections()
	})
}

func (s *stage) admin() string { return "http://" + s.AdminAddr().String() }

// forPictures lets some time pass if pictures are taken, so that lines have a past.
func (s *stage) forPictures(d time.Duration) {
	if *update {
		time.Sleep(d)
	}
}

// slow gives a node 300 ms on its connections.
func (s *stage) slow(node int) {
	const late = 300 * time.Millisecond
	s.cluster.Nodes()[node-1].SetFault(simcluster.Fault{Extra: late, Jitter: late / 6, CoordinatorDelay: late})
}
