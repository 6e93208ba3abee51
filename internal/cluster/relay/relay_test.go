package relay

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
	"sidestep/internal/cluster/poll"
	"sidestep/internal/es"
	"sidestep/internal/testkit"
)

// address is one behind which relays stand, any number of them or none.
type address struct {
	*httptest.Server
	handler atomic.Pointer[http.Handler]
	asked   atomic.Int64
}

func newAddress(t *testing.T) *address {
	a := &address{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.asked.Add(1)
		if h := a.handler.Load(); h != nil {
			(*h).ServeHTTP(w, r)
			return
		}
		panic(http.ErrAbortHandler)
	}))
	a.Config.ErrorLog = nil
	t.Cleanup(a.Close)
	return a
}

func (a *address) use(h http.Handler) {
	if h == nil {
		a.handler.Store(nil)
		return
	}
	a.handler.Store(&h)
}

// counting counts the requests that go to the cluster, by kind of path.
type counting struct {
	http.RoundTripper
	requests atomic.Int64
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// relaying is a running poller under test, with all it reported, and the relay that it
// is for others.
type relaying struct {
	*poll.Poller
	*clustertest.Recorder
	server *Server
}

// start starts sidestep's view of the fake with short intervals, and patience with its answers.
func start(t *testing.T, f *clustertest.Fake, tweak func(*poll.Options)) *relaying {
	t.Helper()
	return startProbing(t, f, nil, tweak)
}

// startProbing is start of one that probes.
func startProbing(t *testing.T, f *clustertest.Fake, prober Prober, tweak func(*poll.Options)) *relaying {
	t.Helper()
	transport := &http.Transport{}
	seed, err := url.Parse(f.Nodes[0].Server.URL)
	require.NoError(t, err)
	w := &relaying{Recorder: clustertest.NewRecorder(t, cluster.StoreOptions{})}
	o := poll.Options{
		Seeds: []*url.URL{seed}, Client: &http.Client{Transport: transport}, Registerer: w.Registry,
		DiscoveryInterval: 50 * time.Millisecond, PlacementInterval: 20 * time.Millisecond,
		StatsInterval: 20 * time.Millisecond, StatsTimeout: clustertest.Soon, PollTimeout: clustertest.Soon,
		OnStats: func(s cluster.NodeStats) { w.OnStats(s) },
	}
	if tweak != nil {
		tweak(&o)
	}
	w.Poller = poll.New(w.Recorder.Store, o)
	w.server = NewServer(w.Poller, prober, w.Registry)
	w.Start(context.Background())
	t.Cleanup(func() {
		w.Stop()
		transport.CloseIdleConnections()
	})
	return w
}

// follow starts a sidestep that has the address for its relay; polls counts what it
// asks the cluster itself.
func follow(t *testing.T, f *clustertest.Fake, at *address, tweak func(*poll.Options, *Options)) (w *relaying, polls *counting) {
	t.Helper()
	polls = &counting{}
	relays := &http.Transport{}
	w = start(t, f, func(o *poll.Options) {
		polls.RoundTripper = o.Client.Transport
		o.Client = &http.Client{Transport: polls}
		u, err := url.Parse(at.URL + "/snapshot")
		require.NoError(t, err)
		r := Options{URL: u, Client: &http.Client{Transport: relays}, Silence: 2 * time.Second}
		if tweak != nil {
			tweak(o, &r)
		}
		o.Source = NewFollower(r)
	})
	t.Cleanup(relays.CloseIdleConnections)
	return w, polls
}

func TestFollowerKnowsWhatTheRelayKnows(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("logs-1", []string{"n1", "n2"}), clustertest.Index("logs-2", []string{"n2", "n3"})}
		f.Targets[cluster.Target{Expression: "logs-*"}] = []cluster.ShardName{{Index: "logs-1", Number: 0}, {Index: "logs-2", Number: 0}}
		f.Metadata["logs-1"] = clustertest.Object{"routing_num_shards": 1, "settings": clustertest.Object{"index": clustertest.Object{"number_of_shards": "1"}}}
		f.Nodes[1].Queries = [2]int64{100, 1000}
		f.Announced.Settings = clustertest.Object{"persistent": clustertest.Object{"cluster.routing.allocation.exclude._name": "name-n2"}}
	})
	relay := start(t, f, nil)
	at := newAddress(t)
	at.use(relay.server)
	w, polls := follow(t, f, at, func(_ *poll.Options, r *Options) { r.Silence = clustertest.Soon })
	w.Resolves("logs-1", "", []string{"n1", "n2"})
	w.Eventually("it is ready", func() bool { return w.Ready() == nil })
	require.Equal(t, poll.StateOK, w.Status().State)
	require.True(t, w.Follows())
	require.Equal(t, relay.Snapshot().Nodes, w.Snapshot().Nodes)
	require.Equal(t, cluster.Excluded, w.Snapshot().Nodes[1].Leaving)
	require.Equal(t, "e-n2", w.Snapshot().Nodes[1].EphemeralID)
	require.InDelta(t, 0, time.Since(w.Snapshot().PlacedAt), float64(clustertest.Soon))

	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("logs-1", []string{"n3", "n2"}), clustertest.Index("logs-3", []string{"n1"})}
		f.Targets[cluster.Target{Expression: "logs-*"}] = []cluster.ShardName{{Index: "logs-1", Number: 0}, {Index: "logs-3", Number: 0}}
	})
	w.Resolves("logs-1", "", []string{"n2", "n3"})
	w.Resolves("logs-3", "", []string{"n1"})
	w.MissIs("logs-2", "", cluster.MissUnknownTarget)

	w.Learn("logs-*", "")
	w.Resolves("logs-*", "", []string{"n2", "n3"}, []string{"n1"})
	w.LearnLayout("logs-1")
	w.Eventually("a layout is learned", func() bool {
		_, miss := w.Snapshot().Locate([]es.Document{{Index: "logs-1", ID: "1"}})
		return miss == cluster.MissNone
	})
	w.Learn("nothing", "")
	w.Eventually("an unknown target is learned", func() bool {
		return w.Metric("sidestep_cluster_learns_total", "empty") > 0
	})

	f.Change(func() { f.Nodes[1].Queries = [2]int64{150, 1500} })
	w.Eventually("statistics come as differences", func() bool {
		s, ok := w.Stat("n2", func(s cluster.NodeStats) bool { return s.Queries == 50 })
		return ok && s.ServiceTime == 10*time.Millisecond && s.Elapsed > 0 && s.Took > 0 && time.Since(s.At) < clustertest.Soon
	})
	f.Nodes[2].Server.CloseClientConnections()
	f.Nodes[2].Server.Close()
	w.Eventually("failures are told", func() bool {
		s, ok := w.Stat("n3", func(s cluster.NodeStats) bool { return s.State == cluster.PollUnreachable })
		return ok && s.Err != nil
	})
	require.Equal(t, int64(1), polls.requests.Load(), "of the cluster itself only who it is was asked")
}

