package poll

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

// watcher is a running poller under test with all it reported.
type watcher struct {
	*Poller
	*clustertest.Recorder
}

// watch starts sidestep's view of the fake with short intervals. The first node is
// the seed, unless tweak says otherwise.
func watch(t *testing.T, f *clustertest.Fake, tweak func(*Options)) *watcher {
	t.Helper()
	transport := &http.Transport{}
	seed, err := url.Parse(f.Nodes[0].Server.URL)
	require.NoError(t, err)
	w := &watcher{}
	o := Options{
		Seeds: []*url.URL{seed}, Client: &http.Client{Transport: transport},
		DiscoveryInterval: 50 * time.Millisecond, PlacementInterval: 20 * time.Millisecond,
		StatsInterval: 20 * time.Millisecond, StatsTimeout: 300 * time.Millisecond, PollTimeout: 500 * time.Millisecond,
		OnStats: func(s cluster.NodeStats) { w.OnStats(s) },
	}
	if tweak != nil {
		tweak(&o)
	}
	w.Recorder = clustertest.NewRecorder(t, cluster.StoreOptions{Logger: o.Logger})
	o.Registerer = w.Registry
	w.Poller = New(w.Recorder.Store, o)
	w.Start(context.Background())
	t.Cleanup(func() {
		w.Stop()
		transport.CloseIdleConnections()
	})
	return w
}

// discover makes nodes known to a poller, and that there are no indices.
func discover(c *Poller, nodes []*cluster.Node) {
	c.store.Discovered(cluster.Identity{}, nodes, nil)
	c.store.PlacedAll(time.Time{}, &cluster.Placement{})
}
