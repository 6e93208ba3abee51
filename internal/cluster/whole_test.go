package cluster

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// paged serves _list/shards with one index a page.
func paged(f *fake, w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := 0
	if token := r.URL.Query().Get("next_token"); token != "" {
		var err error
		at, err = strconv.Atoi(strings.TrimPrefix(token, "a+/="))
		assert.NoError(f.t, err)
	}
	all := f.indices
	f.indices = all[at:min(at+1, len(all))]
	page := object{"next_token": nil, "shards": f.catShards()}
	f.indices = all
	if at+1 < len(all) {
		page["next_token"] = "a+/=" + strconv.Itoa(at+1) // is escaped on its way
	}
	assert.NoError(f.t, writeJSON(w, page))
}

func TestPagesWhereTheEngineHasThem(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2)
	f.change(func() {
		for i := range 5 {
			f.indices = append(f.indices, index("i"+strconv.Itoa(i), []string{"n1"}, []string{"n2"}))
		}
	})
	f.on(func(_ *fakeNode, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/_list/shards" {
			return false
		}
		paged(f, w, r)
		return true
	})
	w := f.watch(nil)
	for i := range 5 {
		w.resolves("i"+strconv.Itoa(i), "", []string{"n1"}, []string{"n2"})
	}
	require.Equal(t, SourceListShards, w.Snapshot().Source)
	require.Zero(t, f.count("/_cat/shards"))
	require.Equal(t, 5, f.count("/_list/shards"))
}

func TestPagesOnlyWhereTheEngineHasThem(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]int{"2.17.1": 0, "2.18.0": 1, "3.0.0": 1} {
		f := newFake(t, 1)
		f.info["version"] = object{"distribution": "opensearch", "number": number}
		w := f.watch(nil)
		w.eventually("ready", func() bool { return w.Ready() == nil })
		require.Equal(t, want, f.count("/_list/shards"), "it is not there, and is not asked for again")
		require.Equal(t, SourceCatShards, w.Snapshot().Source)
	}
}

// A limit on the length of answers is no overload: the routing table serves, and the
// node stays in good standing.
func TestResponseLimit(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	f.change(func() { f.indices = []Index{index("i", []string{"n1"})} })
	f.on(func(_ *fakeNode, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/_list/shards" && r.URL.Path != "/_cat/shards" {
			return false
		}
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	w := f.watch(nil)
	w.resolves("i", "", []string{"n1"})
	require.Equal(t, SourceRoutingTable, w.Snapshot().Source)
	w.fleet.mu.Lock()
	defer w.fleet.mu.Unlock()
	require.Empty(t, w.fleet.failed)
}

// expensive makes reading the whole placement take so long that it is not read
// again while a test runs.
func expensive(f *fake) {
	f.on(func(_ *fakeNode, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/_cat/shards" {
			return false
		}
		time.Sleep(200 * time.Millisecond) // not to be repeated for 20 s
		f.mu.Lock()
		defer f.mu.Unlock()
		assert.NoError(f.t, writeJSON(w, f.catShards()))
		return true
	})
}

const partPath = "/_cluster/state/version,routing_table/"

func TestOnlyIndicesInUseAreAskedAbout(t *testing.T) {
	t.Parallel()
	f := newFake(t, 3)
	expensive(f)
	f.change(func() {
		for i := range 20 {
			f.indices = append(f.indices, index(fmt.Sprintf("i%02d", i), []string{"n1"}))
		}
		f.targets[Target{"alias", ""}] = []ShardName{{"i07", 0}, {"i08", 0}}
	})
	w := f.watch(func(o *Options) { o.PollTimeout = 10 * time.Second })
	w.resolves("i03", "", []string{"n1"})
	w.Learn("alias", "")
	w.resolves("alias", "", []string{"n1"}, []string{"n1"})
	before := w.Snapshot()
	f.change(func() {
		f.indices[3] = index("i03", []string{"n2"})
		f.indices[7] = index("i07", []string{"n3"})
		f.indices[9] = index("i09", []string{"n3"})
	})
	w.resolves("i03", "", []string{"n2"})
	w.resolves("alias", "", []string{"n3"}, []string{"n1"})
	require.Equal(t, [][]string{{"n1"}}, nodesOf(before, "i03", ""), "published snapshots do not change")
	require.Equal(t, 1, f.count("/_cat/shards"))
	require.Equal(t, [][]string{{"n1"}}, nodesOf(w.Snapshot(), "i09", ""), "nobody searched it, so nobody asked")
	f.change(func() { f.indices[10] = index("i10", []string{"n3"}) })
	w.resolves("i09", "", []string{"n3"}) // from now on it is in use
	require.Equal(t, 1, f.count("/_cat/shards"))
	f.mu.Lock()
	defer f.mu.Unlock()
	for path := range f.asked {
		require.NotContains(t, strings.TrimPrefix(path, partPath), "i10")
	}
}

