package cluster

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"sidestep/internal/es"
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

// follow starts a sidestep that has the address for its relay; polls counts what it
// asks the cluster itself.
func (f *fake) follow(at *address, tweak func(*Options)) (w *watcher, polls *counting) {
	polls = &counting{}
	relays := &http.Transport{}
	w = f.watch(func(o *Options) {
		polls.RoundTripper = o.Client.Transport
		o.Client = &http.Client{Transport: polls}
		u, err := url.Parse(at.URL + "/snapshot")
		require.NoError(f.t, err)
		o.Relay = Relay{URL: u, Client: &http.Client{Transport: relays}, Silence: 2 * time.Second}
		if tweak != nil {
			tweak(o)
		}
	})
	f.t.Cleanup(relays.CloseIdleConnections)
	return w, polls
}

func TestFollowerKnowsWhatTheRelayKnows(t *testing.T) {
	t.Parallel()
	f := newFake(t, 3)
	f.change(func() {
		f.indices = []Index{index("logs-1", []string{"n1", "n2"}), index("logs-2", []string{"n2", "n3"})}
		f.targets[Target{Expression: "logs-*"}] = []ShardName{{"logs-1", 0}, {"logs-2", 0}}
		f.metadata["logs-1"] = object{"routing_num_shards": 1, "settings": object{"index": object{"number_of_shards": "1"}}}
		f.nodes[1].queries = [2]int64{100, 1000}
	})
	relay := f.watch(nil)
	at := newAddress(t)
	at.use(relay.Snapshots())
	w, polls := f.follow(at, func(o *Options) { o.Relay.Silence = soon })
	w.resolves("logs-1", "", []string{"n1", "n2"})
	w.eventually("it is ready", func() bool { return w.Ready() == nil })
	require.Equal(t, StateOK, w.Status().State)
	require.True(t, w.following())
	require.Equal(t, relay.Snapshot().Nodes, w.Snapshot().Nodes)
	require.InDelta(t, 0, time.Since(w.Snapshot().PlacedAt), float64(soon))

	f.change(func() {
		f.indices = []Index{index("logs-1", []string{"n3", "n2"}), index("logs-3", []string{"n1"})}
		f.targets[Target{Expression: "logs-*"}] = []ShardName{{"logs-1", 0}, {"logs-3", 0}}
	})
	w.resolves("logs-1", "", []string{"n2", "n3"})
	w.resolves("logs-3", "", []string{"n1"})
	w.missIs("logs-2", "", MissUnknownTarget)

	w.Learn("logs-*", "")
	w.resolves("logs-*", "", []string{"n2", "n3"}, []string{"n1"})
	w.LearnLayout("logs-1")
	w.eventually("a layout is learned", func() bool {
		_, miss := w.Snapshot().Locate([]es.Document{{Index: "logs-1", ID: "1"}})
		return miss == MissNone
	})
	w.Learn("nothing", "")
	w.eventually("an unknown target is learned", func() bool {
		return testutil.ToFloat64(w.metrics.learns.WithLabelValues(string(learnEmpty))) > 0
	})

	f.change(func() { f.nodes[1].queries = [2]int64{150, 1500} })
	w.eventually("statistics come as differences", func() bool {
		s, ok := w.stat("n2", func(s NodeStats) bool { return s.Queries == 50 })
		return ok && s.ServiceTime == 10*time.Millisecond && s.Elapsed > 0 && s.Took > 0 && time.Since(s.At) < soon
	})
	f.nodes[2].server.CloseClientConnections()
	f.nodes[2].server.Close()
	w.eventually("failures are told", func() bool {
		s, ok := w.stat("n3", func(s NodeStats) bool { return s.State == PollUnreachable })
		return ok && s.Err != nil
	})
	require.Equal(t, int64(1), polls.requests.Load(), "of the cluster itself only who it is was asked")
}

