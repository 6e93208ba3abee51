package poll

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

// inVirtualTime has a sidestep with the default intervals poll a fake, without connections. ask sees each request before the
// fake does.
func inVirtualTime(t *testing.T, f *clustertest.Fake, ask func(r *http.Request) (*http.Response, error), test func(t *testing.T, p *Poller)) {
	t.Helper()
	seed, err := url.Parse(f.Nodes[0].Server.URL)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			if resp, err := ask(r); resp != nil || err != nil {
				return resp, err
			}
			return clustertest.InProcess{Fake: f}.RoundTrip(r)
		})
		p := New(cluster.NewStore(cluster.StoreOptions{}), Options{Seeds: []*url.URL{seed}, Client: &http.Client{Transport: transport}, Registerer: prometheus.NewRegistry()})
		p.Start(context.Background())
		defer p.Stop()
		test(t, p)
	})
}

// answered is an answer without a body.
func answered(r *http.Request, status int) *http.Response {
	return &http.Response{StatusCode: status, Body: http.NoBody, Request: r, Header: http.Header{}}
}

// An account that is refused once all is known, as after its password was changed, is tried as rarely as one that was
// refused from the start, and again soon after it is not.
func TestAnAccountThatIsRefusedLaterIsTriedRarely(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})} })
	var refused atomic.Bool
	var asked atomic.Int64
	inVirtualTime(t, f, func(r *http.Request) (*http.Response, error) {
		if !refused.Load() {
			return nil, nil
		}
		asked.Add(1)
		return answered(r, http.StatusUnauthorized), nil
	}, func(t *testing.T, p *Poller) {
		time.Sleep(5 * time.Second)
		require.NoError(t, p.Ready())
		refused.Store(true)
		time.Sleep(time.Minute)
		require.Equal(t, StateUnauthorized, p.Status().State)
		before := asked.Load()
		time.Sleep(time.Minute)
		require.LessOrEqual(t, asked.Load()-before, int64(80), "in a minute, of three nodes")
		refused.Store(false)
		time.Sleep(2 * ceilingInterval)
		require.Equal(t, StateOK, p.Status().State)
		require.Less(t, time.Since(p.Snapshot().PlacedAt), 2*time.Second)
	})
}

// While there is no placement as it cannot be had, nodes are not asked for all of it all the time.
func TestAFirstPlacementThatFailsIsNotTriedAllTheTime(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]func(r *http.Request) (*http.Response, error){
		"hangs": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		"fails": func(r *http.Request) (*http.Response, error) {
			time.Sleep(2 * time.Second)
			return answered(r, http.StatusServiceUnavailable), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := clustertest.New(t, 3)
			f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})} })
			var well atomic.Bool
			var asked atomic.Int64
			inVirtualTime(t, f, func(r *http.Request) (*http.Response, error) {
				if well.Load() || r.URL.Path != wholePath {
					return nil, nil
				}
				asked.Add(1)
				return fails(r)
			}, func(t *testing.T, p *Poller) {
				time.Sleep(10 * time.Minute)
				before := asked.Load()
				time.Sleep(10 * time.Minute)
				t.Log(name, before, asked.Load()-before)
				require.LessOrEqual(t, asked.Load()-before, int64(70))
				well.Store(true)
				time.Sleep(2 * longestRest)
				require.NoError(t, p.Ready())
			})
		})
	}
}

// An account that is refused for a moment has no target forgotten.
func TestTargetsOutlastARefusedAccount(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})}
		for n := range 20 {
			f.Targets[cluster.Target{Expression: fmt.Sprintf("alias-%d", n)}] = []cluster.ShardName{{Index: "i", Number: 0}}
		}
	})
	var refused atomic.Bool
	var asked atomic.Int64
	inVirtualTime(t, f, func(r *http.Request) (*http.Response, error) {
		if !refused.Load() || !strings.HasSuffix(r.URL.Path, "_search_shards") {
			return nil, nil
		}
		asked.Add(1)
		return answered(r, http.StatusUnauthorized), nil
	}, func(t *testing.T, p *Poller) {
		time.Sleep(5 * time.Second)
		search := func(during time.Duration) (steered int) {
			for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				steered = 0
				for target := range f.Targets {
					plan, miss := p.Snapshot().Resolve(target.Expression, "")
					if miss == cluster.MissUnknownTarget {
						p.store.Learn(target.Expression, "")
					}
					if plan != nil {
						steered++
					}
				}
			}
			return steered
		}
		require.Equal(t, len(f.Targets), search(2*time.Second))
		refused.Store(true)
		f.Change(func() {})
		require.Equal(t, len(f.Targets), search(20*time.Second))
		require.LessOrEqual(t, asked.Load(), int64(2*maxTries*len(f.Targets)), "each rests for 11 s")
	})
}
