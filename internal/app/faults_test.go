package app_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	simcluster "sidestep/internal/sim/cluster"
	loadgen "sidestep/internal/sim/load"
)

// TestFaultsOfOneNodeReachNoClient runs searches through sidestep against five
// simulated nodes while one of them fails in every way there is: no search may
// fail or be partial, and the node must be avoided.
func TestFaultsOfOneNodeReachNoClient(t *testing.T) {
	for name, tc := range map[string]struct {
		fault simcluster.Fault
		// lasts is how long the node stays so; to the end if zero. A node that says
		// nothing holds the searches it has got until it speaks again.
		lasts   time.Duration
		avoided bool
	}{
		"slow transport": {fault: simcluster.Fault{Extra: 200 * time.Millisecond}, avoided: true},
		"slow disk":      {fault: simcluster.Fault{Factor: 50}, avoided: true},
		"slow HTTP":      {fault: simcluster.Fault{CoordinatorDelay: 200 * time.Millisecond}},
		"refuse":         {fault: simcluster.Fault{Refuse: true}}, // clients only: its copies serve
		"reject":         {fault: simcluster.Fault{FailFast: http.StatusTooManyRequests}, avoided: true},
		"fail fast":      {fault: simcluster.Fault{FailFast: http.StatusServiceUnavailable}, avoided: true},
		"partial":        {fault: simcluster.Fault{Partial: true}, avoided: true},
		"pause":          {fault: simcluster.Fault{Pause: true}, lasts: 500 * time.Millisecond},
		"hang":           {fault: simcluster.Fault{Hang: true}, lasts: 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, s := inFrontOfFive(t)
			victim := c.Nodes()[2]
			load(t, s, 100, 300*time.Millisecond)
			victim.SetFault(tc.fault)
			if tc.lasts > 0 {
				timer := time.AfterFunc(tc.lasts, func() { victim.SetFault(simcluster.Fault{}) })
				defer timer.Stop()
			}
			share := 1.0
			// How soon it is found out depends on the machine; that it is must not.
			for range 6 {
				before := searches(c)
				found := load(t, s, 100, 1500*time.Millisecond)
				require.Zero(t, found.Failed, "%v", found.FirstErrors)
				require.Zero(t, found.Partial)
				after := searches(c)
				share = float64(after[2]-before[2]) / float64(sum(after)-sum(before))
				if !tc.avoided || share < 0.1 {
					return
				}
			}
			require.Less(t, share, 0.1, "of the shard queries; its fair share is 0.2")
		})
	}
}

// TestNodeKilledAndBackReachesNoClient loses a node and gets it back under load.
func TestNodeKilledAndBackReachesNoClient(t *testing.T) {
	t.Parallel()
	c, s := inFrontOfFive(t)
	victim := c.Nodes()[2]
	kill := time.AfterFunc(500*time.Millisecond, victim.Kill)
	defer kill.Stop()
	back := time.AfterFunc(1500*time.Millisecond, func() {
		if err := victim.Return(); err != nil {
			t.Error(err)
		}
	})
	defer back.Stop()
	found := load(t, s, 100, 3*time.Second)
	require.Zero(t, found.Failed, "%v", found.FirstErrors)
	require.Zero(t, found.Partial)
}

// TestCopiesThatMoveReachNoClient relocates copies, creates and deletes indices
// and moves an alias while searches on them run.
func TestCopiesThatMoveReachNoClient(t *testing.T) {
	t.Parallel()
	c, s := inFrontOfFive(t)
	require.NoError(t, c.SetAlias("current", "items"))
	stop := make(chan struct{})
	moved := make(chan error, 1)
	go func() { moved <- moveCopies(c, stop) }()
	for _, path := range []string{"/items/_search", "/current/_search", "/it*/_search"} {
		found := loadPath(t, s, path, 100, time.Second)
		require.Zero(t, found.Failed, "%s: %v", path, found.FirstErrors)
		require.Zero(t, found.Partial, path)
	}
	close(stop)
	require.NoError(t, <-moved)
}

// moveCopies moves the copies of shard 0 in a circle until stop.
func moveCopies(c *simcluster.Cluster, stop chan struct{}) error {
	nodes := c.Nodes()
	at := []int{0, 1}
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		case <-time.After(70 * time.Millisecond):
		}
		next := (max(at[0], at[1]) + 1) % len(nodes)
		if next == at[0] || next == at[1] {
			next = (next + 1) % len(nodes)
		}
		_ = c.Relocate("items", 0, nodes[at[i%2]].ID(), nodes[next].ID()) // refused while one is under way
		at[i%2] = next
	}
}

func fiveNodes(t *testing.T) *simcluster.Cluster {
	t.Helper()
	c, err := simcluster.Start(simcluster.Options{
		Nodes: 5, ServiceTime: 2 * time.Millisecond, Adaptive: true, Seed: 1,
		RecoveryTime: 200 * time.Millisecond,
		Indices:      []simcluster.IndexSpec{{Name: "items", Shards: 5, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	return c
}

func inFrontOfFive(t *testing.T) (*simcluster.Cluster, *sidestep) {
	t.Helper()
	c := fiveNodes(t)
	cfg := settings(c.URLs()...)
	cfg.Upstream.Discovery = "sniff"
	cfg.Cluster.StatsInterval = 100 * time.Millisecond
	cfg.Cluster.StatsTimeout = 200 * time.Millisecond
	return c, startReady(t, cfg, nil)
}

func load(t *testing.T, s *sidestep, rate float64, d time.Duration) *loadgen.Result {
	t.Helper()
	return loadPath(t, s, "/items/_search", rate, d)
}

func loadPath(t *testing.T, s *sidestep, path string, rate float64, d time.Duration) *loadgen.Result {
	t.Helper()
	found, err := loadgen.Run(t.Context(), itemsLoad(s, path, rate, d))
	require.NoError(t, err)
	return found
}

func itemsLoad(s *sidestep, path string, rate float64, d time.Duration) loadgen.Options {
	return loadgen.Options{
		Targets:  []string{"http://" + s.DataAddr().String()},
		Rate:     rate,
		Duration: d,
		Request: func(int) *http.Request {
			body := strings.NewReader(`{"query":{"match_all":{}}}`)
			return &http.Request{
				Method: http.MethodPost, URL: &url.URL{Path: path},
				Header: http.Header{"Content-Type": {"application/json"}},
				Body:   io.NopCloser(body), ContentLength: int64(body.Len()),
			}
		},
	}
}

func searches(c *simcluster.Cluster) []int64 {
	out := make([]int64, 0, len(c.Nodes()))
	for _, n := range c.Nodes() {
		out = append(out, n.Searches())
	}
	return out
}

func sum(counts []int64) int64 {
	var total int64
	for _, n := range counts {
		total += n
	}
	return total
}
