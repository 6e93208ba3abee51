package cluster

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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// inProcess asks the nodes of a fake without a connection, so that time can be virtual.
type inProcess struct {
	f       *fake
	takes   time.Duration // a look-up of a target that is not there
	lookUps *atomic.Int64 // of such targets
}

// invented marks the targets that clients make up: the engine knows none of them.
const invented = "invented-"

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if strings.HasPrefix(r.URL.Path, "/"+invented) && strings.HasSuffix(r.URL.Path, "/_search_shards") {
		p.lookUps.Add(1)
		if !sleep(r.Context(), p.takes) {
			return nil, r.Context().Err()
		}
		http.NotFound(w, r)
		return w.Result(), nil
	}
	for _, n := range p.f.nodes {
		if n.server.Listener.Addr().String() == r.URL.Host {
			p.f.serve(n, w, r)
		}
	}
	return w.Result(), nil
}

// tempo is how long look-ups of invented targets take, and Options.PlacementInterval.
type tempo struct{ takes, placement time.Duration }

// learning runs test beside a cluster that is ready, in virtual time. lookUps counts
// those of invented targets.
func learning(t *testing.T, at tempo, prepare func(f *fake), test func(t *testing.T, f *fake, c *Cluster, lookUps *atomic.Int64)) {
	t.Helper()
	f := newFake(t, 1)
	f.change(func() { prepare(f) })
	seed, err := url.Parse(f.nodes[0].server.URL)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		var lookUps atomic.Int64
		c := New(Options{
			Seeds: []*url.URL{seed}, Registerer: prometheus.NewRegistry(),
			Client:            &http.Client{Transport: inProcess{f, at.takes, &lookUps}},
			PlacementInterval: at.placement,
		})
		c.Start(t.Context())
		for c.Ready() != nil {
			time.Sleep(time.Millisecond)
		}
		test(t, f, c, &lookUps)
		c.Stop()
	})
}

// ask does what a search on a target does, and reports whether it is steered.
func (c *Cluster) ask(target string) bool {
	plan, miss := c.Snapshot().Resolve(target, "")
	if miss == MissUnknownTarget {
		c.Learn(target, "")
	}
	return plan != nil
}

// However many targets clients make up, few are looked up, and those in use are looked
// up again as soon as without them.
func TestInventedTargetsAreThrottled(t *testing.T) {
	t.Parallel()
	learning(t, tempo{takes: 50 * time.Millisecond}, func(f *fake) {
		f.indices = []Index{index("a", []string{"n1"}), index("b", []string{"n1"})}
		for i := range 20 {
			f.targets[Target{Expression: fmt.Sprintf("used-%d", i)}] = []ShardName{{"a", 0}}
		}
	}, func(t *testing.T, f *fake, c *Cluster, lookUps *atomic.Int64) {
		const second, searches = 60, 500
		moved, late := time.Time{}, time.Duration(0)
		for i := range second * searches {
			time.Sleep(time.Second / searches)
			if i == second*searches/2 {
				f.change(func() {
					for target := range f.targets {
						f.targets[target] = []ShardName{{"a", 0}, {"b", 0}}
					}
				})
				moved = time.Now()
			}
			c.ask(fmt.Sprintf("%s%d", invented, i))
			target := fmt.Sprintf("used-%d", i%20)
			steered := c.ask(target)
			if i > 10*searches {
				require.True(t, steered, "%s after %d searches", target, i)
			}
			if plan, _ := c.Snapshot().Resolve(target, ""); !moved.IsZero() && len(plan.Shards) == 1 {
				late = time.Since(moved)
			}
		}
		require.LessOrEqual(t, lookUps.Load(), int64(unknownBurst+unknownRate*second))
		require.Greater(t, lookUps.Load(), int64(unknownRate*second/2), "they are not locked out")
		require.Less(t, late, 2*time.Second, "the targets in use were looked up again after the version moved")
		require.Positive(t, value(t, c.metrics.learns.WithLabelValues(string(learnThrottled))))
	})
}

// A target that the engine does not know is not asked about again and again while the
// cluster state moves.
func TestMissingTargetsAreRemembered(t *testing.T) {
	t.Parallel()
	learning(t, tempo{placement: 20 * time.Millisecond}, func(f *fake) { f.indices = []Index{index("a", []string{"n1"})} },
		func(t *testing.T, f *fake, c *Cluster, lookUps *atomic.Int64) {
			for range 1000 {
				f.change(func() {})
				time.Sleep(10 * time.Millisecond)
				c.ask(invented + "x")
			}
			require.LessOrEqual(t, lookUps.Load(), int64(1+10*time.Second/missingPause))
			require.GreaterOrEqual(t, lookUps.Load(), int64(5*time.Second/missingPause))

			c.school.mu.Lock()
			defer c.school.mu.Unlock()
			for i := range maxMissing + 10 {
				c.school.missing.Add(topic{Target: Target{Expression: fmt.Sprint(i)}}, absence{})
			}
			require.Equal(t, maxMissing, c.school.missing.Len())
		})
}