func TestSilentRelayIsReplacedByOwnPolls(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]http.Handler{
		"gone":      nil,
		"silent":    http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { clustertest.Hang(r) }),
		"forbidden": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }),
		"not ready": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }),
		"a page": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<!doctype html>")
		}),
		"other version": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = clustertest.WriteJSON(w, clustertest.Object{"version": 2, "relay": "x", "seq": 1})
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := clustertest.New(t, 2)
			f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1", "n2"})} })
			relay := start(t, f, nil)
			at := newAddress(t)
			at.use(silent)
			w, polls := follow(t, f, at, nil)
			w.Resolves("a", "", []string{"n1", "n2"})
			require.False(t, w.Follows(), "a relay that never answered is not waited for")

			at.use(relay.server)
			w.Eventually("it follows", w.Follows)
			f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n2"})} })
			w.Resolves("a", "", []string{"n2"})
			w.Eventually("own polls end", func() bool {
				before := polls.requests.Load()
				time.Sleep(100 * time.Millisecond)
				return polls.requests.Load() == before
			})
			require.Zero(t, w.Metric("sidestep_cluster_stats_interval_seconds"))

			at.use(silent)
			w.Eventually("it polls", func() bool { return !w.Follows() })
			f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})} })
			w.Resolves("a", "", []string{"n1"})
			require.NoError(t, w.Ready())
			require.GreaterOrEqual(t, w.Metric("sidestep_cluster_source_changes_total", "polls"), 2.0)
			require.GreaterOrEqual(t, w.Metric("sidestep_cluster_source_changes_total", "relay"), 1.0)
		})
	}
}

