package poll

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

// How often targets that nobody knows are looked up: so many at once, so many a second,
// and the pause before the same one again.
const (
	atOnce  = 200
	aSecond = 20
	pause   = 500 * time.Millisecond
)

// tempo is how long look-ups of invented targets take, and Options.PlacementInterval.
type tempo struct{ takes, placement time.Duration }

// learning runs test beside a cluster that is ready, in virtual time. lookUps counts
// those of invented targets.
func learning(t *testing.T, at tempo, prepare func(f *clustertest.Fake), test func(t *testing.T, f *clustertest.Fake, c *watcher, lookUps *atomic.Int64)) {
	t.Helper()
	f := clustertest.New(t, 1)
	f.Change(func() { prepare(f) })
	seed, err := url.Parse(f.Nodes[0].Server.URL)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		var lookUps atomic.Int64
		w := clustertest.NewRecorder(t, cluster.StoreOptions{})
		c := New(w.Store, Options{
			Seeds:             []*url.URL{seed},
			Client:            &http.Client{Transport: clustertest.InProcess{Fake: f, Takes: at.takes, LookUps: &lookUps}},
			PlacementInterval: at.placement,
		})
		c.Start(t.Context())
		for c.Ready() != nil {
			time.Sleep(time.Millisecond)
		}
		test(t, f, &watcher{c, w}, &lookUps)
		c.Stop()
	})
}

// ask does what a search on a target does, and reports whether it is steered.
func ask(c *watcher, target string) bool {
	plan, miss := c.Snapshot().Resolve(target, "")
	if miss == cluster.MissUnknownTarget {
		c.Learn(target, "")
	}
	return plan != nil
}

// However many targets clients make up, few are looked up, and those in use are looked
// up again as soon as without them.
func TestInventedTargetsAreThrottled(t *testing.T) {
	t.Parallel()
	learning(t, tempo{takes: 50 * time.Millisecond}, func(f *clustertest.Fake) {
		f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"}), clustertest.Index("b", []string{"n1"})}
		for i := range 20 {
			f.Targets[cluster.Target{Expression: fmt.Sprintf("used-%d", i)}] = []cluster.ShardName{{Index: "a", Number: 0}}
		}
	}, func(t *testing.T, f *clustertest.Fake, c *watcher, lookUps *atomic.Int64) {
		const second, searches = 60, 500
		moved, late := time.Time{}, time.Duration(0)
		for i := range second * searches {
			time.Sleep(time.Second / searches)
			if i == second*searches/2 {
				f.Change(func() {
					for target := range f.Targets {
						f.Targets[target] = []cluster.ShardName{{Index: "a", Number: 0}, {Index: "b", Number: 0}}
					}
				})
				moved = time.Now()
			}
			ask(c, fmt.Sprintf("%s%d", clustertest.Invented, i))
			target := fmt.Sprintf("used-%d", i%20)
			steered := ask(c, target)
			if i > 10*searches {
				require.True(t, steered, "%s after %d searches", target, i)
			}
			if plan, _ := c.Snapshot().Resolve(target, ""); !moved.IsZero() && len(plan.Shards) == 1 {
				late = time.Since(moved)
			}
		}
		require.LessOrEqual(t, lookUps.Load(), int64(atOnce+aSecond*second))
		require.Greater(t, lookUps.Load(), int64(aSecond*second/2), "they are not locked out")
		require.Less(t, late, 2*time.Second, "the targets in use were looked up again after the version moved")
		require.Positive(t, c.Metric("sidestep_cluster_learns_total", "throttled"))
	})
}

// A target that the engine does not know is not asked about again and again while the
// cluster state moves.
func TestMissingTargetsAreRemembered(t *testing.T) {
	t.Parallel()
	learning(t, tempo{placement: 20 * time.Millisecond}, func(f *clustertest.Fake) { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})} },
		func(t *testing.T, f *clustertest.Fake, c *watcher, lookUps *atomic.Int64) {
			for range 1000 {
				f.Change(func() {})
				time.Sleep(10 * time.Millisecond)
				ask(c, clustertest.Invented+"x")
			}
			require.LessOrEqual(t, lookUps.Load(), int64(1+10*time.Second/pause))
			require.GreaterOrEqual(t, lookUps.Load(), int64(5*time.Second/pause))
		})
}