func TestNewIndexIsFoundWhenItIsSearched(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2)
	expensive(f)
	f.change(func() { f.indices = []Index{index("old", []string{"n1"})} })
	w := f.watch(func(o *Options) { o.PollTimeout = 10 * time.Second })
	w.resolves("old", "", []string{"n1"})
	f.change(func() {
		f.indices = append(f.indices, index("new", []string{"n2"}))
		f.targets[Target{"new", ""}] = []ShardName{{"new", 0}}
	})
	w.eventually("the version moved", func() bool { return w.Snapshot().Version == f.currentVersion() })
	_, miss := w.Snapshot().Resolve("new", "")
	require.Equal(t, MissUnknownTarget, miss)
	w.eventually("found", func() bool {
		w.Learn("new", "")
		return len(nodesOf(w.Snapshot(), "new", "")) == 1
	})
	require.Equal(t, 1, f.count("/_cat/shards"))
	f.change(func() {
		f.indices = f.indices[:1]
		delete(f.targets, Target{"new", ""})
	})
	w.eventually("gone", func() bool { _, ok := w.Snapshot().Lookup("new"); return !ok })
}

func (f *fake) currentVersion() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.version
}

// An index that was not asked about for long passes when it is searched again, until
// it was looked up.
func TestWhatIsNotBelievedIsLookedUp(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2)
	expensive(f)
	f.change(func() {
		f.indices = []Index{index("i", []string{"n1"}), index("j", []string{"n1"})}
		f.targets[Target{"alias", ""}] = []ShardName{{"j", 0}}
	})
	w := f.watch(func(o *Options) { o.PollTimeout = 10 * time.Second })
	w.eventually("placed", func() bool { s := w.Snapshot(); return s != nil && s.table != nil })
	w.Learn("alias", "")
	w.resolves("alias", "", []string{"n1"})
	outdate := func(name string) { // as if the version had moved long ago
		w.publishing.Lock()
		defer w.publishing.Unlock()
		k := &w.known
		k.trusted, k.history = k.version, []stateVersion{{Version: k.version}}
		k.table = k.table.edited()
		k.table.get(name).version.Store(k.trusted - 1)
		w.announce()
	}
	for _, tt := range []struct{ target, index string }{{"i", "i"}, {"alias", "j"}} {
		outdate(tt.index)
		s := w.Snapshot()
		_, miss := s.Resolve(tt.target, "")
		require.Equal(t, MissUnknownTarget, miss, tt.target)
		w.Learn(tt.target, "")
		w.resolves(tt.target, "", []string{"n1"})
	}
	require.Equal(t, 1, f.count("/_cat/shards"))
}

// Behind one address another node may answer than the one that told the version:
// one that is behind confirms nothing.
func TestAnswerOfANodeThatIsBehind(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2)
	f.change(func() { f.indices = []Index{index("i", []string{"n1"})} })
	w := f.watch(nil)
	w.resolves("i", "", []string{"n1"})
	f.on(func(_ *fakeNode, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != partPath+"i" && r.URL.Path != "/_cat/shards" {
			return false
		}
		if r.URL.Path == "/_cat/shards" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		old := &fake{uuid: f.uuid, version: f.version - 1, indices: []Index{index("i", []string{"n1"})}}
		assert.NoError(f.t, writeJSON(w, old.routingTable(&fakeNode{}, "i")))
		return true
	})
	version := w.Snapshot().Version
	f.change(func() { f.indices = []Index{index("i", []string{"n2"})} })
	asked := f.count(partPath + "i")
	w.eventually("asked again and again", func() bool { return f.count(partPath+"i") > asked+3 })
	require.Equal(t, version, w.Snapshot().Version)
	f.on(nil)
	w.resolves("i", "", []string{"n2"})
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
		var all [][]Index
		if _, err := parseListShards(strings.NewReader(string(body)), b); err == nil {
			all = append(all, b.indices())
		}
		if state, err := parseRoutingTable(strings.NewReader(string(body)), newPlacementBuilder(nil)); err == nil {
			require.Positive(t, state.version)
			all = append(all, state.indices)
		}
		for _, indices := range all {
			s := NewSnapshot(Contents{Nodes: []*Node{{ID: "a"}}, Indices: indices})
			for _, index := range indices {
				plan, miss := s.Resolve(index.Name, "")
				require.Equal(t, plan == nil, miss != MissNone)
			}
		}
	})
}