func TestSeveralRelaysBehindOneAddress(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1", "n2"})} })
	relays := []http.Handler{start(t, f, nil).server, start(t, f, nil).server}
	var turn atomic.Int64
	at := newAddress(t)
	at.use(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		relays[turn.Add(1)%2].ServeHTTP(w, r)
	}))
	w, _ := follow(t, f, at, func(_ *poll.Options, r *Options) { r.Silence = clustertest.Soon })
	w.Resolves("a", "", []string{"n1", "n2"})
	for i := range 4 {
		node := "n" + strconv.Itoa(i%2+1)
		f.Change(func() {
			f.Indices = []cluster.Index{clustertest.Index("a", []string{node}), clustertest.Index("b"+strconv.Itoa(i), []string{node})}
		})
		w.Resolves("a", "", []string{node})
		w.Resolves("b"+strconv.Itoa(i), "", []string{node})
	}
	require.True(t, w.Follows())
	require.Len(t, believedOf(w.Snapshot()), 2)
}

// Searches must not be sent to copies of another cluster, whatever a relay says.
func TestRelayOfAnotherClusterIsNotBelieved(t *testing.T) {
	t.Parallel()
	other := clustertest.New(t, 2)
	other.Change(func() {
		other.UUID = "uuid-2"
		other.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"}), clustertest.Index("b", []string{"n1"})}
	})
	at := newAddress(t)
	at.use(start(t, other, nil).server)
	f := clustertest.New(t, 2)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n2"})} })
	w, _ := follow(t, f, at, nil)
	w.Resolves("a", "", []string{"n2"})
	asked := at.asked.Load()
	w.Eventually("the relay is asked again", func() bool { return at.asked.Load() > asked })
	require.False(t, w.Follows())
	require.Equal(t, "uuid-1", w.Snapshot().ClusterUUID)
	w.MissIs("b", "", cluster.MissUnknownTarget)
}

// Whichever reports a reader misses, it knows what a new reader knows.
func TestReportsAddUp(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var s *cluster.Snapshot
		told := newFeed(func() *cluster.Snapshot { return s }, time.Millisecond, nil)
		late := NewFollower(Options{URL: &url.URL{Scheme: "http", Host: "relay"}})
		late.p = poll.New(cluster.NewStore(cluster.StoreOptions{}), poll.Options{})
		for round := range 40 {
			contents := cluster.Contents{Engine: cluster.Engine{Distribution: cluster.OpenSearch}, ClusterUUID: "u", Version: int64(round + 1), PlacedAt: time.Now()}
			for i := range 2 + rng.IntN(4) {
				contents.Nodes = append(contents.Nodes, &cluster.Node{ID: fmt.Sprintf("n%d", i+rng.IntN(2)*100), Name: "n"})
			}
			slices.SortFunc(contents.Nodes, func(a, b *cluster.Node) int { return strings.Compare(a.ID, b.ID) })
			contents.Indices = []cluster.Index{}
			for i := range rng.IntN(6) {
				n := contents.Nodes[rng.IntN(len(contents.Nodes))].ID
				placed := clustertest.Index(fmt.Sprintf("i%d", i), []string{n, "gone"}, []string{n})
				placed.Shards[1].Copies = append(placed.Shards[1].Copies, cluster.Copy{Kind: 'r', State: cluster.Unassigned})
				if rng.IntN(2) == 0 {
					placed.Shards[0].Copies[1].State = cluster.Relocating
				}
				contents.Indices = append(contents.Indices, placed)
			}
			s = cluster.NewSnapshot(contents)
			for _, n := range s.Nodes {
				told.poll(cluster.NodeStats{Node: n.ID, At: time.Now(), State: cluster.PollUnreachable, Err: io.EOF}, nil)
			}
			if round%10 == 9 {
				told.restart()
			}
			told.madeAt = time.Time{} // the next report is due
			if rng.IntN(3) > 0 && round < 39 {
				_, err := told.next(t.Context(), "", 0) // somebody else asks
				require.NoError(t, err)
				continue
			}
			if late.read(t, told) {
				require.False(t, late.read(t, told)) // everything may be of a moment ago
			}
			known := late.p.Snapshot()
			require.Equal(t, s.Nodes, known.Nodes)
			require.Equal(t, believedOf(s), believedOf(known))
			require.Equal(t, s.Version, known.Version)
		}
	}
}

