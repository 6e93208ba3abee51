package poll

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster/clustertest"
)

func TestParseCounts(t *testing.T) {
	t.Parallel()
	// Recorded before a refresh: what was written does not show.
	for engine, want := range map[string][]int64{
		"opensearch-3.6.0": {266, 235, 249, 250}, "elasticsearch-9.2.0": {272, 250, 266, 212},
	} {
		counts, err := parseCounts(golden(t, engine, "counts.json"))
		require.NoError(t, err, engine)
		require.Equal(t, &Counts{Operations: want}, counts, engine)
	}
	tests := []struct {
		name, body string
		want       *Counts
		err        string
	}{
		{
			name: "replicas do not count",
			body: `[{"shard":"1","prirep":"p","seq_no.max":"9"},{"shard":"0","prirep":"r","seq_no.max":"9"},{"shard":"0","prirep":"p","seq_no.max":"-1"},{"shard":"0","prirep":"r","seq_no.max":null}]`,
			want: &Counts{Operations: []int64{0, 10}},
		},
		{name: "a primary that is down", body: `[{"shard":"0","prirep":"p","seq_no.max":"5"},{"shard":"1","prirep":"p","seq_no.max":null}]`, err: "no primary"},
		{name: "a shard is missing", body: `[{"shard":"1","prirep":"p","seq_no.max":"5"}]`, err: "no primary"},
		{name: "a shard is there twice", body: `[{"shard":"0","prirep":"p","seq_no.max":"5"},{"shard":"0","prirep":"p","seq_no.max":"5"}]`, err: "no primary"},
		{name: "nothing", body: `[]`, err: "no primary"},
		{name: "no number", body: `[{"shard":"0","prirep":"p","seq_no.max":"many"}]`, err: `sequence number of shard 0: "many" is no count`},
		{name: "less than none", body: `[{"shard":"0","prirep":"p","seq_no.max":"-2"}]`, err: `sequence number of shard 0: "-2" is no count`},
		{name: "no shard", body: `[{"shard":"x","prirep":"p","seq_no.max":"1"}]`, err: "not a shard number"},
		{name: "no list", body: `{"error":"x"}`, err: "answer of _cat/shards"},
	}
	for _, tt := range tests {
		counts, err := parseCounts(strings.NewReader(tt.body))
		if tt.err != "" {
			require.ErrorContains(t, err, tt.err, tt.name)
			continue
		}
		require.NoError(t, err, tt.name)
		require.Equal(t, tt.want, counts, tt.name)
	}
}

// countsOf makes the cluster answer about the documents of an index.
func countsOf(f *clustertest.Fake, answer func(index string, w http.ResponseWriter)) {
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		index, ok := strings.CutPrefix(r.URL.Path, "/_cat/shards/")
		if ok {
			answer(index, w)
		}
		return ok
	})
}

// countRequests is how often the cluster was asked for documents.
func countRequests(f *clustertest.Fake) (n int) {
	f.Lock()
	defer f.Unlock()
	for path, asked := range f.Asked {
		if strings.HasPrefix(path, "/_cat/shards/") {
			n += asked
		}
	}
	return n
}

// countedIndices are what is known of indices that were used just now, and of which the counts are asked for.
func countedIndices(w *watcher, names ...string) *Indices[string] {
	w.Eventually("the cluster is known", func() bool { return w.Snapshot() != nil })
	x := NewIndices(w.Poller, IndicesOptions[string]{})
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, name := range names {
		x.keep(name, &indexFacts[string]{value: name, at: time.Now(), uuid: w.Snapshot().ClusterUUID})
		_, known := x.Counts(name)
		require.False(w.T, known)
	}
	return x
}

func TestDocumentsAreCounted(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	w := watch(t, f, nil)
	x := countedIndices(w, "i", "idle")
	(*x.known.Load())["idle"].wantedAt.Store(time.Now().Add(-2 * countedFor).Unix())
	x.keep("read", &indexFacts[string]{value: "read", at: time.Now(), uuid: w.Snapshot().ClusterUUID}) // it is searched by routing
	countsOf(f, func(_ string, w http.ResponseWriter) {
		_, _ = io.WriteString(w, `[{"shard":"0","prirep":"p","seq_no.max":"4"}]`)
	})
	require.True(t, x.countRound(t.Context()))
	counts, known := x.Counts("i")
	require.True(t, known)
	require.Equal(t, []int64{5}, counts.Operations)
	require.False(t, counts.At.IsZero())
	require.Equal(t, 1, countRequests(f), "neither what nobody asks for any more nor what nobody has asked for")

	countsOf(f, func(_ string, w http.ResponseWriter) {
		_, _ = io.WriteString(w, `[{"shard":"0","prirep":"p","seq_no.max":null}]`)
	})
	require.True(t, x.countRound(t.Context()))
	again, known := x.Counts("i")
	require.True(t, known)
	require.Equal(t, counts, again, "those before the primary was lost")
	_, known = x.Counts("unknown")
	require.False(t, known)

	countsOf(f, func(_ string, w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) })
	require.False(t, x.countRound(t.Context()))
	_, known = x.Counts("i")
	require.True(t, known, "no engine says this")
	countsOf(f, func(_ string, w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) })
	require.False(t, x.countRound(t.Context()))
	_, known = x.Counts("i")
	require.True(t, known, "it is about the account")

	countsOf(f, func(_ string, w http.ResponseWriter) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":{"type":"index_not_found_exception"},"status":404}`)
	})
	require.True(t, x.countRound(t.Context()))
	_, known = x.Counts("i")
	require.False(t, known, "it was deleted or closed")
}

func TestCountsAreBounded(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	w := watch(t, f, nil)
	var names []string
	for i := range maxCounted + 20 {
		names = append(names, "i"+strconv.Itoa(i))
	}
	x := countedIndices(w, names...)
	countsOf(f, func(_ string, w http.ResponseWriter) {
		_, _ = io.WriteString(w, `[{"shard":"0","prirep":"p","seq_no.max":"4"}]`)
	})
	require.True(t, x.countRound(t.Context()))
	require.Equal(t, maxCounted, countRequests(f))
	require.True(t, x.countRound(t.Context()))
	require.Equal(t, 2*maxCounted, countRequests(f))
	for _, name := range names {
		require.Positive(t, f.Count("/_cat/shards/"+name), "the others come next")
	}

	countsOf(f, func(_ string, w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) })
	require.False(t, x.countRound(t.Context()))
	require.LessOrEqual(t, countRequests(f), 2*maxCounted+maxTries, "it is not asked about the others")
}
