package poll

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
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

// paged serves _list/shards with one index a page.
func paged(f *clustertest.Fake, w http.ResponseWriter, r *http.Request) {
	f.Lock()
	defer f.Unlock()
	at := 0
	if token := r.URL.Query().Get("next_token"); token != "" {
		var err error
		at, err = strconv.Atoi(strings.TrimPrefix(token, "a+/="))
		assert.NoError(f.T, err)
	}
	all := f.Indices
	f.Indices = all[at:min(at+1, len(all))]
	page := clustertest.Object{"next_token": nil, "shards": f.CatShards()}
	f.Indices = all
	if at+1 < len(all) {
		page["next_token"] = "a+/=" + strconv.Itoa(at+1) // is escaped on its way
	}
	assert.NoError(f.T, clustertest.WriteJSON(w, page))
}

func TestPagesWhereTheEngineHasThem(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	f.Change(func() {
		for i := range 5 {
			f.Indices = append(f.Indices, clustertest.Index("i"+strconv.Itoa(i), []string{"n1"}, []string{"n2"}))
		}
	})
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/_list/shards" {
			return false
		}
		paged(f, w, r)
		return true
	})
	w := watch(t, f, nil)
	for i := range 5 {
		w.Resolves("i"+strconv.Itoa(i), "", []string{"n1"}, []string{"n2"})
	}
	require.Equal(t, cluster.SourceListShards, w.Snapshot().Source)
	require.Zero(t, f.Count("/_cat/shards"))
	require.Equal(t, 5, f.Count("/_list/shards"))
}

func TestPagesOnlyWhereTheEngineHasThem(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]int{"2.17.1": 0, "2.18.0": 1, "3.0.0": 1, "7.10.2": 1} {
		f := clustertest.New(t, 1)
		f.Info["version"] = clustertest.Object{"distribution": "opensearch", "number": number}
		w := watch(t, f, nil)
		w.Eventually("ready", func() bool { return w.Ready() == nil })
		require.Equal(t, want, f.Count("/_list/shards"))
		require.Equal(t, cluster.SourceCatShards, w.Snapshot().Source)
	}
}

// While a cluster is upgraded a node of the version before may be asked for pages. They are asked for again.
func TestPagesAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})} })
	var upgraded atomic.Bool
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/_list/shards" || !upgraded.Load() {
			return false
		}
		paged(f, w, r)
		return true
	})
	w := watch(t, f, nil)
	w.Eventually("ready", func() bool { return w.Ready() == nil })
	require.Equal(t, cluster.SourceCatShards, w.Snapshot().Source)
	upgraded.Store(true)
	w.Eventually("pages are read", func() bool {
		f.Change(func() {})
		return w.Snapshot().Source == cluster.SourceListShards
	})
}

// A limit on the length of answers is no overload: the routing table serves, and the
// node stays in good standing.
func TestResponseLimit(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})} })
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/_list/shards" && r.URL.Path != "/_cat/shards" {
			return false
		}
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	w := watch(t, f, nil)
	w.Resolves("i", "", []string{"n1"})
	require.Equal(t, cluster.SourceRoutingTable, w.Snapshot().Source)
	w.endpoints.mu.Lock()
	defer w.endpoints.mu.Unlock()
	require.Empty(t, w.endpoints.failed)
}

// expensive makes reading the whole placement take so long that it is not read
// again while a test runs.
func expensive(f *clustertest.Fake) {
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/_cat/shards" {
			return false
		}
		time.Sleep(200 * time.Millisecond) // not to be repeated for 20 s
		f.Lock()
		defer f.Unlock()
		assert.NoError(f.T, clustertest.WriteJSON(w, f.CatShards()))
		return true
	})
}

