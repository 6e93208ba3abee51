package cluster

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDiscoverPlaceAndMeasure(t *testing.T) {
	t.Parallel()
	f := newFake(t, 3)
	f.change(func() { f.indices = []Index{index("i", []string{"n1", "n2"}, []string{"n3"})} })
	w := f.watch(nil)
	w.resolves("i", "", []string{"n1", "n2"}, []string{"n3"})
	w.eventually("ready", func() bool { return w.Ready() == nil })
	s := w.Snapshot()
	require.Equal(t, Engine{Distribution: "opensearch", Version: "3.6.0", Major: 3, Minor: 6}, s.Engine)
	require.Equal(t, SourceCatShards, s.Source)
	require.Equal(t, "c", s.ClusterName)
	require.Len(t, s.Nodes, 3)
	n := s.Nodes[1]
	require.Equal(t, "name-n2", n.Name)
	require.Equal(t, 2, n.Processors)
	require.Equal(t, f.nodes[1].server.URL, n.URL.String())
	require.Equal(t, StateOK, w.Status().State)
	for _, id := range []string{"n1", "n2", "n3"} {
		w.eventually("statistics of "+id, func() bool { _, ok := w.lastStats(id); return ok })
	}
	w.eventually("age is renewed", func() bool { return w.Snapshot().PlacedAt.After(s.PlacedAt) })
	require.Equal(t, 1, f.count("/_cat/shards"), "an unchanged version needs no fetch")
}

func TestSnapshotsArePublishedInOrder(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2)
	w := f.watch(nil)
	for i := range 5 {
		f.change(func() { f.indices = append(f.indices, index("i"+string(rune('0'+i)), []string{"n1"})) })
		w.resolves("i"+string(rune('0'+i)), "", []string{"n1"})
		w.Learn("alias", "")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 1; i < len(w.snapshots); i++ {
		require.False(t, w.snapshots[i].PlacedAt.Before(w.snapshots[i-1].PlacedAt))
		require.GreaterOrEqual(t, w.snapshots[i].Version, w.snapshots[i-1].Version)
	}
	_, miss := w.snapshots[0].Resolve("i0", "")
	require.NotEqual(t, MissNone, miss, "published snapshots do not change")
}

func TestNodesComeAndGo(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2)
	// Only changes of the cluster state can be why it is found out soon.
	w := f.watch(func(o *Options) { o.DiscoveryInterval = time.Hour })
	w.eventually("two nodes", func() bool { s := w.Snapshot(); return s != nil && len(s.Nodes) == 2 })
	f.addNode("n3")
	f.change(func() { f.indices = []Index{index("i", []string{"n3"})} })
	w.resolves("i", "", []string{"n3"})
	f.change(func() {
		f.nodes = f.nodes[:2]
		f.indices = []Index{index("i", []string{"n2"})}
	})
	w.eventually("two nodes again", func() bool { return len(w.Snapshot().Nodes) == 2 })
	w.resolves("i", "", []string{"n2"})
}

func TestSeedDiesOthersAreAsked(t *testing.T) {
	t.Parallel()
	f := newFake(t, 3)
	w := f.watch(nil)
	w.eventually("ready", func() bool { return w.Ready() == nil })
	f.nodes[0].server.CloseClientConnections()
	f.nodes[0].server.Close()
	f.change(func() {
		f.nodes = f.nodes[1:]
		f.indices = []Index{index("i", []string{"n2"})}
	})
	w.resolves("i", "", []string{"n2"})
	w.eventually("the dead one is gone", func() bool { return len(w.Snapshot().Nodes) == 2 })
	require.Equal(t, StateOK, w.Status().State)
}

