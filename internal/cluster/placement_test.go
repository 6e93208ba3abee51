package cluster

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPlacementFollowsTheVersion(t *testing.T) {
	t.Parallel()
	f := newFake(t, 3)
	f.change(func() { f.indices = []Index{index("i", []string{"n1", "n2"})} })
	w := f.watch(nil)
	w.resolves("i", "", []string{"n1", "n2"})
	f.change(func() {
		moving := index("i", []string{"n1", "n2"})
		moving.Shards[0].Copies[1].State = Relocating
		f.indices = []Index{moving}
	})
	w.eventually("relocating", func() bool {
		found, ok := w.Snapshot().Lookup("i")
		return ok && found.Shards[0].Copies[1].State == Relocating
	})
	w.resolves("i", "", []string{"n1", "n2"}) // its source still serves
	f.change(func() { f.indices = []Index{index("i", []string{"n1", "n3"})} })
	w.resolves("i", "", []string{"n1", "n3"})
	f.change(func() { f.indices = nil })
	w.missIs("i", "", MissUnknownTarget)
}

func TestSearchOnlyCopies(t *testing.T) {
	t.Parallel()
	f := newFake(t, 3)
	f.change(func() {
		split := index("i", []string{"n1", "n2", "n3"})
		split.Shards[0].Copies[2].Kind = 's'
		f.indices = []Index{split}
	})
	w := f.watch(nil)
	w.resolves("i", "", []string{"n3"})
}

// catFault makes _cat/shards misbehave while set.
func catFault(f *fake, misbehave http.HandlerFunc) *atomic.Bool {
	var on atomic.Bool
	on.Store(true)
	f.on(func(_ *fakeNode, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/_cat/shards" || !on.Load() {
			return false
		}
		misbehave(w, r)
		return true
	})
	return &on
}

func TestRoutingTableWhileCatShardsFails(t *testing.T) {
	t.Parallel()
	tests := map[string]http.HandlerFunc{
		"hangs":      func(_ http.ResponseWriter, r *http.Request) { hang(r) },
		"limit":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"forbidden":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"unreadable": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`[{"index":`)) },
	}
	for name, misbehave := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, 2)
			f.change(func() { f.indices = []Index{index("i", []string{"n1"})} })
			catFault(f, misbehave)
			w := f.watch(nil)
			w.resolves("i", "", []string{"n1"})
			require.Equal(t, SourceRoutingTable, w.Snapshot().Source)
			f.change(func() { f.indices = []Index{index("i", []string{"n2"})} })
			w.resolves("i", "", []string{"n2"})
			w.eventually("ok", func() bool { return w.Status().State == StateOK })
			require.LessOrEqual(t, f.count("/_cat/shards"), 2, "it is left alone for a while")
			at := w.Snapshot().PlacedAt
			w.eventually("age is renewed", func() bool { return w.Snapshot().PlacedAt.After(at) })
		})
	}
}

func TestSlowCatShardsTakesOver(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	f.change(func() { f.indices = []Index{index("i", []string{"n1"})} })
	catFault(f, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(firstPatience + 200*time.Millisecond):
			f.mu.Lock()
			defer f.mu.Unlock()
			assert.NoError(t, writeJSON(w, f.catShards()))
		}
	})
	w := f.watch(func(o *Options) { o.PollTimeout = time.Minute })
	w.resolves("i", "", []string{"n1"})
	require.Equal(t, SourceRoutingTable, w.Snapshot().Source)
	w.eventually("cat", func() bool { return w.Snapshot().Source == SourceCatShards })
}

func TestLowerVersionIsNotBelievedAtOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t, 3)
	f.change(func() {
		f.version = 20
		f.indices = []Index{index("i", []string{"n1"})}
	})
	w := f.watch(nil)
	w.resolves("i", "", []string{"n1"})
	version := w.Snapshot().Version
	f.mu.Lock()
	f.nodes[2].version = 3 // cut off: answers with the state it had
	f.mu.Unlock()
	asked := f.count("/_cluster/state/version")
	w.eventually("many versions read", func() bool { return f.count("/_cluster/state/version") > asked+12 })
	require.Equal(t, version, w.Snapshot().Version)
	f.mu.Lock()
	f.version = 5 // all agree: restored from elsewhere
	f.indices = []Index{index("i", []string{"n2"})}
	f.mu.Unlock()
	w.resolves("i", "", []string{"n2"})
	require.LessOrEqual(t, w.Snapshot().Version, int64(5))
}

func TestRefreshPlacement(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2)
	f.change(func() { f.indices = []Index{index("i", []string{"n1"})} })
	w := f.watch(func(o *Options) { o.PlacementInterval = time.Hour })
	w.resolves("i", "", []string{"n1"})
	fetches := f.count("/_cat/shards")
	f.mu.Lock()
	f.indices = []Index{index("i", []string{"n2"})} // the version says nothing of it
	f.mu.Unlock()
	for range 1000 {
		w.RefreshPlacement()
	}
	w.resolves("i", "", []string{"n2"})
	require.LessOrEqual(t, f.count("/_cat/shards"), fetches+2)
}