// stat returns a poll that was reported.
func (w *watcher) stat(node string, like func(NodeStats) bool) (NodeStats, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.stats, func(s NodeStats) bool { return s.Node == node && like(s) })
	if i < 0 {
		return NodeStats{}, false
	}
	return w.stats[i], true
}

func TestSilentRelayIsReplacedByOwnPolls(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]http.Handler{
		"gone":      nil,
		"mute":      http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hang(r) }),
		"forbidden": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }),
		"not ready": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }),
		"a page": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<!doctype html>")
		}),
		"other version": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = writeJSON(w, object{"version": 2, "relay": "x", "seq": 1})
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, 2)
			f.change(func() { f.indices = []Index{index("a", []string{"n1", "n2"})} })
			relay := f.watch(nil)
			at := newAddress(t)
			at.use(silent)
			w, polls := f.follow(at, nil)
			w.resolves("a", "", []string{"n1", "n2"})
			require.False(t, w.following(), "a relay that never answered is not waited for")

			at.use(relay.Snapshots())
			w.eventually("it follows", w.following)
			f.change(func() { f.indices = []Index{index("a", []string{"n2"})} })
			w.resolves("a", "", []string{"n2"})
			w.eventually("own polls end", func() bool {
				before := polls.requests.Load()
				time.Sleep(100 * time.Millisecond)
				return polls.requests.Load() == before
			})

			at.use(silent)
			w.eventually("it polls", func() bool { return !w.following() })
			f.change(func() { f.indices = []Index{index("a", []string{"n1"})} })
			w.resolves("a", "", []string{"n1"})
			require.NoError(t, w.Ready())
			require.GreaterOrEqual(t, testutil.ToFloat64(w.metrics.sourceChanges.WithLabelValues(sourcePolls)), 2.0)
			require.GreaterOrEqual(t, testutil.ToFloat64(w.metrics.sourceChanges.WithLabelValues(sourceRelay)), 1.0)
		})
	}
}

func TestSeveralRelaysBehindOneAddress(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2)
	f.change(func() { f.indices = []Index{index("a", []string{"n1", "n2"})} })
	relays := []http.Handler{f.watch(nil).Snapshots(), f.watch(nil).Snapshots()}
	var turn atomic.Int64
	at := newAddress(t)
	at.use(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		relays[turn.Add(1)%2].ServeHTTP(w, r)
	}))
	w, _ := f.follow(at, func(o *Options) { o.Relay.Silence = soon })
	w.resolves("a", "", []string{"n1", "n2"})
	for i := range 4 {
		node := "n" + strconv.Itoa(i%2+1)
		f.change(func() { f.indices = []Index{index("a", []string{node}), index("b"+strconv.Itoa(i), []string{node})} })
		w.resolves("a", "", []string{node})
		w.resolves("b"+strconv.Itoa(i), "", []string{node})
	}
	require.True(t, w.following())
	require.Len(t, believedOf(w.Snapshot()), 2)
}

// Searches must not be sent to copies of another cluster, whatever a relay says.
func TestRelayOfAnotherClusterIsNotBelieved(t *testing.T) {
	t.Parallel()
	other := newFake(t, 2)
	other.change(func() {
		other.uuid = "uuid-2"
		other.indices = []Index{index("a", []string{"n1"}), index("b", []string{"n1"})}
	})
	at := newAddress(t)
	at.use(other.watch(nil).Snapshots())
	f := newFake(t, 2)
	f.change(func() { f.indices = []Index{index("a", []string{"n2"})} })
	w, _ := f.follow(at, nil)
	w.resolves("a", "", []string{"n2"})
	asked := at.asked.Load()
	w.eventually("the relay is asked again", func() bool { return at.asked.Load() > asked })
	require.False(t, w.following())
	require.Equal(t, "uuid-1", w.Snapshot().ClusterUUID)
	w.missIs("b", "", MissUnknownTarget)
}

