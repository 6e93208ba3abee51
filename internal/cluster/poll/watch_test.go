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

// impatient has nodes that do not answer given up soon. On a busy machine those that answer are, too, now and then.
func impatient(o *Options) {
	o.StatsTimeout, o.PollTimeout = 300*time.Millisecond, 500*time.Millisecond
}

// watch starts sidestep's view of the fake with short intervals, and patience with its answers. The first node is
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
		StatsInterval: 20 * time.Millisecond, StatsTimeout: clustertest.Soon, PollTimeout: clustertest.Soon,
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