const partPath = "/_cluster/state/version,routing_table/"

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
	require.Equal(t, 1, f.Count("/_cat/shards"))
	require.Equal(t, [][]string{{"n1"}}, clustertest.NodesOf(w.Snapshot(), "i09", ""), "nobody searched it, so nobody asked")
	f.Change(func() { f.Indices[10] = clustertest.Index("i10", []string{"n3"}) })
	w.Resolves("i09", "", []string{"n3"}) // from now on it is in use
	require.Equal(t, 1, f.Count("/_cat/shards"))
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
	require.Equal(t, 1, f.Count("/_cat/shards"))
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
		w.PlacedByRelay(cluster.RelayedPlacement{Source: at.Source, Version: at.Version, AsOf: at.PlacedAt, Indices: []cluster.Index{*placed}, Stale: []bool{true}})
	}
	for _, tt := range []struct{ target, index string }{{"i", "i"}, {"alias", "j"}} {
		outdate(tt.index)
		s := w.Snapshot()
		_, miss := s.Resolve(tt.target, "")
		require.Equal(t, cluster.MissUnknownTarget, miss, tt.target)
		w.Learn(tt.target, "")
		w.Resolves(tt.target, "", []string{"n1"})
	}
	require.Equal(t, 1, f.Count("/_cat/shards"))
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
		if r.URL.Path != partPath+"i" && r.URL.Path != "/_cat/shards" {
			return false
		}
		if r.URL.Path == "/_cat/shards" {
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

func TestParseListShardsRefuses(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`[]`:                              "where { was expected",
		`{}`:                              "no shards",
		`{"next_token":3,"shards":[]}`:    "cannot unmarshal",
		`{"shards":[{"index":"i"}]}`:      "not a shard number",
		`{"shards":[{"index":"i","shard"`: "EOF",
	} {
		_, err := parseListShards(strings.NewReader(body), newPlacementBuilder(nil))
		require.ErrorContains(t, err, want, body)
	}
}

// FuzzPlacement reads answers of all kinds as pages and as routing tables: what is
// accepted makes a table that resolves.
func FuzzPlacement(f *testing.F) {
	f.Add([]byte(`{"next_token":"x","shards":[{"index":"i","shard":"0","prirep":"p","state":"STARTED","id":"a"}]}`))
	f.Add([]byte(`{"cluster_uuid":"u","version":3,"routing_table":{"indices":{"i":{"shards":{"0":[{"state":"STARTED","primary":true,"node":"a"}]}}}}}`))
	f.Add([]byte(`{"shards":[{}],"version":1e3,"routing_table":{"indices":{"i":{"shards":{"-1":[]}}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		b := newPlacementBuilder(nil)
		var all [][]cluster.Index
		if _, err := parseListShards(strings.NewReader(string(body)), b); err == nil {
			all = append(all, b.indices())
		}
		if state, err := parseRoutingTable(strings.NewReader(string(body)), newPlacementBuilder(nil)); err == nil {
			require.Positive(t, state.Version)
			all = append(all, state.Indices)
		}
		for _, indices := range all {
			s := cluster.NewSnapshot(cluster.Contents{Nodes: []*cluster.Node{{ID: "a"}}, Indices: indices})
			for _, index := range indices {
				plan, miss := s.Resolve(index.Name, "")
				require.Equal(t, plan == nil, miss != cluster.MissNone)
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
			body, end := `[`, `]`
			if strings.Contains(r.URL.Path, "routing_table") {
				body, end = `{"cluster_uuid":"u","version":1,`, `"routing_table":{}}`
			}
			long := io.MultiReader(strings.NewReader(body), io.LimitReader(blanks{}, length), strings.NewReader(end))
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(long), Request: r}, nil
		})},
	})
	discover(c, nil)
	length = maxBody
	_, _, err := c.listCopies(t.Context(), seed)
	require.NoError(t, err)
	_, err = c.readRoutingTable(t.Context(), seed, "")
	require.NoError(t, err)
	relay := Query{Kind: KindRelay, Path: "snapshot", Deadline: clustertest.Soon, Decode: func(io.Reader) error { return nil }} // what follows is read
	require.NoError(t, c.Get(t.Context(), c.o.Client, seed, relay))
	length = maxPlacement
	require.ErrorContains(t, c.Get(t.Context(), c.o.Client, seed, relay), "longer than 160 MiB")
	_, _, err = c.listCopies(t.Context(), seed)
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