// However many ask for a target at once, the cluster is asked once.
func TestTargetsAreLookedUpOnceForAll(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	f.change(func() {
		f.indices = []Index{index("logs-1", []string{"n1"})}
		f.targets[Target{Expression: "logs-*"}] = []ShardName{{"logs-1", 0}}
	})
	at := newAddress(t)
	at.use(f.watch(nil).Snapshots())
	followers := make([]*watcher, 10)
	for i := range followers {
		followers[i], _ = f.follow(at, nil)
		followers[i].resolves("logs-1", "", []string{"n1"})
	}
	for _, w := range followers {
		w.Learn("logs-*", "")
	}
	for _, w := range followers {
		w.resolves("logs-*", "", []string{"n1"})
	}
	require.Equal(t, 1, f.count("/logs-*/_search_shards"))
}

func TestRelayRefuses(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	f.change(func() { f.indices = []Index{index("a", []string{"n1"})} })
	relay := f.watch(nil)
	relay.eventually("the relay is ready", func() bool { return relay.Ready() == nil })
	at := newAddress(t)
	at.use(relay.Snapshots())
	chained, _ := f.follow(at, nil)
	chained.eventually("it follows", chained.following)
	for _, c := range []struct {
		name, path string
		handler    http.Handler
		status     int
		want       string
	}{
		{"no version", "/snapshot", relay.Snapshots(), 400, `speaks version 1, not ""`},
		{"another version", "/snapshot?version=2", relay.Snapshots(), 400, `speaks version 1, not "2"`},
		{"bad number", "/snapshot?version=1&after=-1", relay.Snapshots(), 400, "not the number of a report"},
		{"a relay of relays", "/snapshot?version=1", chained.Snapshots(), 503, "has a relay itself"},
		{"nothing known", "/snapshot?version=1", New(Options{Registerer: prometheus.NewRegistry()}).Snapshots(), 503, "has not answered yet"},
		{"unknown question", "/snapshot/target?version=1&about=settings&expression=a", relay.Snapshots(), 400, "not a target"},
		{"layout of many", "/snapshot/target?version=1&about=layout&expression=a,b", relay.Snapshots(), 400, "not a target"},
		{"long", "/snapshot/target?version=1&about=shards&expression=" + strings.Repeat("a", 5000), relay.Snapshots(), 400, "not a target"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			c.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, http.NoBody))
			require.Equal(t, c.status, w.Code)
			require.Contains(t, w.Body.String(), c.want)
		})
	}
}

// The number of readers, and the time each may take, is bounded.
func TestReadersAreBounded(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	f.change(func() {
		for i := range 3000 {
			f.indices = append(f.indices, index(fmt.Sprintf("%d-%x", i, rand.Uint64()), []string{"n1"}))
		}
	})
	w := f.watch(nil)
	w.eventually("the relay is ready", func() bool { return w.Ready() == nil })
	w.relay.readers = make(chan struct{}, 1)
	w.relay.patience = 50 * time.Millisecond
	body, err := w.relay.feed.next(t.Context(), "", 0)
	require.NoError(t, err)
	client, server := net.Pipe()
	defer client.Close()
	go func() { _ = http.Serve(&oneConn{conn: server}, w.Snapshots()) }()
	_, err = io.WriteString(client, "GET /snapshot?version=1 HTTP/1.1\r\nHost: relay\r\n\r\n")
	require.NoError(t, err)
	_, err = io.ReadFull(client, make([]byte, 1))
	require.NoError(t, err)
	recorder := httptest.NewRecorder()
	w.Snapshots().ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/snapshot?version=1", http.NoBody))
	require.Equal(t, http.StatusServiceUnavailable, recorder.Code)
	require.Contains(t, recorder.Body.String(), "too many readers")
	w.eventually("the slow reader is dropped", func() bool { return len(w.relay.readers) == 0 })
	rest, err := io.ReadAll(client)
	require.NoError(t, err)
	require.Less(t, len(rest), len(body), "it was cut off")
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn net.Conn
	done bool
}

