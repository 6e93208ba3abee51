package poll

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

func TestDiscoverPlaceAndMeasure(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1", "n2"}, []string{"n3"})} })
	w := watch(t, f, nil)
	w.Resolves("i", "", []string{"n1", "n2"}, []string{"n3"})
	w.Eventually("ready", func() bool { return w.Ready() == nil })
	s := w.Snapshot()
	require.Equal(t, cluster.Engine{Distribution: "opensearch", Version: "3.6.0", Major: 3, Minor: 6}, s.Engine)
	require.Equal(t, "c", s.ClusterName)
	require.Len(t, s.Nodes, 3)
	n := s.Nodes[1]
	require.Equal(t, "name-n2", n.Name)
	require.Equal(t, 2, n.Processors)
	require.EqualValues(t, 100<<20, n.MaxBody)
	require.Equal(t, f.Nodes[1].Server.URL, n.URL.String())
	require.Equal(t, StateOK, w.Status().State)
	for _, id := range []string{"n1", "n2", "n3"} {
		w.Eventually("statistics of "+id, func() bool { _, ok := w.LastStats(id); return ok })
	}
	w.Eventually("age is renewed", func() bool { return w.Snapshot().PlacedAt.After(s.PlacedAt) })
	require.Equal(t, 1, f.Count(wholePath), "an unchanged version needs no fetch")
}

func TestSnapshotsArePublishedInOrder(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	w := watch(t, f, nil)
	for i := range 5 {
		f.Change(func() { f.Indices = append(f.Indices, clustertest.Index("i"+string(rune('0'+i)), []string{"n1"})) })
		w.Resolves("i"+string(rune('0'+i)), "", []string{"n1"})
		w.Learn("alias", "")
	}
	snapshots := w.Published()
	for i := 1; i < len(snapshots); i++ {
		require.False(t, snapshots[i].PlacedAt.Before(snapshots[i-1].PlacedAt))
		require.GreaterOrEqual(t, snapshots[i].Version, snapshots[i-1].Version)
	}
	_, miss := snapshots[0].Resolve("i0", "")
	require.NotEqual(t, cluster.MissNone, miss, "published snapshots do not change")
}

func TestNodesComeAndGo(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	// Only changes of the cluster state can be why it is found out soon.
	w := watch(t, f, func(o *Options) { o.DiscoveryInterval = time.Hour })
	w.Eventually("two nodes", func() bool { s := w.Snapshot(); return s != nil && len(s.Nodes) == 2 })
	f.AddNode("n3")
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n3"})} })
	w.Resolves("i", "", []string{"n3"})
	f.Change(func() {
		f.Nodes = f.Nodes[:2]
		f.Indices = []cluster.Index{clustertest.Index("i", []string{"n2"})}
	})
	w.Eventually("two nodes again", func() bool { return len(w.Snapshot().Nodes) == 2 })
	w.Resolves("i", "", []string{"n2"})
}

func TestSeedDiesOthersAreAsked(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	w := watch(t, f, nil)
	w.Eventually("ready", func() bool { return w.Ready() == nil })
	f.Nodes[0].Server.CloseClientConnections()
	f.Nodes[0].Server.Close()
	f.Change(func() {
		f.Nodes = f.Nodes[1:]
		f.Indices = []cluster.Index{clustertest.Index("i", []string{"n2"})}
	})
	w.Resolves("i", "", []string{"n2"})
	w.Eventually("the dead one is gone", func() bool { return len(w.Snapshot().Nodes) == 2 })
	require.Equal(t, StateOK, w.Status().State)
}

func TestStuckNodeStaysKnown(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	w := watch(t, f, impatient)
	w.Eventually("three nodes", func() bool { s := w.Snapshot(); return s != nil && len(s.Nodes) == 3 })
	f.On(func(n *clustertest.Node, rw http.ResponseWriter, r *http.Request) bool {
		switch {
		case n.ID == "n3":
			clustertest.Hang(r)
			return true
		case r.URL.Path == "/_nodes/http,os,thread_pool": // leaves out who does not answer in time
			_, err := rw.Write([]byte(`{"nodes":{"n1":{"name":"name-n1","roles":[],"http":{"publish_address":"` + f.Nodes[0].Server.Listener.Addr().String() + `"}}}}`))
			return err == nil
		}
		return false
	})
	f.AddNode("n4") // and this one never answered
	w.Eventually("four nodes", func() bool { return len(w.Snapshot().Nodes) == 4 })
	w.Eventually("n3 is unresponsive", func() bool {
		s, ok := w.LastStats("n3")
		return ok && s.State == cluster.PollUnresponsive && s.Err != nil
	})
	nodes := w.Snapshot().Nodes
	require.NotNil(t, nodes[2].URL)
	require.True(t, nodes[2].Data())
	require.Nil(t, nodes[3].URL)
	require.Equal(t, "name-n4", nodes[3].Name)
	f.Change(func() { f.Nodes[2].Restarted = "-again" })
	w.Eventually("it has restarted", func() bool { return w.Snapshot().Nodes[2].EphemeralID == "e-n3-again" })
	require.Equal(t, "e-n3", nodes[2].EphemeralID, "what is published stays")
}

