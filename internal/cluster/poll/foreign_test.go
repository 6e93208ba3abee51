package poll

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

// broken has the nodes of f answer nothing well.
func broken(_ *clustertest.Node, w http.ResponseWriter, _ *http.Request) bool {
	w.WriteHeader(http.StatusServiceUnavailable)
	return true
}

// Another cluster behind one of the addresses is not believed while the known one merely does not answer.
func TestAnotherClusterIsNotBelieved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		maxAge   time.Duration
		believed bool
	}{"for a moment": {time.Hour, false}, "for good": {100 * time.Millisecond, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, other := clustertest.New(t, 1), clustertest.New(t, 1)
			other.Change(func() { other.UUID = "uuid-other" })
			other.On(broken)
			seed, err := url.Parse(other.Nodes[0].Server.URL)
			require.NoError(t, err)
			w := watch(t, f, func(o *Options) {
				o.Seeds = append(o.Seeds, seed)
				o.PlacementMaxAge = c.maxAge
			})
			uuid := func() string {
				if s := w.Snapshot(); s != nil {
					return s.ClusterUUID
				}
				return ""
			}
			w.Eventually("the cluster is known", func() bool { return uuid() == f.UUID })
			f.On(broken)
			other.On(nil)
			if c.believed {
				w.Eventually("the other one is believed", func() bool { return uuid() == "uuid-other" })
				return
			}
			w.Eventually("it is told why", func() bool { return strings.Contains(w.Status().Error, "is of another cluster") })
			require.Equal(t, f.UUID, uuid())
			f.On(nil)
			w.Eventually("the cluster is back", func() bool { return w.Status().State == StateOK })
			require.Equal(t, f.UUID, uuid())
		})
	}
}

// While the node that was recognised does not answer all questions, another cluster behind one of the addresses is not asked in
// its place: clients' requests would be sent to its nodes.
func TestNodesOfAnotherClusterAreNotTakenIn(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/_cluster/state/version,nodes", "/_nodes/http,os,thread_pool"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			f, other := clustertest.New(t, 1), clustertest.New(t, 0)
			other.AddNode("x1")
			other.Change(func() { other.UUID = "uuid-other" })
			seed, err := url.Parse(other.Nodes[0].Server.URL)
			require.NoError(t, err)
			var fails atomic.Bool
			f.On(func(n *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
				return fails.Load() && r.URL.Path == path && broken(n, w, r)
			})
			other.On(broken)
			w := watch(t, f, func(o *Options) { o.Seeds = append(o.Seeds, seed) })
			w.Eventually("the cluster is known", func() bool { return w.Snapshot() != nil })
			other.On(nil)
			fails.Store(true)
			asked := other.Count(path)
			w.Eventually("the other one is asked", func() bool { return other.Count(path) >= asked+3 })
			for _, n := range w.Snapshot().Nodes {
				require.Equal(t, "n1", n.ID)
			}
		})
	}
}

// Nor does another cluster, or a node that has joined none, behind one of the addresses keep the placement from being
// confirmed.
func TestThePlacementIsConfirmedBesideAStranger(t *testing.T) {
	t.Parallel()
	for name, strange := range map[string]func(f *clustertest.Fake){
		"another cluster":            func(f *clustertest.Fake) { f.UUID = "uuid-other" },
		"a node that has not joined": func(f *clustertest.Fake) { f.UUID, f.Version = "_na_", -1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, other := clustertest.New(t, 1), clustertest.New(t, 1)
			f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})} })
			other.Change(func() { strange(other) })
			other.On(broken)
			seed, err := url.Parse(other.Nodes[0].Server.URL)
			require.NoError(t, err)
			w := watch(t, f, func(o *Options) { o.Seeds, o.Static, o.DiscoveryInterval = append(o.Seeds, seed), true, time.Hour })
			w.Resolves("i", "", []string{"n1"})
			other.On(nil)
			w.Stop()
			w.endpoints.learned(seed, nil) // it is to be asked in its turn
			select {
			case <-w.rediscover: // for the answers of before
			default:
			}
			w.confirms(t)
			require.Empty(t, w.rediscover)
		})
	}
}

// Where the addresses that nodes publish mean other machines, which answer 404 to everything, these are not asked in place of the
// address that was given: nothing became known of the placement.
func TestStrangersAtPublishedAddresses(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 4)
	given := http.NewServeMux()
	given.HandleFunc("/", f.Nodes[0].Server.Config.Handler.ServeHTTP)
	front := httptest.NewServer(given)
	t.Cleanup(front.Close)
	seed, err := url.Parse(front.URL)
	require.NoError(t, err)
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if r.Host == seed.Host {
			return false
		}
		http.NotFound(w, r)
		return true
	})
	w := watch(t, f, func(o *Options) { o.Seeds = []*url.URL{seed} })
	w.Eventually("the placement is known", func() bool { return w.Snapshot() != nil && w.Snapshot().HasPlacement() })
}