// A target that clients asked for before it was there is steered as soon as the version
// of the cluster state is seen to move.
func TestCreatedTargetsAreSteeredSoon(t *testing.T) {
	t.Parallel()
	learning(t, tempo{}, func(f *clustertest.Fake) { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})} },
		func(t *testing.T, f *clustertest.Fake, c *watcher, _ *atomic.Int64) {
			absent := atomic.Bool{}
			absent.Store(true)
			f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
				if absent.Load() && strings.HasPrefix(r.URL.Path, "/new") {
					http.NotFound(w, r)
					return true
				}
				return false
			})
			for _, target := range []string{"new", "new-alias"} {
				absent.Store(true)
				for range 1000 { // the cluster state moves all the time
					f.Change(func() {})
					time.Sleep(10 * time.Millisecond)
					require.False(t, ask(c, target))
				}
				f.Change(func() {
					f.Indices = append(f.Indices, clustertest.Index(target, []string{"n1"}))
					f.Targets[cluster.Target{Expression: target}] = []cluster.ShardName{{Index: target, Number: 0}}
				})
				absent.Store(false)
				created := time.Now()
				for !ask(c, target) {
					time.Sleep(10 * time.Millisecond)
				}
				require.Less(t, time.Since(created), c.o.PlacementInterval+100*time.Millisecond)
			}
		})
}

// A target that cannot be looked up, as the answer is too long or takes too long, is not asked about all the time.
func TestTargetsThatCannotBeLookedUpRest(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})}
		f.Targets[cluster.Target{Expression: "known"}] = []cluster.ShardName{{Index: "a", Number: 0}}
		f.Targets[cluster.Target{Expression: "new"}] = []cluster.ShardName{{Index: "a", Number: 0}}
	})
	var fails atomic.Bool
	var asked atomic.Int64
	inVirtualTime(t, f, func(r *http.Request) (*http.Response, error) {
		if !fails.Load() || !strings.HasSuffix(r.URL.Path, "_search_shards") {
			return nil, nil
		}
		asked.Add(1)
		<-r.Context().Done()
		return nil, r.Context().Err()
	}, func(t *testing.T, p *Poller) {
		search := func(during time.Duration, targets ...string) {
			for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				f.Change(func() {})
				for _, target := range targets {
					if _, miss := p.Snapshot().Resolve(target, ""); miss == cluster.MissUnknownTarget {
						p.store.Learn(target, "")
					}
				}
			}
		}
		time.Sleep(5 * time.Second)
		search(time.Second, "known")
		require.NotNil(t, clustertest.NodesOf(p.Snapshot(), "known", ""))
		for _, target := range []string{"new", "known"} {
			fails.Store(true)
			search(time.Minute, target)
			before := asked.Load()
			search(10*time.Minute, target)
			// One in 39 s of either, which three nodes are asked: the one that is known is looked up again, as the version moves.
			require.LessOrEqual(t, asked.Load()-before, int64(100), target)
			fails.Store(false)
			search(time.Minute, target)
			require.NotNil(t, clustertest.NodesOf(p.Snapshot(), target, ""))
		}
	})
}

// Nor is one about which every node answers an error at once, as with a circuit breaker that has tripped.
func TestTargetsWhoseLookUpFailsAtOnceRest(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"}), clustertest.Index("idle", []string{"n1"})}
		f.Targets[cluster.Target{Expression: "known"}] = []cluster.ShardName{{Index: "a", Number: 0}}
		f.Targets[cluster.Target{Expression: "new"}] = []cluster.ShardName{{Index: "a", Number: 0}}
	})
	var fails atomic.Bool
	var asked atomic.Int64
	inVirtualTime(t, f, func(r *http.Request) (*http.Response, error) {
		if !fails.Load() || !strings.HasSuffix(r.URL.Path, "_search_shards") && r.URL.Path != partPath+"idle" {
			return nil, nil
		}
		asked.Add(1)
		time.Sleep(time.Millisecond)
		return answered(r, http.StatusTooManyRequests), nil
	}, func(t *testing.T, p *Poller) {
		search := func(during time.Duration, target string) {
			for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
				if _, miss := p.Snapshot().Resolve(target, ""); miss == cluster.MissUnknownTarget {
					p.store.Learn(target, "")
				}
			}
		}
		time.Sleep(5 * time.Second)
		search(time.Second, "known")
		require.NotNil(t, clustertest.NodesOf(p.Snapshot(), "known", ""))
		f.Change(func() {})
		time.Sleep(cluster.UseExpiry) // idle may be elsewhere by now
		for _, target := range []string{"new", "known", "idle"} {
			fails.Store(true)
			f.Change(func() {})
			asked.Store(0)
			const seconds = 20
			search(seconds*time.Second, target)
			require.LessOrEqual(t, asked.Load(), int64(3*2*seconds+seconds), target) // of three nodes
			fails.Store(false)
			search(2*time.Second, target)
			require.NotNil(t, clustertest.NodesOf(p.Snapshot(), target, ""))
		}
	})
}