func TestStuckNodeStaysKnown(t *testing.T) {
	t.Parallel()
	f := newFake(t, 3)
	w := f.watch(nil)
	w.eventually("three nodes", func() bool { s := w.Snapshot(); return s != nil && len(s.Nodes) == 3 })
	f.on(func(n *fakeNode, rw http.ResponseWriter, r *http.Request) bool {
		switch {
		case n.id == "n3":
			hang(r)
			return true
		case r.URL.Path == "/_nodes/http,os,thread_pool": // leaves out who does not answer in time
			_, err := rw.Write([]byte(`{"nodes":{"n1":{"name":"name-n1","roles":[],"http":{"publish_address":"` + f.nodes[0].server.Listener.Addr().String() + `"}}}}`))
			return err == nil
		}
		return false
	})
	f.addNode("n4") // and this one never answered
	w.eventually("four nodes", func() bool { return len(w.Snapshot().Nodes) == 4 })
	w.eventually("n3 is unresponsive", func() bool {
		s, ok := w.lastStats("n3")
		return ok && s.State == PollUnresponsive && s.Err != nil
	})
	nodes := w.Snapshot().Nodes
	require.NotNil(t, nodes[2].URL)
	require.True(t, nodes[2].Data())
	require.Nil(t, nodes[3].URL)
	require.Equal(t, "name-n4", nodes[3].Name)
}

func TestNotAnEngine(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	f.on(func(_ *fakeNode, w http.ResponseWriter, _ *http.Request) bool {
		_, err := w.Write([]byte("<html>It works!</html>"))
		return err == nil
	})
	w := f.watch(nil)
	w.eventually("not an engine", func() bool { return w.Status().State == StateNotAnEngine })
	require.Nil(t, w.Snapshot())
	require.ErrorContains(t, w.Ready(), "not_an_engine")
	require.ErrorContains(t, w.Ready(), "neither Elasticsearch nor OpenSearch")
	f.on(nil)
	w.eventually("an engine after all", func() bool { return w.Status().State == StateOK && w.Ready() == nil })
}

func TestUnauthorized(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	f.on(func(_ *fakeNode, w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, `{"error":"missing authentication credentials"}`, http.StatusUnauthorized)
		return true
	})
	w := f.watch(nil)
	w.eventually("unauthorized", func() bool { return w.Status().State == StateUnauthorized })
	require.Contains(t, w.Status().Error, "missing authentication credentials")
	f.on(func(_ *fakeNode, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/" {
			return false
		}
		http.Error(w, `{"error":"needs monitor"}`, http.StatusForbidden)
		return true
	})
	w.eventually("the rest is refused", func() bool {
		return w.Status().State == StateUnauthorized && strings.Contains(w.Status().Error, "needs monitor")
	})
}

func TestUnreachableThenBack(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	var down atomic.Bool
	down.Store(true)
	w := f.watch(func(o *Options) {
		o.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if down.Load() {
				return nil, errors.New("no route to host")
			}
			return http.DefaultTransport.RoundTrip(r)
		})}
	})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	require.Equal(t, StateConnecting, New(Options{}).Status().State)
	w.eventually("unreachable", func() bool { return w.Status().State == StateUnreachable })
	since := w.Status().Since
	require.ErrorContains(t, w.Ready(), "no route to host")
	down.Store(false)
	w.eventually("ok", func() bool { return w.Status().State == StateOK && w.Ready() == nil })
	require.True(t, w.Status().Since.After(since))
	down.Store(true)
	w.eventually("unreachable again", func() bool { return w.Status().State == StateUnreachable })
	require.NotNil(t, w.Snapshot(), "what was known stays")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestServerless(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	f.info = map[string]any{"tagline": "You Know, for Search", "version": map[string]any{"number": "8.11.0", "build_flavor": "serverless"}}
	w := f.watch(nil)
	w.missIs("i", "", MissUnsupported)
	w.eventually("said so", func() bool { return w.Status().State == StateNoShardsAPI })
	require.NoError(t, w.Ready())
	require.Zero(t, f.count("/_cat/shards"))
}

func TestEngineWithoutRootPage(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	f.on(func(_ *fakeNode, w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/":
			http.Error(w, `{"error":"Incorrect HTTP method for uri [/]"}`, http.StatusMethodNotAllowed)
		case "/_nodes/_local/http":
			_, err := w.Write([]byte(`{"cluster_name":"c","nodes":{"n1":{"version":"8.19.4","build_flavor":"default"}}}`))
			return err == nil
		default:
			return false
		}
		return true
	})
	w := f.watch(nil)
	w.eventually("ready", func() bool { return w.Ready() == nil })
	require.Equal(t, Engine{Distribution: "elasticsearch", Version: "8.19.4", Major: 8, Minor: 19, BuildFlavor: "default"}, w.Snapshot().Engine)
}

