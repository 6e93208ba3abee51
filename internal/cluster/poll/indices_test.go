package poll

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

// indexFound is what the tests read of an answer.
type indexFound struct {
	Metadata struct {
		Indices map[string]struct {
			State         string                     `json:"state"`
			RoutingShards int                        `json:"routing_num_shards"`
			Aliases       []string                   `json:"aliases"`
			Mappings      map[string]json.RawMessage `json:"mappings"`
			Settings      struct {
				Index struct {
					Shards    string `json:"number_of_shards"`
					Partition string `json:"routing_partition_size"`
					Pipeline  string `json:"default_pipeline"`
				} `json:"index"`
			} `json:"settings"`
		} `json:"indices"`
	} `json:"metadata"`
}

func parseIndexFound(name string, body, _ []byte) (indexFound, error) {
	var found indexFound
	if strings.Contains(name, "unreadable") {
		return found, errors.New("it cannot be read")
	}
	return found, json.Unmarshal(body, &found)
}

// knows starts to learn indices of the fake's cluster.
func (w *watcher) knows(o IndicesOptions[indexFound]) *Indices[indexFound] {
	o.Parse = parseIndexFound
	x := NewIndices(w.Poller, o)
	x.Start(w.T.Context())
	w.T.Cleanup(x.Stop)
	w.Eventually("the cluster is known", func() bool { return w.Snapshot() != nil && w.Snapshot().HasPlacement() })
	return x
}

// find looks a name up until it is known.
func (w *watcher) find(x *Indices[indexFound], name string) (found indexFound) {
	w.T.Helper()
	w.Eventually(name+" is known", func() bool {
		f, ok := x.Lookup(name)
		found = f
		return ok
	})
	return found
}

// answers makes the cluster answer with what a real engine was seen to.
func answers(f *clustertest.Fake, engine string, files map[string]string) {
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		name, ok := strings.CutPrefix(r.URL.Path, "/_cluster/state/metadata/")
		if !ok {
			return false
		}
		body, err := io.ReadAll(golden(f.T, engine, files[name]+".json"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return true
		}
		_, _ = w.Write(body)
		return true
	})
}

func TestIndicesOfRealEngines(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"opensearch-3.6.0", "elasticsearch-9.2.0"} {
		f := clustertest.New(t, 1)
		f.Change(func() {
			f.Indices = []cluster.Index{clustertest.Index("logs-a", []string{"n1"}), clustertest.Index("shut", []string{"n1"})}
		})
		answers(f, engine, map[string]string{
			"logs-a": "metadata_index", "shut": "metadata_closed", "flood-alias": "metadata_alias",
			"ds-one": "metadata_data_stream", "dc-two": "metadata_data_stream_routed", "nosuch": "metadata_missing",
		})
		w := watch(t, f, nil)
		x := w.knows(IndicesOptions[indexFound]{})

		index := w.find(x, "logs-a").Metadata.Indices["logs-a"]
		require.Equal(t, "open", index.State)
		require.Equal(t, 768, index.RoutingShards)
		require.Equal(t, "3", index.Settings.Index.Shards)
		require.Equal(t, "2", index.Settings.Index.Partition)
		require.Equal(t, "_none", index.Settings.Index.Pipeline)
		require.ElementsMatch(t, []string{"logs-alias", "logs-routed"}, index.Aliases)
		require.Contains(t, string(index.Mappings["_doc"]), `"_routing":{"required":true}`)
		require.Equal(t, "close", w.find(x, "shut").Metadata.Indices["shut"].State)

		alias := w.find(x, "flood-alias").Metadata.Indices
		require.NotContains(t, alias, "flood-alias")
		require.Equal(t, []string{"flood-alias"}, alias["flood"].Aliases)

		for _, stream := range []string{"ds-one", "dc-two"} {
			indices := w.find(x, stream).Metadata.Indices
			require.Len(t, indices, 2)
			for name, index := range indices {
				require.NotEqual(t, stream, name)
				require.Empty(t, index.Aliases)
			}
		}
		_, known := x.Lookup("nosuch")
		require.False(t, known)
		w.Eventually("a missing index is remembered", func() bool { x.mu.Lock(); defer x.mu.Unlock(); return x.missing.Contains("nosuch") })
	}
}