func (l *oneConn) Accept() (net.Conn, error) {
	if l.done {
		return nil, errors.New("no more")
	}
	l.done = true
	return l.conn, nil
}
func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }

// Whichever reports a reader misses, it knows what a new reader knows.
func TestReportsAddUp(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := New(Options{Registerer: prometheus.NewRegistry(), StatsInterval: time.Millisecond})
		late := newFollower(New(Options{Relay: Relay{URL: &url.URL{Scheme: "http", Host: "relay"}}, Registerer: prometheus.NewRegistry()}))
		for round := range 40 {
			contents := Contents{Engine: Engine{Distribution: opensearch}, ClusterUUID: "u", Version: int64(round + 1), PlacedAt: time.Now()}
			for i := range 2 + rng.IntN(4) {
				contents.Nodes = append(contents.Nodes, &Node{ID: fmt.Sprintf("n%d", i+rng.IntN(2)*100), Name: "n"})
			}
			slices.SortFunc(contents.Nodes, func(a, b *Node) int { return strings.Compare(a.ID, b.ID) })
			contents.Indices = []Index{}
			for i := range rng.IntN(6) {
				n := contents.Nodes[rng.IntN(len(contents.Nodes))].ID
				placed := index(fmt.Sprintf("i%d", i), []string{n, "gone"}, []string{n})
				placed.Shards[1].Copies = append(placed.Shards[1].Copies, Copy{Kind: 'r', State: Unassigned})
				if rng.IntN(2) == 0 {
					placed.Shards[0].Copies[1].State = Relocating
				}
				contents.Indices = append(contents.Indices, placed)
			}
			s := NewSnapshot(contents)
			c.snapshot.Store(s)
			for _, n := range s.Nodes {
				c.relay.feed.poll(NodeStats{Node: n.ID, At: time.Now(), State: PollUnreachable, Err: io.EOF}, nil)
			}
			if round%10 == 9 {
				c.relay.feed.restart()
			}
			c.relay.feed.madeAt = time.Time{} // the next report is due
			if rng.IntN(3) > 0 && round < 39 {
				_, err := c.relay.feed.next(t.Context(), "", 0) // somebody else asks
				require.NoError(t, err)
				continue
			}
			if late.read(t, c.relay.feed) {
				require.False(t, late.read(t, c.relay.feed)) // everything may be of a moment ago
			}
			known := late.c.Snapshot()
			require.Equal(t, s.Nodes, known.Nodes)
			require.Equal(t, believedOf(s), believedOf(known))
			require.Equal(t, s.Version, known.Version)
		}
	}
}

// believedOf returns where all indices are that can be believed.
func believedOf(s *Snapshot) map[string]Index {
	all := map[string]Index{}
	s.table.each(func(p *placedIndex) bool {
		if s.believes(p) {
			all[p.index.Name] = p.index
		}
		return true
	})
	return all
}

// read takes in the next report, and reports whether it was one of everything.
func (f *follower) read(t *testing.T, from *feed) bool {
	t.Helper()
	body, err := from.next(t.Context(), f.relay, f.seq)
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(body))
	require.NoError(t, err)
	var r report
	require.NoError(t, json.NewDecoder(z).Decode(&r))
	require.Equal(t, r.Relay != f.relay, r.Full)
	f.apply(&r)
	return r.Full
}

func TestTheRelaysClockIsFollowed(t *testing.T) {
	f := &follower{}
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
	f := newFake(t, 2)
	f.change(func() { f.indices = []Index{index("a", []string{"n1"})} })
	w, polls := f.follow(newAddress(t), nil)
	w.resolves("a", "", []string{"n1"})
	w.Stop()
	before := polls.requests.Load()
	time.Sleep(50 * time.Millisecond)
	require.Equal(t, before, polls.requests.Load())
}