func TestNotAnEngine(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, _ *http.Request) bool {
		_, err := w.Write([]byte("<html>It works!</html>"))
		return err == nil
	})
	w := watch(t, f, nil)
	w.Eventually("not an engine", func() bool { return w.Status().State == StateNotAnEngine })
	require.Nil(t, w.Snapshot())
	require.ErrorContains(t, w.Ready(), "not_an_engine")
	require.ErrorContains(t, w.Ready(), "neither Elasticsearch nor OpenSearch")
	f.On(nil)
	w.Eventually("an engine after all", func() bool { return w.Status().State == StateOK && w.Ready() == nil })
}

func TestUnauthorized(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, `{"error":"missing authentication credentials"}`, http.StatusUnauthorized)
		return true
	})
	w := watch(t, f, nil)
	w.Eventually("unauthorized", func() bool { return w.Status().State == StateUnauthorized })
	require.Contains(t, w.Status().Error, "missing authentication credentials")
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/" {
			return false
		}
		http.Error(w, `{"error":"needs monitor"}`, http.StatusForbidden)
		return true
	})
	w.Eventually("the rest is refused", func() bool {
		return w.Status().State == StateUnauthorized && strings.Contains(w.Status().Error, "needs monitor")
	})
}

// A node that is asked first and fails is not asked again in place of another, and first only until then.
func TestTheFirstAddressIsAskedOnce(t *testing.T) {
	t.Parallel()
	nodes := make([]*cluster.Node, 4)
	for i := range nodes {
		nodes[i] = &cluster.Node{URL: &url.URL{Scheme: "http", Host: fmt.Sprintf("n%d:9200", i)}}
	}
	for i, first := range nodes {
		var asked []string
		p := New(cluster.NewStore(cluster.StoreOptions{}), Options{Client: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, r.URL.Host)
			return nil, errors.New("no route to host")
		})}})
		p.endpoints.use(nodes)
		p.endpoints.next = i
		_, err := p.endpoints.askFirst(t.Context(), first.URL, Query{Kind: kindVersion, Deadline: time.Second})
		require.Error(t, err)
		require.Equal(t, first.URL.Host, asked[0])
		require.Len(t, asked, maxTries)
		_, err = p.endpoints.askFirst(t.Context(), first.URL, Query{Kind: kindVersion, Deadline: time.Second})
		require.Error(t, err)
		require.NotEqual(t, first.URL.Host, asked[maxTries])
		for _, round := range [][]string{asked[:maxTries], asked[maxTries:]} {
			slices.Sort(round)
			require.Len(t, slices.Compact(round), maxTries)
		}
	}
}

// Whoever asks why sidestep is not ready is told what the cluster said.
func TestPlacementIsRefused(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/_nodes") || strings.Contains(r.URL.RawQuery, "nodes") {
			return false
		}
		http.Error(w, `{"error":"needs monitor"}`, http.StatusForbidden)
		return true
	})
	w := watch(t, f, nil)
	w.Eventually("placement is refused", func() bool {
		err := w.Ready()
		return w.Snapshot() != nil && err != nil && strings.Contains(err.Error(), "placement of shard copies is not known yet: ") && strings.Contains(err.Error(), "needs monitor")
	})
}