// believedOf returns where all indices are that can be believed.
func believedOf(s *cluster.Snapshot) map[string]cluster.Index {
	all := map[string]cluster.Index{}
	for index, believed := range s.Indices() {
		if believed {
			all[index.Name] = *index
		}
	}
	return all
}

// read takes in the next report, and reports whether it was one of everything.
func (f *Follower) read(t *testing.T, from *feed) bool {
	t.Helper()
	body, err := from.next(t.Context(), f.relay, f.seq)
	require.NoError(t, err)
	r := decodeReport(t, body)
	require.Equal(t, r.Relay != f.relay, r.Full)
	f.apply(r)
	return r.Full
}

// decodeReport reads a report as a relay sends it.
func decodeReport(t *testing.T, body []byte) *report {
	t.Helper()
	r := &report{}
	require.NoError(t, json.Unmarshal(plain(t, bytes.NewReader(body)), r))
	return r
}

// plain returns what was compressed.
func plain(t *testing.T, body io.Reader) []byte {
	t.Helper()
	z, err := gzip.NewReader(body)
	require.NoError(t, err)
	content, err := io.ReadAll(z)
	require.NoError(t, err)
	return content
}

func TestTheRelaysClockIsFollowed(t *testing.T) {
	f := &Follower{}
	start := time.Now()
	f.tick(start, 1000)
	require.Equal(t, start, f.time(1000))
	f.tick(start.Add(300*time.Millisecond), 1200) // late by 100 ms
	require.InDelta(t, 0, f.time(1000).Sub(start), float64(7*time.Millisecond))
	f.tick(start.Add(250*time.Millisecond), 1300) // the one before was late by 50 ms
	require.Equal(t, start.Add(250*time.Millisecond), f.time(1300))
	for i := range 200 { // it goes slow
		f.tick(start.Add(time.Duration(i)*time.Second+time.Minute), int64(i)*1000)
	}
	require.InDelta(t, 0, f.time(0).Sub(start.Add(time.Minute)), float64(time.Millisecond))
}

func TestStoppingAFollowerThatPolls(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})} })
	w, polls := follow(t, f, newAddress(t), nil)
	w.Resolves("a", "", []string{"n1"})
	w.Stop()
	before := polls.requests.Load()
	time.Sleep(50 * time.Millisecond)
	require.Equal(t, before, polls.requests.Load())
}