func TestOneLivingSeedIsEnough(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	stranger := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(stranger.Close)
	w := f.watch(func(o *Options) {
		for _, address := range []string{"http://127.0.0.1:1", stranger.URL} {
			u, err := url.Parse(address)
			require.NoError(t, err)
			o.Seeds = append([]*url.URL{u}, o.Seeds...)
		}
	})
	w.eventually("ready", func() bool { return w.Ready() == nil })
	require.Equal(t, StateOK, w.Status().State)
}

func TestAnotherClusterBehindTheAddress(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	f.change(func() { f.indices = []Index{index("old", []string{"n1"})} })
	f.targets[Target{"alias", ""}] = []ShardName{{"old", 0}}
	w := f.watch(nil)
	w.resolves("old", "", []string{"n1"})
	w.Learn("alias", "")
	w.resolves("alias", "", []string{"n1"})
	f.change(func() {
		f.uuid, f.version = "uuid-2", 1
		f.indices = []Index{index("new", []string{"n1"})}
	})
	w.resolves("new", "", []string{"n1"})
	w.missIs("old", "", MissUnknownTarget)
	w.missIs("alias", "", MissUnknownTarget)
}

func TestStaticDiscovery(t *testing.T) {
	t.Parallel()
	f := newFake(t, 3)
	f.change(func() { f.indices = []Index{index("i", []string{"n2", "n3"})} })
	w := f.watch(func(o *Options) { o.Static = true })
	w.resolves("i", "", []string{"n2", "n3"})
	w.eventually("ready", func() bool { return w.Ready() == nil })
	for _, n := range w.Snapshot().Nodes {
		require.Nil(t, n.URL)
		w.eventually("statistics of "+n.ID, func() bool { s, ok := w.lastStats(n.ID); return ok && s.State == PollOK })
	}
	f.on(func(_ *fakeNode, w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/_nodes/stats/") {
			return false
		}
		_, err := w.Write([]byte(`{"nodes":{"n1":{"thread_pool":{"search":{"queue":7}}}}}`))
		return err == nil
	})
	w.eventually("n2 is unresponsive", func() bool { s, _ := w.lastStats("n2"); return s.State == PollUnresponsive })
	w.eventually("n1 is not", func() bool { s, _ := w.lastStats("n1"); return s.State == PollOK && s.Queue == 7 })
	require.Zero(t, f.count("/_nodes/_local"+statsMetrics))
}

func TestUnsupportedIndices(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	store := func(kind string) object { return object{"settings": object{"index.store.type": kind}} }
	f.change(func() {
		f.indices = []Index{index("plain", []string{"n1"}), index("remote", []string{"n1"}), index("mounted", []string{"n1"}), index("warm", []string{"n1"})}
		f.settings = object{"plain": store("niofs"), "remote": store("remote_snapshot"), "mounted": store("snapshot"), "warm": object{"settings": object{"index.warm": "true"}}}
	})
	w := f.watch(nil)
	w.resolves("plain", "", []string{"n1"})
	for _, name := range []string{"remote", "mounted", "warm"} {
		w.missIs(name, "", MissUnsupported)
	}
}

func TestStopWhileEverythingHangs(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2)
	w := f.watch(func(o *Options) { o.PollTimeout, o.StatsTimeout = time.Hour, time.Hour })
	w.eventually("ready", func() bool { return w.Ready() == nil })
	f.on(func(_ *fakeNode, _ http.ResponseWriter, r *http.Request) bool { hang(r); return true })
	f.change(func() {})
	w.Learn("alias", "")
	w.RefreshPlacement()
	ended := make(chan struct{})
	go func() { w.Stop(); close(ended) }()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	select {
	case <-ended:
	case <-ctx.Done():
		t.Fatal("Stop does not return")
	}
}
