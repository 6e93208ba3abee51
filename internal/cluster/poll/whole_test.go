package poll

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

// expensive makes reading the whole placement take so long that it is not read
// again while a test runs.
func expensive(f *clustertest.Fake) {
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == wholePath {
			time.Sleep(200 * time.Millisecond) // not to be repeated for 20 s
		}
		return false
	})
}

const wholePath, partPath = "/_cluster/state/version,routing_table", wholePath + "/"

// What the first node that is asked does not tell the next one does.
func TestTheFirstPlacementIsAskedOfAnother(t *testing.T) {
	t.Parallel()
	for name, misbehave := range map[string]http.HandlerFunc{
		"hangs":      func(_ http.ResponseWriter, r *http.Request) { clustertest.Hang(r) },
		"busy":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"unreadable": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"version":`)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := clustertest.New(t, 2)
			f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})} })
			var first atomic.Bool
			f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != wholePath || !first.CompareAndSwap(false, true) {
					return false
				}
				misbehave(w, r)
				return true
			})
			w := watch(t, f, func(o *Options) {
				if name == "hangs" {
					o.PollTimeout = 2 * time.Second
				}
			})
			w.Resolves("i", "", []string{"n1"})
			require.Equal(t, 2, f.Count(wholePath))
		})
	}
}

// Why there is no placement is told, and the cluster is not asked for it all the time.
func TestAPlacementThatCannotBeRead(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	var fetches, versions atomic.Int64
	inVirtualTime(t, f, func(r *http.Request) (*http.Response, error) {
		switch r.URL.Path {
		case "/_cluster/state/version":
			versions.Add(1)
		case wholePath:
			fetches.Add(1)
			time.Sleep(time.Second)
			return nil, errors.New("too much")
		}
		return nil, nil
	}, func(t *testing.T, p *Poller) {
		time.Sleep(5 * time.Minute)
		require.InDelta(t, 300, versions.Load(), 10)
		require.InDelta(t, 300/11, fetches.Load(), 3)
		require.ErrorContains(t, p.Ready(), "too much")
		require.Equal(t, StateUnreachable, p.Status().State)
	})
}

// A large cluster, or a busy one, may take longer than cluster.poll_timeout.
func TestAPlacementThatTakesLong(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})} })
	var fetches atomic.Int64
	inVirtualTime(t, f, func(r *http.Request) (*http.Response, error) {
		if r.URL.Path != wholePath {
			return nil, nil
		}
		fetches.Add(1)
		if !Sleep(r.Context(), 7*time.Second) {
			return nil, r.Context().Err()
		}
		return nil, nil
	}, func(t *testing.T, p *Poller) {
		time.Sleep(20 * time.Second)
		require.True(t, p.Snapshot().HasPlacement())
		require.Equal(t, int64(2), fetches.Load())
		f.Change(func() { f.Indices = nil })
		time.Sleep(wholeCostFactor*7*time.Second + 20*time.Second)
		require.Zero(t, p.Snapshot().CountIndices())
		require.Equal(t, int64(3), fetches.Load(), "it is known how long it takes")
	})
}

// withManyIndices returns a cluster of two nodes with more indices than are asked about by name where all are in use.
func withManyIndices(t *testing.T) *clustertest.Fake {
	t.Helper()
	f := clustertest.New(t, 2)
	f.Change(func() {
		for i := range 2 * minHalf {
			f.Indices = append(f.Indices, clustertest.Index(fmt.Sprintf("i%03d", i), []string{"n1"}))
		}
	})
	return f
}

// countReads counts how often the placement of all is read, which takes so long, and that of some.
func countReads(takes time.Duration, wholes, parts *atomic.Int64) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		switch {
		case r.URL.Path == wholePath:
			wholes.Add(1)
			time.Sleep(takes)
		case strings.HasPrefix(r.URL.Path, partPath):
			parts.Add(1)
		}
		return nil, nil
	}
}

// If most of many indices are in use all are read at once, which confirms the placement though the version moves all the
// time. Where that takes long it is done for a tenth of the time.
func TestManyIndicesInUseAreReadAtOnce(t *testing.T) {
	t.Parallel()
	f := withManyIndices(t)
	var wholes, parts atomic.Int64
	inVirtualTime(t, f, countReads(200*time.Millisecond, &wholes, &parts), func(t *testing.T, p *Poller) {
		time.Sleep(5 * time.Second)
		for i := range 60 {
			for _, index := range f.Indices {
				p.Snapshot().Use(index.Name)
			}
			f.Change(func() { f.Indices[0] = clustertest.Index("i000", []string{fmt.Sprint("n", 1+i%2)}) })
			time.Sleep(time.Second)
			require.Less(t, time.Since(p.Snapshot().PlacedAt), 5*time.Second)
		}
		require.Zero(t, parts.Load())
		require.InDelta(t, 60/3, wholes.Load(), 6)
		time.Sleep(10 * time.Second)
		require.Equal(t, [][]string{{"n2"}}, clustertest.NodesOf(p.Snapshot(), "i000", ""))
	})
}

// Where all cannot be read at once, or not soon, the placement of many indices in use is confirmed by their names.
func TestManyIndicesInUseAreAskedAboutByName(t *testing.T) {
	t.Parallel()
	for name, took := range map[string]time.Duration{"fails": 0, "slow": 4 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := withManyIndices(t)
			var hurdle, wholes atomic.Int64
			inVirtualTime(t, f, func(r *http.Request) (*http.Response, error) {
				if r.URL.Path != wholePath || hurdle.Load() == 0 {
					return nil, nil
				}
				wholes.Add(1)
				if took == 0 {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				time.Sleep(took)
				return nil, nil
			}, func(t *testing.T, p *Poller) {
				time.Sleep(5 * time.Second)
				hurdle.Store(1)
				for i := range 120 {
					for _, index := range f.Indices {
						p.Snapshot().Use(index.Name)
					}
					f.Change(func() { f.Indices[0] = clustertest.Index("i000", []string{fmt.Sprint("n", 1+i%2)}) })
					time.Sleep(time.Second)
					require.Less(t, time.Since(p.Snapshot().PlacedAt), 10*time.Second)
					require.Equal(t, StateOK, p.Status().State)
				}
				require.Less(t, wholes.Load(), int64(6))
				time.Sleep(10 * time.Second)
				require.Equal(t, [][]string{{"n2"}}, clustertest.NodesOf(p.Snapshot(), "i000", ""))
			})
		})
	}
}

// What was read of a cluster that is gone, and how long that took, is of no account.
func TestTheWholePlacementOfAnotherClusterIsReadAtOnce(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})} })
	inVirtualTime(t, f, func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == wholePath {
			time.Sleep(4 * time.Second)
		}
		return nil, nil
	}, func(t *testing.T, p *Poller) {
		time.Sleep(20 * time.Second)
		require.True(t, p.Snapshot().HasPlacement())
		f.Change(func() { f.UUID = "another" })
		time.Sleep(20 * time.Second)
		require.Equal(t, "another", p.Snapshot().ClusterUUID)
		require.True(t, p.Snapshot().HasPlacement())
	})
}

func TestOnlyIndicesInUseAreAskedAbout(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	expensive(f)
	f.Change(func() {
		for i := range 20 {
			f.Indices = append(f.Indices, clustertest.Index(fmt.Sprintf("i%02d", i), []string{"n1"}))
		}
		f.Targets[cluster.Target{Expression: "alias", Routing: ""}] = []cluster.ShardName{{Index: "i07", Number: 0}, {Index: "i08", Number: 0}}
	})
	w := watch(t, f, func(o *Options) { o.PollTimeout = 10 * time.Second })
	w.Resolves("i03", "", []string{"n1"})
	w.Learn("alias", "")
	w.Resolves("alias", "", []string{"n1"}, []string{"n1"})
	before := w.Snapshot()
	f.Change(func() {
		f.Indices[3] = clustertest.Index("i03", []string{"n2"})
		f.Indices[7] = clustertest.Index("i07", []string{"n3"})
		f.Indices[9] = clustertest.Index("i09", []string{"n3"})
	})
	w.Resolves("i03", "", []string{"n2"})
	w.Resolves("alias", "", []string{"n3"}, []string{"n1"})
	require.Equal(t, [][]string{{"n1"}}, clustertest.NodesOf(before, "i03", ""), "published snapshots do not change")
	require.Equal(t, 1, f.Count(wholePath))
	require.Equal(t, [][]string{{"n1"}}, clustertest.NodesOf(w.Snapshot(), "i09", ""), "nobody searched it, so nobody asked")
	f.Change(func() { f.Indices[10] = clustertest.Index("i10", []string{"n3"}) })
	w.Resolves("i09", "", []string{"n3"}) // from now on it is in use
	require.Equal(t, 1, f.Count(wholePath))
	f.Lock()
	defer f.Unlock()
	for path := range f.Asked {
		require.NotContains(t, strings.TrimPrefix(path, partPath), "i10")
	}
}

func TestNewIndexIsFoundWhenItIsSearched(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	expensive(f)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("old", []string{"n1"})} })
	w := watch(t, f, func(o *Options) { o.PollTimeout = 10 * time.Second })
	w.Resolves("old", "", []string{"n1"})
	f.Change(func() {
		f.Indices = append(f.Indices, clustertest.Index("new", []string{"n2"}))
		f.Targets[cluster.Target{Expression: "new", Routing: ""}] = []cluster.ShardName{{Index: "new", Number: 0}}
	})
	w.Eventually("the version moved", func() bool { return w.Snapshot().Version == currentVersion(f) })
	_, miss := w.Snapshot().Resolve("new", "")
	require.Equal(t, cluster.MissUnknownTarget, miss)
	w.Eventually("found", func() bool {
		w.Learn("new", "")
		return len(clustertest.NodesOf(w.Snapshot(), "new", "")) == 1
	})
	require.Equal(t, 1, f.Count(wholePath))
	f.Change(func() {
		f.Indices = f.Indices[:1]
		delete(f.Targets, cluster.Target{Expression: "new", Routing: ""})
	})
	w.Eventually("gone", func() bool { _, ok := w.Snapshot().Lookup("new"); return !ok })
}

func currentVersion(f *clustertest.Fake) int64 {
	f.Lock()
	defer f.Unlock()
	return f.Version
}

// An index that was not asked about for long passes when it is searched again, until
// it was looked up.
func TestWhatIsNotBelievedIsLookedUp(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	expensive(f)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"}), clustertest.Index("j", []string{"n1"})}
		f.Targets[cluster.Target{Expression: "alias", Routing: ""}] = []cluster.ShardName{{Index: "j", Number: 0}}
	})
	w := watch(t, f, func(o *Options) { o.PollTimeout = 10 * time.Second })
	w.Eventually("placed", func() bool { s := w.Snapshot(); return s != nil && s.HasPlacement() })
	w.Learn("alias", "")
	w.Resolves("alias", "", []string{"n1"})
	outdate := func(name string) { // as if a relay had said that nobody searches it
		at := w.Snapshot()
		placed, ok := at.Lookup(name)
		require.True(t, ok)
		w.PlacedByRelay(cluster.RelayedPlacement{Version: at.Version, AsOf: at.PlacedAt, Indices: []cluster.Index{*placed}, Stale: []bool{true}})
	}
	for _, tt := range []struct{ target, index string }{{"i", "i"}, {"alias", "j"}} {
		outdate(tt.index)
		s := w.Snapshot()
		_, miss := s.Resolve(tt.target, "")
		require.Equal(t, cluster.MissUnknownTarget, miss, tt.target)
		w.Learn(tt.target, "")
		w.Resolves(tt.target, "", []string{"n1"})
	}
	require.Equal(t, 1, f.Count(wholePath))
}

// Behind one address another node may answer than the one that told the version:
// one that is behind confirms nothing.
func TestAnswerOfANodeThatIsBehind(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})} })
	w := watch(t, f, nil)
	w.Resolves("i", "", []string{"n1"})
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != partPath+"i" && r.URL.Path != wholePath {
			return false
		}
		if r.URL.Path == wholePath {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		f.Lock()
		defer f.Unlock()
		old := &clustertest.Fake{UUID: f.UUID, Version: f.Version - 1, Indices: []cluster.Index{clustertest.Index("i", []string{"n1"})}}
		assert.NoError(f.T, clustertest.WriteJSON(w, old.RoutingTable(&clustertest.Node{}, "i")))
		return true
	})
	version := w.Snapshot().Version
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n2"})} })
	asked := f.Count(partPath + "i")
	w.Eventually("asked again and again", func() bool { return f.Count(partPath+"i") > asked+3 })
	require.Equal(t, version, w.Snapshot().Version)
	f.On(nil)
	w.Resolves("i", "", []string{"n2"})
}

// The same of all indices. Of another cluster it is a failure, whatever was asked for.
func TestWholeAnswerOfAnother(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct {
		uuid   string // empty: that of the cluster
		behind int64
	}{"that is behind": {"", 1}, "cluster": {"another", -7}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := clustertest.New(t, 1)
			f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})} })
			w := watch(t, f, nil)
			w.Resolves("i", "", []string{"n1"})
			w.Stop()
			before := w.Snapshot()
			told := before.Version + 1
			f.On(func(_ *clustertest.Node, rw http.ResponseWriter, r *http.Request) bool {
				old := &clustertest.Fake{UUID: cmp.Or(answer.uuid, f.UUID), Version: told - answer.behind, Indices: f.Indices}
				assert.NoError(f.T, clustertest.WriteJSON(rw, old.RoutingTable(&clustertest.Node{}, strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, wholePath), "/"))))
				return true
			})
			placer := &placer{poller: w.Poller}
			v := stateVersion{ClusterUUID: f.UUID, Version: told, from: w.o.Seeds[0], asOf: time.Now()}
			placer.beginWhole(t.Context(), v, costFactor)
			placer.wholeArrived(t.Context(), <-placer.whole.answer)
			require.Equal(t, before.PlacedAt, w.Snapshot().PlacedAt)
			require.Equal(t, before.Version, w.Snapshot().Version)
			if answer.uuid == "" {
				require.NoError(t, placer.whole.err)
				return
			}
			require.ErrorContains(t, placer.whole.err, "of another cluster")
			_, err := placer.readInUse(t.Context(), v, []string{"i"})
			require.ErrorContains(t, err, "of another cluster")
			require.Equal(t, before.PlacedAt, w.Snapshot().PlacedAt)
		})
	}
}

func TestNamesPaths(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("logs-ä-%d", i))
	}
	paths, of := namesPaths(names)
	require.Greater(t, len(paths), 3)
	var all []string
	for i, path := range paths {
		require.LessOrEqual(t, len(path), maxNames)
		require.Len(t, strings.Split(path, ","), len(of[i]))
		all = append(all, of[i]...)
	}
	require.Equal(t, names, all)
	paths, of = namesPaths([]string{strings.Repeat("x", 255)})
	require.Len(t, paths, 1)
	require.Len(t, of[0], 1)
	paths, _ = namesPaths(nil)
	require.Empty(t, paths)
}

// FuzzRoutingTable reads answers of all kinds: what is accepted makes a table that resolves.
func FuzzRoutingTable(f *testing.F) {
	for _, engine := range []string{"opensearch-3.6.0", "elasticsearch-8.19.4"} {
		content, err := os.ReadFile(filepath.Join("testdata", engine, "routing_table.json"))
		require.NoError(f, err)
		f.Add(bytes.Replace(content, []byte("{"), []byte(`{"version":7,`), 1)) // which was not asked for
	}
	f.Add([]byte(`{"cluster_uuid":"u","version":3,"routing_table":{"indices":{"i":{"shards":{"0":[{"state":"STARTED","primary":true,"node":"a"}]}}}}}`))
	f.Add([]byte(`{"version":1e3,"routing_table":{"indices":{"i":{"shards":{"-1":[]}}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		state, err := parseRoutingTable(bytes.NewReader(body), newPlacementBuilder(nil))
		if err != nil {
			return
		}
		require.Positive(t, state.Version)
		s := cluster.NewSnapshot(cluster.Contents{Nodes: []*cluster.Node{{ID: "a"}}, Indices: state.Indices})
		for index := range s.Indices() {
			plan, miss := s.Resolve(index.Name, "")
			require.Equal(t, plan == nil, miss != cluster.MissNone)
			if plan == nil {
				continue
			}
			require.Len(t, plan.Shards, len(index.Shards))
			for i, nodes := range plan.Shards {
				require.NotEmpty(t, nodes)
				require.Equal(t, cluster.ShardName{Index: index.Name, Number: i}, plan.Names[i])
			}
		}
	})
}

// Answers about the whole placement may be longer than others: of 500,000 shards they are. They have a bound, too.
func TestLongPlacements(t *testing.T) {
	t.Parallel()
	length := int64(0)
	seed := &url.URL{Scheme: "http", Host: "n1:9200"}
	c := New(cluster.NewStore(cluster.StoreOptions{}), Options{
		Seeds: []*url.URL{seed}, PollTimeout: clustertest.Soon, Registerer: prometheus.NewRegistry(),
		Client: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			long := io.MultiReader(strings.NewReader(`{"version":1,`), io.LimitReader(blanks{}, length), strings.NewReader(`"routing_table":{}}`))
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(long), Request: r}, nil
		})},
	})
	discover(c, nil)
	length = maxBody
	_, err := c.readRoutingTable(t.Context(), seed, "", clustertest.Soon)
	require.NoError(t, err)
	relay := Query{Kind: KindRelay, Path: "snapshot", Deadline: clustertest.Soon, Decode: func(io.Reader) error { return nil }} // what follows is read
	require.NoError(t, c.Get(t.Context(), c.o.Client, seed, relay))
	length = maxPlacement
	require.ErrorContains(t, c.Get(t.Context(), c.o.Client, seed, relay), "longer than 160 MiB")
	_, err = c.readRoutingTable(t.Context(), seed, "", clustertest.Soon)
	require.ErrorContains(t, err, "longer than 160 MiB")
}

// blanks is a reader of white space.
type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
