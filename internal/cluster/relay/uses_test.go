package relay

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
	"sidestep/internal/cluster/poll"
)

// What stands in for a relay may answer all with 200, as a proxy with a page of its own does. That must not end the process.
func TestUsesAreAnsweredWithAPage(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})} })
	relay := start(t, f, nil)
	at := newAddress(t)
	at.use(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, usesPage) {
			relay.server.ServeHTTP(w, r)
		}
	}))
	w, _ := follow(t, f, at, nil)
	w.Resolves("a", "", []string{"n1"})
	w.Options().Source.Use(t.Context(), []string{"a"})
	w.Eventually("it is counted as a failure", func() bool { return w.Metric("sidestep_cluster_polls_total", "relay", "failed") > 0 })
}

// The time that a reader may take to say what it searches is bounded.
func TestWhoTellsUsesSlowlyIsDropped(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	w := start(t, f, nil)
	w.Eventually("the relay is ready", func() bool { return w.Ready() == nil })
	w.server.patience = 50 * time.Millisecond
	client, server := net.Pipe()
	defer client.Close()
	go func() { _ = http.Serve(&oneConn{conn: server}, w.server) }()
	_, err := io.WriteString(client, "POST /snapshot/uses?version=1 HTTP/1.1\r\nHost: relay\r\nContent-Length: 100\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, client.SetReadDeadline(time.Now().Add(clustertest.Soon)))
	answer, err := io.ReadAll(client)
	require.NoError(t, err)
	require.Contains(t, string(answer), "400 Bad Request")
}

// While a relay is slow to take in what is searched, its reports are read all the same.
func TestReportsAreReadWhileUsesAreTold(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})} })
	at := newAddress(t)
	at.use(start(t, f, nil).server)
	w, _ := follow(t, f, at, func(_ *poll.Options, r *Options) { r.Silence = 2 * clustertest.Soon })
	w.Resolves("a", "", []string{"n1"})
	other := start(t, f, nil).server // which has to be told anew
	hangs := make(chan struct{}, 100)
	at.use(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, usesPage) {
			hangs <- struct{}{}
			_, _ = io.Copy(io.Discard, r.Body) // else it is not noticed who leaves
			clustertest.Hang(r)
			return
		}
		other.ServeHTTP(w, r)
	}))
	w.Eventually("it tells what is searched", func() bool { return len(hangs) > 0 })
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n2"})} })
	w.Resolves("a", "", []string{"n2"})
	require.True(t, w.Follows())
}

// An index that a relay did not know is in use from the time at which it was told of it, and kept up to date from then on.
func TestAnIndexThatWasNotKnownIsInUse(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("old", []string{"n1"})} })
	f.On(func(_ *clustertest.Node, _ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/_cluster/state/version,routing_table" {
			time.Sleep(200 * time.Millisecond) // it is not read again for 20 s
		}
		return false
	})
	w := start(t, f, nil)
	w.Eventually("the relay is ready", func() bool { return w.Ready() == nil })
	f.Change(func() { f.Indices = append(f.Indices, clustertest.Index("new", []string{"n1"})) })
	body, err := encodeBody([]string{"new"})
	require.NoError(t, err)
	recorder := httptest.NewRecorder()
	w.server.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/snapshot/uses?version=1", bytes.NewReader(body)))
	require.Equal(t, http.StatusNoContent, recorder.Code)
	require.True(t, w.Snapshot().Believes("new"))
	require.Equal(t, []string{"new"}, w.NamesInUse())
}

// However many indices are searched, a relay takes in all of them.
func TestManyUsesAreTold(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 240)
	contents := cluster.Contents{ClusterUUID: "u", PlacedAt: time.Now()}
	names := make([]string, 40_000)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", long, i)
		contents.Indices = append(contents.Indices, clustertest.Index(names[i]))
	}
	// As its sidestep knows them: to have them polled takes half a minute with the race detector.
	s := cluster.NewSnapshot(contents)
	store, relay := cluster.NewStore(cluster.StoreOptions{}), NewFollower(Options{URL: &url.URL{Scheme: "http", Host: "relay"}})
	relay.p = poll.New(store, poll.Options{})
	relay.read(t, newFeed(func() *cluster.Snapshot { return s }, time.Millisecond, nil))
	at := newAddress(t)
	server := NewServer(relay.p, nil, nil)
	server.patience = time.Hour
	at.use(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.takeUses(w, r) }))
	u, err := url.Parse(at.URL + "/snapshot")
	require.NoError(t, err)
	follower := NewFollower(Options{URL: u, Client: at.Client(), Silence: time.Hour})
	follower.p = poll.New(cluster.NewStore(cluster.StoreOptions{}), poll.Options{})
	follower.Use(t.Context(), names)
	known := len(store.NamesInUse())
	require.Equal(t, len(names), known)
}
