package poll

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

func TestPlacementFollowsTheVersion(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1", "n2"})} })
	w := watch(t, f, nil)
	w.Resolves("i", "", []string{"n1", "n2"})
	f.Change(func() {
		moving := clustertest.Index("i", []string{"n1", "n2"})
		moving.Shards[0].Copies[1].State = cluster.Relocating
		f.Indices = []cluster.Index{moving}
	})
	w.Eventually("relocating", func() bool {
		found, ok := w.Snapshot().Lookup("i")
		return ok && found.Shards[0].Copies[1].State == cluster.Relocating
	})
	w.Resolves("i", "", []string{"n1", "n2"}) // its source still serves
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1", "n3"})} })
	w.Resolves("i", "", []string{"n1", "n3"})
	f.Change(func() { f.Indices = nil })
	w.MissIs("i", "", cluster.MissUnknownTarget)
}

func TestSearchOnlyCopies(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	f.Change(func() {
		split := clustertest.Index("i", []string{"n1", "n2", "n3"})
		split.Shards[0].Copies[2].Kind = 's'
		f.Indices = []cluster.Index{split}
	})
	w := watch(t, f, nil)
	w.Resolves("i", "", []string{"n3"})
}

func TestLowerVersionIsNotBelievedAtOnce(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	f.Change(func() {
		f.Version = 20
		f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})}
	})
	w := watch(t, f, nil)
	w.Resolves("i", "", []string{"n1"})
	version := w.Snapshot().Version
	f.Mu.Lock()
	f.Nodes[2].Version = 3 // cut off: answers with the state it had
	f.Mu.Unlock()
	asked := f.Count("/_cluster/state/version")
	w.Eventually("many versions read", func() bool { return f.Count("/_cluster/state/version") > asked+12 })
	require.Equal(t, version, w.Snapshot().Version)
	f.Mu.Lock()
	f.Version = 5 // all agree: restored from elsewhere
	f.Indices = []cluster.Index{clustertest.Index("i", []string{"n2"})}
	f.Mu.Unlock()
	w.Resolves("i", "", []string{"n2"})
	require.LessOrEqual(t, w.Snapshot().Version, int64(5))
}

// While one node stands still the manager does not apply the state that all others have.
func TestManagerThatAppliesLast(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})} })
	w := watch(t, f, func(o *Options) { o.DiscoveryInterval = time.Hour })
	w.Resolves("i", "", []string{"n1"})
	f.Lock()
	f.Nodes[0].Version = f.Version
	f.Unlock()
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n2"})} })
	w.Resolves("i", "", []string{"n2"})
	w.Stop()
	w.confirms(t)
}

// confirms requires that each of some checks confirms the placement of a poller that does not work by itself any more.
func (w *watcher) confirms(t *testing.T) {
	t.Helper()
	placer := &placer{poller: w.Poller, whole: wholeState{uuid: w.Snapshot().ClusterUUID, version: w.Snapshot().Version}}
	for range 6 {
		before := w.Snapshot().PlacedAt
		require.NoError(t, placer.check(t.Context(), false))
		require.True(t, w.Snapshot().PlacedAt.After(before))
		require.Zero(t, placer.lower)
	}
}

// A node may stop between telling the version and telling the placement: the next one
// is asked at the next check.
func TestNodeThatStopsWhileItIsAsked(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})} })
	w := watch(t, f, nil)
	w.Resolves("i", "", []string{"n1"})
	var hung atomic.Bool
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == wholePath:
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		case r.URL.Path == partPath+"i" && hung.CompareAndSwap(false, true):
			clustertest.Hang(r)
			return true
		}
		return false
	})
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n2"})} })
	w.Eventually("hung", hung.Load)
	asked := f.Count("/_cluster/state/version")
	w.Resolves("i", "", []string{"n2"})
	require.LessOrEqual(t, f.Count("/_cluster/state/version"), asked+10)
}

// A read of the whole placement of a cluster that is gone may last: that of its successor does not wait for it.
func TestTheFirstPlacementDoesNotWaitForThatOfAnotherCluster(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	w := watch(t, f, func(o *Options) { o.PollTimeout = time.Minute })
	w.Eventually("ready", func() bool { return w.Ready() == nil })
	w.Stop()
	var first atomic.Bool
	ended := make(chan struct{})
	f.On(func(_ *clustertest.Node, _ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != wholePath || !first.CompareAndSwap(false, true) {
			return false
		}
		clustertest.Hang(r)
		close(ended)
		return true
	})
	placer := &placer{poller: w.Poller, whole: wholeState{uuid: f.UUID}}
	require.NoError(t, placer.check(t.Context(), true))
	w.Eventually("hangs", first.Load)
	f.Change(func() { f.UUID = "another" })
	w.store.Discovered(cluster.Identity{ClusterUUID: "another"}, w.Snapshot().Nodes, nil)
	require.NoError(t, placer.check(t.Context(), false))
	placer.wholeArrived(t.Context(), <-placer.whole.answer)
	require.True(t, w.Snapshot().HasPlacement())
	<-ended
}