func TestOnlyAnIndexIsReadWhole(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	asked := make(chan string, 100)
	f.On(func(_ *clustertest.Node, _ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/_cluster/state/metadata/") {
			asked <- r.URL.Query().Get("filter_path")
		}
		return false
	})
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("placed", []string{"n1"})}
		f.Metadata["placed"], f.Metadata["new"] = clustertest.Object{"state": "open"}, clustertest.Object{"state": "open"}
		f.Aliases["placed"] = map[string]clustertest.Object{"alias": {}}
	})
	w := watch(t, f, nil)
	x := w.knows(IndicesOptions[indexFound]{})
	const brief, whole = "metadata.indices.*.routing_num_shards", "metadata.indices.*.mappings"
	for name, want := range map[string][]string{"placed": {whole}, "alias": {brief}, "new": {brief, whole}} {
		w.find(x, name)
		for _, last := range want {
			require.True(t, strings.HasSuffix(<-asked, ","+last), name)
		}
		x.enqueue(name, w.Snapshot(), time.Now()) // by a look-up that came before it was learned
		x.renew(name, (*x.known.Load())[name], w.Snapshot().Version, time.Now())
	}
	require.Empty(t, x.queued)
	require.Empty(t, asked)
}

func TestIndicesAreRenewed(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Metadata["i"] = clustertest.Object{"state": "open"} })
	w := watch(t, f, nil)
	x := w.knows(IndicesOptions[indexFound]{})
	require.Equal(t, "open", w.find(x, "i").Metadata.Indices["i"].State)

	f.Change(func() { f.Metadata["i"] = clustertest.Object{"state": "close"} })
	w.Eventually("a change is found", func() bool {
		found, known := x.Lookup("i")
		require.True(t, known, "what was known is told meanwhile")
		return found.Metadata.Indices["i"].State == "close"
	})
	f.Change(func() { delete(f.Metadata, "i") })
	w.Eventually("a deleted index is forgotten", func() bool { _, known := x.Lookup("i"); return !known })
	f.Change(func() { f.Metadata["i"] = clustertest.Object{"state": "open"} })
	w.find(x, "i")

	f.Change(func() { f.UUID = "uuid-2"; f.Metadata["i"] = clustertest.Object{"state": "close"} })
	w.Eventually("that of another cluster is not told", func() bool {
		found, known := x.Lookup("i")
		return known && found.Metadata.Indices["i"].State == "close"
	})
}

func TestIndexThatCannotBeReadAgain(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Metadata["i"] = clustertest.Object{"state": "open"} })
	w := watch(t, f, nil)
	x := w.knows(IndicesOptions[indexFound]{})
	w.find(x, "i")
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/_cluster/state/metadata/") {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	f.Change(func() {})
	w.Eventually("it was tried", func() bool {
		_, known := x.Lookup("i")
		require.True(t, known)
		return !(*x.known.Load())["i"].facts.Load().tried.IsZero()
	})
	e := (*x.known.Load())["i"]
	old := *e.facts.Load()
	old.at = old.at.Add(-factsMaxAge)
	e.facts.Store(&old)
	_, known := x.Lookup("i")
	require.False(t, known, "nor is it believed for ever")
	x.mu.Lock()
	defer x.mu.Unlock()
	require.True(t, x.missing.Contains("i"), "and it is not asked about all the time")
}

