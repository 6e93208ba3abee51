package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
	"sidestep/internal/cluster/poll"
)

// However many ask for a target at once, the cluster is asked once.
func TestTargetsAreLookedUpOnceForAll(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("logs-1", []string{"n1"})}
		f.Targets[cluster.Target{Expression: "logs-*"}] = []cluster.ShardName{{Index: "logs-1", Number: 0}}
	})
	at := newAddress(t)
	at.use(start(t, f, nil).server)
	followers := make([]*relaying, 10)
	for i := range followers {
		followers[i], _ = follow(t, f, at, func(_ *poll.Options, r *Options) { r.Silence = clustertest.Soon })
		followers[i].Resolves("logs-1", "", []string{"n1"})
	}
	for _, w := range followers {
		w.Learn("logs-*", "")
	}
	for _, w := range followers {
		w.Resolves("logs-*", "", []string{"n1"})
	}
	require.Equal(t, 1, f.Count("/logs-*/_search_shards"))
}

// Whoever reads what a relay tells has it look up single indices alone, and a bounded number of them.
func TestUsesAreNamesOfIndices(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})} })
	relay := start(t, f, nil)
	relay.Eventually("the relay is ready", func() bool { return relay.Ready() == nil })
	names := []string{"a", "*", "_all", "a,b", "-a", "a*", "<a-{now}>", "x:a", "a/b", strings.Repeat("a", 256), ""}
	for i := range 2 * maxMissing {
		names = append(names, fmt.Sprintf("new-%d", i))
	}
	list, err := json.Marshal(names)
	require.NoError(t, err)
	missing, err := noteUses(relay.Snapshot(), bytes.NewReader(list))
	require.NoError(t, err)
	require.Len(t, missing, maxMissing)
	require.Equal(t, "new-0", missing[0])
	for _, body := range []string{"", "{}", `["a"`, `["a",1]`} {
		_, err := noteUses(relay.Snapshot(), strings.NewReader(body))
		require.Error(t, err, body)
	}
}

func TestRelayRefuses(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})} })
	relay := start(t, f, nil)
	relay.Eventually("the relay is ready", func() bool { return relay.Ready() == nil })
	at := newAddress(t)
	at.use(relay.server)
	chained, _ := follow(t, f, at, nil)
	chained.Eventually("it follows", chained.Follows)
	for _, c := range []struct {
		name, path string
		handler    http.Handler
		status     int
		want       string
	}{
		{"no version", "/snapshot", relay.server, 400, `speaks version 1, not ""`},
		{"another version", "/snapshot?version=2", relay.server, 400, `speaks version 1, not "2"`},
		{"bad number", "/snapshot?version=1&after=-1", relay.server, 400, "not the number of a report"},
		{"a relay of relays", "/snapshot?version=1", chained.server, 503, "has a relay itself"},
		{"nothing known", "/snapshot?version=1", NewServer(poll.New(cluster.NewStore(cluster.StoreOptions{}), poll.Options{}), nil, nil), 503, "has not answered yet"},
		{"unknown question", "/snapshot/target?version=1&about=settings&expression=a", relay.server, 400, "not a target"},
		{"layout of many", "/snapshot/target?version=1&about=layout&expression=a,b", relay.server, 400, "not a target"},
		{"long", "/snapshot/target?version=1&about=shards&expression=" + strings.Repeat("a", 5000), relay.server, 400, "not a target"},
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
	f := clustertest.New(t, 1)
	f.Change(func() {
		for i := range 3000 {
			f.Indices = append(f.Indices, clustertest.Index(fmt.Sprintf("%d-%x", i, rand.Uint64()), []string{"n1"}))
		}
	})
	w := start(t, f, nil)
	w.Eventually("the relay is ready", func() bool { return w.Ready() == nil })
	w.server.readers = make(chan struct{}, 1)
	w.server.patience = 2 * time.Second // a client on a busy machine begins to read in less
	body, err := w.server.feed.next(t.Context(), "", 0)
	require.NoError(t, err)
	client, server := net.Pipe()
	defer client.Close()
	go func() { _ = http.Serve(&oneConn{conn: server}, w.server) }()
	_, err = io.WriteString(client, "GET /snapshot?version=1 HTTP/1.1\r\nHost: relay\r\n\r\n")
	require.NoError(t, err)
	_, err = io.ReadFull(client, make([]byte, 1))
	require.NoError(t, err)
	recorder := httptest.NewRecorder()
	w.server.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/snapshot?version=1", http.NoBody))
	require.Equal(t, http.StatusServiceUnavailable, recorder.Code)
	require.Contains(t, recorder.Body.String(), "too many readers")
	w.Eventually("the slow reader is dropped", func() bool { return len(w.server.readers) == 0 })
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

// readyRelay starts a relay of the cluster behind a transport, in virtual time, and waits until it can tell.
func readyRelay(t *testing.T, seed *url.URL, transport http.RoundTripper) (*poll.Poller, *Server) {
	t.Helper()
	p := poll.New(cluster.NewStore(cluster.StoreOptions{}), poll.Options{Seeds: []*url.URL{seed}, Client: &http.Client{Transport: transport}})
	server := NewServer(p, nil, nil)
	p.Start(t.Context())
	for p.Ready() != nil {
		time.Sleep(time.Millisecond)
	}
	return p, server
}

// A relay looks up as few invented targets for others as for itself.
func TestInventedTargetsOfFollowersAreThrottled(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})}
		f.Targets[cluster.Target{Expression: "alias"}] = []cluster.ShardName{{Index: "a", Number: 0}}
	})
	seed, err := url.Parse(f.Nodes[0].Server.URL)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		var lookUps atomic.Int64
		p, server := readyRelay(t, seed, clustertest.InProcess{Fake: f, Takes: 0, LookUps: &lookUps})
		ask := func(target string) int {
			w := httptest.NewRecorder()
			path := "/snapshot/target?version=1&about=shards&expression=" + target
			server.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
			if w.Code != http.StatusOK {
				require.Contains(t, w.Body.String(), "nobody knew", "it is told why")
			}
			return w.Code
		}
		require.Equal(t, http.StatusOK, ask("alias"))
		statuses := map[int]int{}
		for i := range 1000 {
			statuses[ask(fmt.Sprintf("%s%d", clustertest.Invented, i))]++
		}
		require.Equal(t, http.StatusOK, ask(clustertest.Invented+"1"), "it is remembered")
		require.InDelta(t, 200, lookUps.Load(), 1)
		require.Equal(t, map[int]int{http.StatusOK: int(lookUps.Load()), http.StatusServiceUnavailable: 1000 - int(lookUps.Load())}, statuses)
		f.Change(func() {})
		time.Sleep(2 * time.Second / 20)
		for i := range 10 {
			ask(fmt.Sprintf("%smore-%d", clustertest.Invented, i))
		}
		require.Equal(t, http.StatusOK, ask("alias"), "what resolved is looked up again")
		p.Stop()
	})
}

func TestServerMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	newServerMetrics(registry)
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 2)
}

// A relay is read though what it costs to read where copies are forbids to confirm that more often: its readers would have to
// pay that, too. One that the cluster does not answer is not.
func TestARelayWhosePlacementIsDearIsRead(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})} })
	seed, err := url.Parse(f.Nodes[0].Server.URL)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			if down.Load() {
				return nil, io.ErrUnexpectedEOF
			}
			if strings.HasPrefix(r.URL.Path, "/_cluster/state/version,routing_table") {
				time.Sleep(1500 * time.Millisecond)
			}
			return clustertest.InProcess{Fake: f}.RoundTrip(r)
		})
		p, server := readyRelay(t, seed, transport)
		oldest := time.Duration(0)
		for range 120 {
			f.Change(func() {})
			p.Snapshot().Use("a")
			time.Sleep(500 * time.Millisecond)
			require.NoError(t, server.fit())
			oldest = max(oldest, time.Since(p.Snapshot().PlacedAt))
		}
		require.Greater(t, oldest, relayedAge)
		down.Store(true)
		time.Sleep(oldest)
		require.Error(t, server.fit())
		p.Stop()
	})
}

// followInProcess starts a sidestep that reads a relay without a connection, while that answers.
func followInProcess(t *testing.T, f *clustertest.Fake, relay http.Handler, answers func(r *http.Request) bool) *poll.Poller {
	t.Helper()
	seed, err := url.Parse(f.Nodes[0].Server.URL)
	require.NoError(t, err)
	client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if !answers(r) {
			return nil, io.ErrUnexpectedEOF
		}
		w := httptest.NewRecorder()
		relay.ServeHTTP(w, r)
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		answer := w.Result()
		if answer.StatusCode == http.StatusOK {
			answer.Body = io.NopCloser(bytes.NewReader(plain(t, answer.Body)))
		}
		return answer, nil
	})}
	p := poll.New(cluster.NewStore(cluster.StoreOptions{}), poll.Options{
		Seeds: []*url.URL{seed}, Client: &http.Client{Transport: clustertest.InProcess{Fake: f}},
		Source: NewFollower(Options{URL: &url.URL{Scheme: "http", Host: "relay", Path: "/snapshot"}, Client: client}),
	})
	p.Start(t.Context())
	return p
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A relay that starts again within cluster.source.silence has none of its followers poll, though they ask it rarely as
// nothing is searched.
func TestIdleFollowersOutlastAShortSilence(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})} })
	seed, err := url.Parse(f.Nodes[0].Server.URL)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		relay, server := readyRelay(t, seed, clustertest.InProcess{Fake: f})
		var down atomic.Bool
		p := followInProcess(t, f, server, func(*http.Request) bool { return !down.Load() })
		time.Sleep(30 * time.Second)
		require.True(t, p.Follows())
		for range 50 {
			down.Store(true)
			for range 20 {
				time.Sleep(100 * time.Millisecond)
				require.True(t, p.Follows())
			}
			down.Store(false)
			time.Sleep(10 * time.Second)
		}
		down.Store(true)
		time.Sleep(3 * defaultSilence)
		require.False(t, p.Follows())
		p.Stop()
		relay.Stop()
	})
}