// While the version stays all that is known stays true: neither what is in use is read again nor all there is.
func TestAPlacementOfAVersionIsReadOnce(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})} })
	var reads atomic.Int64
	inVirtualTime(t, f, func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.Path, wholePath) {
			reads.Add(1)
		}
		return nil, nil
	}, func(t *testing.T, p *Poller) {
		time.Sleep(5 * time.Second)
		for range 30 {
			p.Snapshot().Resolve("i", "")
			time.Sleep(time.Minute)
			require.Less(t, time.Since(p.Snapshot().PlacedAt), 2*time.Second)
		}
		require.Equal(t, int64(1), reads.Load())
		f.Change(func() {})
		time.Sleep(5 * time.Second)
		require.Equal(t, int64(3), reads.Load(), "what is in use, and all")
	})
}

// What comes into use after the version moved is read before it would not be believed any more, also where the placement of
// all takes too long to be read again.
func TestWhatComesIntoUseStaysBelieved(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"}), clustertest.Index("later", []string{"n1"})}
	})
	var wholes, parts atomic.Int64
	inVirtualTime(t, f, countReads(2*time.Second, &wholes, &parts), func(t *testing.T, p *Poller) {
		time.Sleep(5 * time.Second)
		p.Snapshot().Use("i")
		f.Change(func() {})
		time.Sleep(3 * time.Second)
		f.Change(func() {}) // what was current before the first move is believed no longer for that
		time.Sleep(5 * time.Second)
		for range 60 {
			time.Sleep(time.Second)
			for _, name := range []string{"i", "later"} {
				_, miss := p.Snapshot().Resolve(name, "")
				require.Equal(t, cluster.MissNone, miss, name)
			}
			require.Less(t, time.Since(p.Snapshot().PlacedAt), 2*time.Second)
		}
		require.Equal(t, int64(1), wholes.Load())
		require.Equal(t, int64(3), parts.Load())
	})
}

// Where what came into use cannot be read the rest stays confirmed while the version does.
func TestWhatComesIntoUseCannotBeRead(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"}), clustertest.Index("later", []string{"n1"})}
	})
	var fails atomic.Bool
	inVirtualTime(t, f, func(r *http.Request) (*http.Response, error) {
		switch {
		case r.URL.Path == wholePath:
			time.Sleep(2 * time.Second)
		case strings.HasPrefix(r.URL.Path, partPath) && fails.Load():
			return answered(r, http.StatusServiceUnavailable), nil
		}
		return nil, nil
	}, func(t *testing.T, p *Poller) {
		time.Sleep(5 * time.Second)
		p.Snapshot().Use("i")
		f.Change(func() {})
		time.Sleep(5 * time.Second)
		fails.Store(true)
		for second := range 100 {
			time.Sleep(time.Second)
			p.Snapshot().Use("later")
			_, miss := p.Snapshot().Resolve("i", "")
			require.Equal(t, cluster.MissNone, miss)
			require.Less(t, time.Since(p.Snapshot().PlacedAt), cluster.BelieveFor/2+3*time.Second)
			if second < 35 || second > 45 {
				require.Equal(t, second < 40, p.Snapshot().Believes("later"), "after %d s", second)
			}
		}
		require.Equal(t, StateOK, p.Status().State)
	})
}

func TestRefreshPlacement(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})} })
	w := watch(t, f, func(o *Options) { o.PlacementInterval = time.Hour })
	w.Resolves("i", "", []string{"n1"})
	fetches := f.Count(wholePath)
	f.Mu.Lock()
	f.Indices = []cluster.Index{clustertest.Index("i", []string{"n2"})} // the version says nothing of it
	f.Mu.Unlock()
	for range 1000 {
		w.RefreshPlacement()
	}
	w.Resolves("i", "", []string{"n2"})
	require.LessOrEqual(t, f.Count(wholePath), fetches+2)
}

// However often placement proves wrong while its cost forbids to read it again, the cluster is not asked all the time.
func TestHintsAreFollowedTwiceASecond(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})} })
	var versions, fetches atomic.Int64
	inVirtualTime(t, f, func(r *http.Request) (*http.Response, error) {
		switch {
		case r.URL.Path == "/_cluster/state/version":
			versions.Add(1)
			time.Sleep(time.Millisecond)
		case strings.HasPrefix(r.URL.Path, partPath):
			fetches.Add(1)
			time.Sleep(300 * time.Millisecond)
		}
		return nil, nil
	}, func(t *testing.T, p *Poller) {
		time.Sleep(5 * time.Second)
		versions.Store(0)
		fetches.Store(0)
		const seconds = 20
		for range seconds * 500 {
			p.Snapshot().Resolve("i", "")
			p.RefreshPlacement()
			time.Sleep(2 * time.Millisecond)
		}
		require.LessOrEqual(t, versions.Load(), int64(3*seconds+1))
		require.GreaterOrEqual(t, fetches.Load(), int64(seconds/4))
	})
}