// What is known outlasts an account that is refused for a moment, which is not tried all the time.
func TestIndicesOutlastARefusedAccount(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Metadata["i"] = clustertest.Object{"state": "open"} })
	var refused, asked atomic.Int64
	inVirtualTime(t, f, func(r *http.Request) (*http.Response, error) {
		if refused.Load() == 0 || !strings.HasPrefix(r.URL.Path, "/_cluster/state/metadata/") {
			return nil, nil
		}
		asked.Add(1)
		return answered(r, http.StatusUnauthorized), nil
	}, func(t *testing.T, p *Poller) {
		x := NewIndices(p, IndicesOptions[indexFound]{Parse: parseIndexFound})
		x.Start(t.Context())
		defer x.Stop()
		time.Sleep(5 * time.Second)
		look := func(during time.Duration) (known bool) {
			for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				_, known = x.Lookup("i")
			}
			return known
		}
		require.True(t, look(time.Second))
		refused.Store(1)
		f.Change(func() {})
		for range 60 {
			require.True(t, look(time.Second))
		}
		require.Positive(t, asked.Load())
		require.LessOrEqual(t, asked.Load(), int64(7), "it rests for 10 s")
		look(factsMaxAge)
		refused.Store(0)
		require.True(t, look(12*time.Second), "it is read again soon")
	})
}

func TestOutdatedFacts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tests := []struct {
		name    string
		age     time.Duration
		version int64
		took    time.Duration
		tried   time.Duration
		want    bool
	}{
		{"the state did not move", time.Second, 5, 0, time.Hour, false},
		{"the state moved", time.Second, 6, 0, time.Hour, true},
		{"the state moved just now", factsPause - 1, 6, 0, time.Hour, false},
		{"a minute has passed", factsRenewal, 5, 0, time.Hour, true},
		{"it takes long", 9 * time.Second, 6, time.Second, time.Hour, false},
		{"it took long", 10 * time.Second, 6, time.Second, time.Hour, true},
		{"it was tried just now", time.Minute, 6, 0, factsPause - 1, false},
	}
	for _, tt := range tests {
		f := &indexFacts[int]{version: 5, at: now.Add(-tt.age), took: tt.took, tried: now.Add(-tt.tried)}
		require.Equal(t, tt.want, f.outdated(tt.version, now), tt.name)
	}
}

func TestUnreadableIndexIsNotAskedAboutAgain(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/metadata/long") {
			return false
		}
		_, _ = w.Write(bytes.Repeat([]byte(" "), maxMetadata+1))
		return true
	})
	f.Change(func() { f.Metadata["unreadable"] = clustertest.Object{"state": "open"} })
	w := watch(t, f, nil)
	x := w.knows(IndicesOptions[indexFound]{})
	for _, name := range []string{"unreadable", "long"} {
		w.Eventually(name+" is given up", func() bool {
			_, known := x.Lookup(name)
			require.False(t, known)
			x.mu.Lock()
			defer x.mu.Unlock()
			a, ok := x.missing.Peek(name)
			return ok && a.Version == math.MaxInt64 && a.Holds(1<<40, a.At.Add(factsRenewal-1)) && !a.Holds(1<<40, a.At.Add(factsRenewal))
		})
	}
}

func TestNamesOfIndicesAreBounded(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	w := watch(t, f, nil)
	w.Eventually("the cluster is known", func() bool { return w.Snapshot() != nil })
	x := NewIndices(w.Poller, IndicesOptions[indexFound]{Parse: parseIndexFound}) // not started
	for _, name := range []string{"", "_all", "*", "a*", "a,b", "<a-{now/d}>", "far:a", strings.Repeat("a", maxIndexName+1)} {
		_, known := x.Lookup(name)
		require.False(t, known)
	}
	require.Empty(t, x.fresh)
	for i := range 3 * factsBurst {
		x.Lookup("made-up-" + strconv.Itoa(i))
		x.Lookup("made-up-" + strconv.Itoa(i))
	}
	require.Len(t, x.fresh, factsBurst)
	require.Len(t, x.queued, factsBurst)

	x.mu.Lock()
	defer x.mu.Unlock()
	facts := func() *indexFacts[indexFound] { return &indexFacts[indexFound]{at: time.Now()} }
	for i := range maxIndices {
		x.keep(strconv.Itoa(i), facts())
		(*x.known.Load())[strconv.Itoa(i)].usedAt.Store(int64(1000 + i))
	}
	(*x.known.Load())["0"].usedAt.Store(5000)
	x.keep("one more", facts())
	known := *x.known.Load()
	require.Len(t, known, maxIndices)
	require.Contains(t, known, "0")
	require.NotContains(t, known, "1", "it was not used for the longest time")
}