// A target that clients asked for before it was there is steered as soon as the version
// of the cluster state is seen to move.
func TestCreatedTargetsAreSteeredSoon(t *testing.T) {
	t.Parallel()
	learning(t, tempo{}, func(f *fake) { f.indices = []Index{index("a", []string{"n1"})} },
		func(t *testing.T, f *fake, c *Cluster, _ *atomic.Int64) {
			absent := atomic.Bool{}
			absent.Store(true)
			f.on(func(_ *fakeNode, w http.ResponseWriter, r *http.Request) bool {
				if absent.Load() && strings.HasPrefix(r.URL.Path, "/new") {
					http.NotFound(w, r)
					return true
				}
				return false
			})
			for _, target := range []string{"new", "new-alias"} {
				absent.Store(true)
				for range 1000 { // the cluster state moves all the time
					f.change(func() {})
					time.Sleep(10 * time.Millisecond)
					require.False(t, c.ask(target))
				}
				f.change(func() {
					f.indices = append(f.indices, index(target, []string{"n1"}))
					f.targets[Target{Expression: target}] = []ShardName{{target, 0}}
				})
				absent.Store(false)
				created := time.Now()
				for !c.ask(target) {
					time.Sleep(10 * time.Millisecond)
				}
				require.Less(t, time.Since(created), c.o.PlacementInterval+100*time.Millisecond)
			}
		})
}

// What was used within the minute is not pushed out by what clients make up: neither by
// many targets nor by wide ones.
func TestTargetsInUseAreNotPushedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := testSchool()
		learn := func(name string, shards int) topic {
			about := topic{Target: Target{Expression: name}}
			s.learned(about, &lesson{shards: make([]ShardName, shards), version: 1, at: time.Now()})
			return about
		}
		kept := func(t topic) bool { _, ok := s.forSnapshot().Get(t); return ok }
		use := func(t topic) {
			l, _ := s.forSnapshot().Get(t)
			l.markUsed(time.Now().Unix())
		}
		used, once := learn("used", 1000), learn("once", 1000)
		use(used)
		use(once)
		nothing := learn("nothing", 0)
		use(nothing)
		time.Sleep(30 * time.Second)
		use(used)
		for i := range 100 {
			wide := learn(fmt.Sprintf("wide-%d", i), maxTargetShards/5)
			require.True(t, kept(wide))
		}
		require.True(t, kept(used))
		require.True(t, kept(once), "used half a minute ago")
		require.False(t, kept(nothing), "it does not resolve")
		time.Sleep(40 * time.Second)
		for i := range 2 * maxTargets {
			learn(fmt.Sprintf("many-%d", i), 1)
		}
		require.True(t, kept(used))
		require.False(t, kept(once), "used more than a minute ago")
		require.Equal(t, maxTargets, s.forSnapshot().Len())

		for i := range maxTargets { // of those in use the longest known go
			use(learn(fmt.Sprintf("busy-%d", i), 1))
		}
		require.True(t, kept(learn("new", 1)))
		require.Equal(t, maxTargets, s.forSnapshot().Len())
	})
}

// A relay looks up as few invented targets for others as for itself.
func TestInventedTargetsOfFollowersAreThrottled(t *testing.T) {
	t.Parallel()
	learning(t, tempo{}, func(f *fake) {
		f.indices = []Index{index("a", []string{"n1"})}
		f.targets[Target{Expression: "alias"}] = []ShardName{{"a", 0}}
	}, func(t *testing.T, f *fake, c *Cluster, lookUps *atomic.Int64) {
		ask := func(target string) int {
			w := httptest.NewRecorder()
			path := "/snapshot/target?version=1&about=shards&expression=" + target
			c.Snapshots().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
			return w.Code
		}
		require.Equal(t, http.StatusOK, ask("alias"))
		statuses := map[int]int{}
		for i := range 1000 {
			statuses[ask(fmt.Sprintf("%s%d", invented, i))]++
		}
		require.Equal(t, http.StatusOK, ask(invented+"1"), "it is remembered")
		require.InDelta(t, unknownBurst, lookUps.Load(), 1)
		require.Equal(t, map[int]int{http.StatusOK: int(lookUps.Load()), http.StatusServiceUnavailable: 1000 - int(lookUps.Load())}, statuses)
		f.change(func() {})
		time.Sleep(2 * time.Second / unknownRate)
		for i := range 10 {
			ask(fmt.Sprintf("%smore-%d", invented, i))
		}
		require.Equal(t, http.StatusOK, ask("alias"), "what resolved is looked up again")
	})
}