func TestUnreachableThenBack(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	var down atomic.Bool
	down.Store(true)
	w := watch(t, f, func(o *Options) {
		o.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if down.Load() {
				return nil, errors.New("no route to host")
			}
			return http.DefaultTransport.RoundTrip(r)
		})}
	})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	require.Equal(t, StateConnecting, New(cluster.NewStore(cluster.StoreOptions{}), Options{}).Status().State)
	w.Eventually("unreachable", func() bool { return w.Status().State == StateUnreachable })
	since := w.Status().Since
	require.ErrorContains(t, w.Ready(), "no route to host")
	down.Store(false)
	w.Eventually("ok", func() bool { return w.Status().State == StateOK && w.Ready() == nil })
	require.True(t, w.Status().Since.After(since))
	down.Store(true)
	w.Eventually("unreachable again", func() bool { return w.Status().State == StateUnreachable })
	require.NotNil(t, w.Snapshot(), "what was known stays")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestServerless(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Info = map[string]any{"tagline": "You Know, for Search", "version": map[string]any{"number": "8.11.0", "build_flavor": "serverless"}}
	w := watch(t, f, nil)
	w.MissIs("i", "", cluster.MissUnsupported)
	w.Eventually("said so", func() bool { return w.Status().State == StateNoShardsAPI })
	require.NoError(t, w.Ready())
	require.Zero(t, f.Count(wholePath))
}

func TestEngineWithoutRootPage(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
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
	w := watch(t, f, nil)
	w.Eventually("ready", func() bool { return w.Ready() == nil })
	require.Equal(t, cluster.Engine{Distribution: "elasticsearch", Version: "8.19.4", Major: 8, Minor: 19, BuildFlavor: "default"}, w.Snapshot().Engine)
}

func TestOneLivingSeedIsEnough(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	stranger := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(stranger.Close)
	w := watch(t, f, func(o *Options) {
		for _, address := range []string{"http://127.0.0.1:1", stranger.URL} {
			u, err := url.Parse(address)
			require.NoError(t, err)
			o.Seeds = append([]*url.URL{u}, o.Seeds...)
		}
	})
	w.Eventually("ready", func() bool { return w.Ready() == nil })
	require.Equal(t, StateOK, w.Status().State)
}

func TestAnotherClusterBehindTheAddress(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("old", []string{"n1"})} })
	f.Targets[cluster.Target{Expression: "alias", Routing: ""}] = []cluster.ShardName{{Index: "old", Number: 0}}
	w := watch(t, f, nil)
	w.Resolves("old", "", []string{"n1"})
	w.Learn("alias", "")
	w.Resolves("alias", "", []string{"n1"})
	f.Change(func() {
		f.UUID, f.Version = "uuid-2", 1
		f.Indices = []cluster.Index{clustertest.Index("new", []string{"n1"})}
	})
	w.Resolves("new", "", []string{"n1"})
	w.MissIs("old", "", cluster.MissUnknownTarget)
	w.MissIs("alias", "", cluster.MissUnknownTarget)
}

func TestStaticDiscovery(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n2", "n3"})} })
	w := watch(t, f, func(o *Options) { o.Static = true })
	w.Resolves("i", "", []string{"n2", "n3"})
	w.Eventually("ready", func() bool { return w.Ready() == nil })
	for _, n := range w.Snapshot().Nodes {
		require.Nil(t, n.URL)
		w.Eventually("statistics of "+n.ID, func() bool { s, ok := w.LastStats(n.ID); return ok && s.State == cluster.PollOK })
	}
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/_nodes/stats/") {
			return false
		}
		_, err := w.Write([]byte(`{"nodes":{"n1":{"thread_pool":{"search":{"queue":7}}}}}`))
		return err == nil
	})
	w.Eventually("n2 is unresponsive", func() bool { s, _ := w.LastStats("n2"); return s.State == cluster.PollUnresponsive })
	w.Eventually("n1 is not", func() bool { s, _ := w.LastStats("n1"); return s.State == cluster.PollOK && s.Queue == 7 })
	require.Zero(t, f.Count("/_nodes/_local"+statsMetrics))
}

// A node that is cut off from the others, behind one of several addresses, says of itself alone how it is doing.
func TestStaticDiscoveryBesideANodeThatIsCutOff(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1", "n2"})} })
	w := watch(t, f, func(o *Options) {
		other, err := url.Parse(f.Nodes[1].Server.URL)
		require.NoError(t, err)
		o.Static, o.Seeds = true, append(o.Seeds, other)
	})
	w.Resolves("i", "", []string{"n1", "n2"})
	f.Lock()
	f.Nodes[1].Version = f.Version
	f.Unlock()
	f.Change(func() {})
	w.Eventually("the version moved", func() bool { return w.Snapshot().Version == currentVersion(f) })
	first := f.Nodes[0].Server.Listener.Addr().String()
	w.Eventually("n1 has told it", func() bool { u := w.newest.Load(); return u != nil && u.Host == first })
	since := time.Now() // a poll that is under way may be one through n2
	w.Eventually("the next poll", func() bool { s, _ := w.LastStats("n1"); return s.At.Add(-s.Took).After(since) })
	var asked atomic.Int64
	f.On(func(n *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/_nodes/stats/") {
			return false
		}
		asked.Add(1)
		if n.ID != "n2" {
			return false
		}
		_, err := w.Write([]byte(`{"nodes":{"n2":{"thread_pool":{"search":{}}}}}`))
		return assert.NoError(t, err)
	})
	w.Eventually("it is measured", func() bool { return asked.Load() > 20 })
	_, missed := w.Stat("n1", func(s cluster.NodeStats) bool { return s.State == cluster.PollUnresponsive })
	require.False(t, missed)
}