// A relay does not make sidestep speak to nodes in the clear, or anywhere that is not
// the plain address of a node.
func TestRelayNamesAddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})} })
	relay := start(t, f, nil)
	relay.Eventually("the relay is ready", func() bool { return relay.Ready() == nil })
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.Serve(f.Nodes[0], w, r) }))
	t.Cleanup(secure.Close)
	at := newAddress(t)
	at.use(relay.server) // it names n1 by http
	var log testkit.Log
	w, _ := follow(t, f, at, func(o *poll.Options, r *Options) {
		r.Silence = clustertest.Soon
		seed, err := url.Parse(secure.URL)
		require.NoError(t, err)
		o.Seeds, o.Client = []*url.URL{seed}, secure.Client()
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	w.Eventually("it follows", func() bool { return w.Follows() && w.Ready() == nil })
	w.Resolves("a", "", []string{"n1"})
	require.Equal(t, "name-n1", w.Snapshot().Nodes[0].Name)
	require.Nil(t, w.Snapshot().Nodes[0].URL, "the upstream is https")
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"}), clustertest.Index("b", []string{"n1"})}
	})
	f.AddNode("n2") // the nodes are told again
	w.Eventually("both are known", func() bool { return len(w.Snapshot().Nodes) == 2 })
	require.Equal(t, 1, strings.Count(log.String(), "name-n1 id=n1"))
	require.Equal(t, 2, strings.Count(log.String(), "a node is not spoken to"))
}

func TestWritesQueueIsToldByRelays(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1", "n2"})}
		f.Nodes[1].Write = clustertest.Pool{Queue: 3}
	})
	relay := start(t, f, nil)
	at := newAddress(t)
	at.use(relay.server)
	w, _ := follow(t, f, at, func(_ *poll.Options, r *Options) { r.Silence = clustertest.Soon })
	for _, c := range []*relaying{relay, w} {
		c.Eventually("the queue is seen", func() bool { return c.WritesQueue("n2") })
		require.False(t, c.WritesQueue("n1"))
		require.True(t, slices.ContainsFunc(c.AllStats(), func(s cluster.NodeStats) bool { return s.Node == "n2" && s.WriteQueue == 3 }))
	}
	f.Change(func() { f.Nodes[1].Write = clustertest.Pool{} })
	for _, c := range []*relaying{relay, w} {
		c.Eventually("it has been worked off", func() bool { return !c.WritesQueue("n2") })
	}
}

func TestReportsOfOlderRelaysTellNoWrites(t *testing.T) {
	t.Parallel()
	var told reportedStats
	require.NoError(t, json.Unmarshal([]byte(`[0,950,1000,4,1,2,100,0,0,0,0,0,0,0,0,0]`), &told))
	require.True(t, told.valid())
	require.Equal(t, poll.RawPool{}, told.raw().ThreadPool.Write)
	told[16] = -1
	require.False(t, told.valid())
}

func TestCountersAreToldWhole(t *testing.T) {
	t.Parallel()
	raw := &poll.RawStats{}
	raw.ThreadPool.Search = &poll.RawPool{Threads: 1, Queue: 2, Active: 3, Completed: 4, Rejected: 5}
	raw.ThreadPool.SearchWorker = poll.RawPool{Threads: 6, Queue: 7, Active: 8, Completed: 9, Rejected: 10}
	raw.ThreadPool.Write = poll.RawPool{Queue: 11, Active: 12, Completed: 13, Rejected: 14, Threads: 18}
	raw.OS.Cgroup.CPU.Quota, raw.OS.Cgroup.CPU.Period, raw.OS.Cgroup.CPU.Stat.Throttled = 19, 20, 21
	raw.Process.CPU.Total, raw.Process.At = 22, 1_795_301_352_644
	raw.Indices.Search = poll.RawSearch{Queries: 15, QueryMillis: 16, FetchMillis: 17}
	told := reportedStats{}
	counters := countersOf(raw)
	copy(told[3:], counters[:])
	require.Equal(t, raw, told.raw())

	raw.OS.Cgroup.CPU.Quota = -1 // as nodes tell that have none
	counters = countersOf(raw)
	copy(told[3:], counters[:])
	require.True(t, told.valid())
	require.Zero(t, told.raw().OS.Cgroup.CPU.Quota)
}