// A manager applies a new cluster state last, after up to 30 s while a node stands still: what it says a target stands for
// is not taken for what the target stands for by then.
func TestTargetsAreNotLookedUpAtANodeThatIsBehind(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	alias := cluster.Target{Expression: "alias"}
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"}), clustertest.Index("b", []string{"n2"})}
		f.Targets[alias] = []cluster.ShardName{{Index: "a", Number: 0}}
	})
	w := watch(t, f, nil)
	w.Resolves("a", "", []string{"n1"})
	w.Learn("alias", "")
	w.Resolves("alias", "", []string{"n1"})
	f.On(func(n *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if n.ID != "n1" || r.URL.Path != "/alias/_search_shards" {
			return false
		}
		return assert.NoError(t, clustertest.WriteJSON(w, clustertest.Object{"shards": [][]clustertest.Object{{{"index": "a", "shard": 0}}}}))
	})
	f.Lock()
	f.Nodes[0].Version = f.Version
	f.Unlock()
	for i := range 10 {
		index, node := "b", "n2"
		if i%2 == 1 {
			index, node = "c", "n3"
		}
		f.Change(func() {
			f.Indices = append(f.Indices[:2:2], clustertest.Index("c", []string{"n3"}))
			f.Targets[alias] = []cluster.ShardName{{Index: index, Number: 0}}
		})
		w.Resolves("alias", "", []string{node})
	}
}

// A node that stands still makes no target dear that another one tells of at once: it is looked up again when it may stand
// for something else.
func TestANodeThatStandsStillMakesNoTargetDear(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := []*cluster.Node{{ID: "a", URL: &url.URL{Scheme: "http", Host: "a:9200"}}, {ID: "b", URL: &url.URL{Scheme: "http", Host: "b:9200"}}}
		p := New(cluster.NewStore(cluster.StoreOptions{}), Options{Client: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "a:9200" {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			w := httptest.NewRecorder()
			_, err := w.WriteString(`{"shards":[],"metadata":{"indices":{}}}`)
			return w.Result(), err
		})}})
		discover(p, nodes)
		p.endpoints.use(nodes)
		p.newest.Store(nodes[0].URL)
		for _, of := range []cluster.Subject{cluster.OfShards, cluster.OfLayout} {
			started := time.Now()
			found := p.LookUp(t.Context(), cluster.LookUp{Target: cluster.Target{Expression: "logs"}, Of: of})
			require.NotNil(t, found)
			require.GreaterOrEqual(t, time.Since(started), localDeadline, "it was asked first")
			require.Less(t, found.Took, localDeadline)
			time.Sleep(2 * distrust)
		}
	})
}

// What the node that told the latest version does not know any more is not asked of others, which may be behind.
func TestATargetThatIsGoneIsNotAskedOfOthers(t *testing.T) {
	t.Parallel()
	nodes := []*cluster.Node{{ID: "a", URL: &url.URL{Scheme: "http", Host: "a:9200"}}, {ID: "b", URL: &url.URL{Scheme: "http", Host: "b:9200"}}}
	asked := 0
	p := New(cluster.NewStore(cluster.StoreOptions{}), Options{Client: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		asked++
		w, answer := httptest.NewRecorder(), `{"shards":[[{"index":"logs","shard":0}]]}`
		if r.URL.Host == "a:9200" {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"error":{"type":"index_not_found_exception"},"status":404}`
		}
		_, err := w.WriteString(answer)
		return w.Result(), err
	})}})
	discover(p, nodes)
	p.endpoints.use(nodes)
	p.newest.Store(nodes[0].URL)
	found := p.LookUp(t.Context(), cluster.LookUp{Target: cluster.Target{Expression: "logs"}})
	require.NotNil(t, found)
	require.True(t, found.Unknown)
	require.Equal(t, 1, asked)
}