func TestUnsupportedIndices(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	store := func(kind string) clustertest.Object {
		return clustertest.Object{"settings": clustertest.Object{"index.store.type": kind}}
	}
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("plain", []string{"n1"}), clustertest.Index("remote", []string{"n1"}), clustertest.Index("mounted", []string{"n1"}), clustertest.Index("warm", []string{"n1"})}
		f.Settings = clustertest.Object{"plain": store("niofs"), "remote": store("remote_snapshot"), "mounted": store("snapshot"), "warm": clustertest.Object{"settings": clustertest.Object{"index.warm": "true"}}}
	})
	w := watch(t, f, nil)
	w.Resolves("plain", "", []string{"n1"})
	for _, name := range []string{"remote", "mounted", "warm"} {
		w.MissIs(name, "", cluster.MissUnsupported)
	}
}

func TestStopWhileEverythingHangs(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	w := watch(t, f, func(o *Options) { o.PollTimeout, o.StatsTimeout = time.Hour, time.Hour })
	w.Eventually("ready", func() bool { return w.Ready() == nil })
	f.On(func(_ *clustertest.Node, _ http.ResponseWriter, r *http.Request) bool {
		clustertest.Hang(r)
		return true
	})
	f.Change(func() {})
	w.Learn("alias", "")
	w.RefreshPlacement()
	ended := make(chan struct{})
	go func() { w.Stop(); close(ended) }()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Soon)
	defer cancel()
	select {
	case <-ended:
	case <-ctx.Done():
		t.Fatal("Stop does not return")
	}
}

// A node that joins while a manager has not applied that yet, as another node stands still, is found at once all the same.
func TestANodeThatJoinsWhileAManagerIsBehind(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	w := watch(t, f, func(o *Options) { o.DiscoveryInterval = time.Hour })
	w.Eventually("ready", func() bool { return w.Ready() == nil && len(w.Snapshot().Nodes) == 2 })
	behind := f.StateOf(f.Nodes[0])
	f.Lock()
	f.Nodes[0].Version = f.Version
	f.Unlock()
	f.On(func(n *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		return n.ID == "n1" && r.URL.Path == "/_cluster/state/version,nodes" && assert.NoError(t, clustertest.WriteJSON(w, behind))
	})
	for i := 3; i < 7; i++ {
		f.AddNode("n" + strconv.Itoa(i))
		w.Eventually(fmt.Sprintf("%d nodes", i), func() bool { return len(w.Snapshot().Nodes) == i })
	}
}

// A node joins before it serves HTTP. It is asked for its address until it tells that, and not as rarely as all are.
func TestANodeThatJoinsBeforeItServes(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	w := watch(t, f, func(o *Options) { o.DiscoveryInterval = time.Hour })
	w.Eventually("ready", func() bool { return w.Ready() == nil && len(w.Snapshot().Nodes) == 2 })
	var asked atomic.Int64
	before := slices.Clone(f.Nodes)
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/_nodes/http,os,thread_pool" || asked.Add(1) > 1 {
			return false
		}
		nodes := clustertest.Object{}
		for _, n := range before {
			nodes[n.ID] = clustertest.Object{"http": clustertest.Object{"publish_address": n.Server.Listener.Addr().String()}}
		}
		nodes["n3"] = clustertest.Object{"name": "name-n3"}
		return assert.NoError(t, clustertest.WriteJSON(w, clustertest.Object{"nodes": nodes}))
	})
	f.AddNode("n3")
	w.Eventually("it is measured", func() bool { s, ok := w.LastStats("n3"); return ok && s.State == cluster.PollOK })
	require.GreaterOrEqual(t, asked.Load(), int64(2))
}
