package proxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"sidestep/internal/admission"
	"sidestep/internal/cluster"
	"sidestep/internal/selection"
)

// replace puts another proxy in the place of the one, with other options of admission if they are changed. It returns the one
// before.
func (c *gatedNodes) replace(change func(*Options)) (before *Proxy) {
	c.t.Helper()
	before = c.proxy
	o := before.o
	o.Registerer = prometheus.NewRegistry()
	if change != nil {
		change(&o)
	}
	next, err := New(o)
	require.NoError(c.t, err)
	next.Replace(before)
	next.UseSnapshot(before.view.Load().snapshot)
	require.NoError(c.t, next.SetAdmissionMode(before.OwnAdmissionMode()))
	next.BeginWith(before)
	c.t.Cleanup(c.front.Close)
	c.proxy, c.front = next, httptest.NewServer(next)
	return before
}

// What waits when a proxy is replaced keeps its place before what comes after it, and both wait for the same room.
func TestWhatWaitsKeepsItsPlaceWhenTheProxyIsReplaced(t *testing.T) {
	c := startGated(t, 10, nil)
	first, second := c.search(), c.search("X-Opaque-Id", "second")
	require.Equal(t, 1, c.waiting())
	c.replace(func(o *Options) { o.Explain, o.Admission.Mode = ExplainOff, admission.Observe })
	require.NoError(t, c.proxy.SetAdmissionMode(admission.Auto))
	third := c.search()
	require.Equal(t, 2, c.waiting())
	require.Len(t, c.seen(), 1)
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	require.Eventually(t, func() bool { return c.inFlight() == 1 && c.waiting() == 1 }, admitPatience, time.Millisecond)
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-second).status)
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-third).status)
	require.Equal(t, "second", c.seen()[0].header.Get("X-Opaque-Id"))
}

// Connections to nodes stay open.
func TestConnectionsOutliveAProxy(t *testing.T) {
	c := startGated(t, 10, nil)
	answer := func() {
		one := c.search()
		c.let <- struct{}{}
		require.Equal(t, http.StatusOK, (<-one).status)
	}
	answer()
	before := c.proxy.view.Load().upstreams[0].leg
	require.Eventually(t, before.Idle, admitPatience, time.Millisecond)
	c.replace(func(o *Options) { o.CoordinatingOnly = true })
	require.Same(t, before, c.proxy.view.Load().upstreams[0].leg)
	answer()
}

// An admission of its own begins with the last polls: it does not admit everything until the next ones.
func TestAnAdmissionOfItsOwnBeginsWithTheLastPolls(t *testing.T) {
	c := startGated(t, 10, nil)
	c.polledWrites()
	before := c.replace(func(o *Options) { // admission was switched on by hand
		o.Admission.Queue.Length, o.Admission.Writes.Min = 20, 2
		o.Admission.Mode, o.Admission.Writes.Mode = admission.Off, admission.Off
	})
	require.NotSame(t, before.admission, c.proxy.admission)
	require.NotSame(t, before.writes, c.proxy.writes)
	require.Len(t, c.proxy.writes.polls, 1)
	first, second := c.search(), c.search()
	require.Equal(t, 1, c.inFlight())
	require.Equal(t, 1, c.waiting())
	for _, one := range []<-chan answered{first, second} {
		c.let <- struct{}{}
		require.Equal(t, http.StatusOK, (<-one).status)
	}
}

// What waits across a replacement is decided by what is known when its turn comes: its node has left.
func TestWhatWaitsWhenTheProxyIsReplacedIsToldOfNodes(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"in the same admission": nil,
		"in the one before":     func(o *Options) { o.Admission.Queue.Length = 20 },
	} {
		t.Run(name, func(t *testing.T) {
			c, placed := startThree(t)
			lets := c.gate()
			for _, node := range []string{"b", "c"} {
				require.NoError(t, c.proxy.Drain(node, time.Hour))
			}
			first := c.send(t.Context(), http.MethodGet, "/idx/_search", "")
			c.arrives(0)
			waits := c.send(t.Context(), http.MethodGet, "/idx/_search", "")
			c.await(1)
			c.replace(change)
			require.NoError(t, c.proxy.Drain("b", 0))
			c.proxy.UseSnapshot(cluster.NewSnapshot(cluster.Contents{
				Engine: placed.Engine, PlacedAt: time.Now(), Nodes: placed.Nodes[1:],
				Indices: []cluster.Index{{Name: "idx", Shards: []cluster.Shard{{Copies: []cluster.Copy{
					{Node: id(1), Kind: 'p', State: cluster.Started}, {Node: id(2), Kind: 'r', State: cluster.Started},
				}}}}},
			}))
			lets["a"] <- struct{}{}
			require.Equal(t, http.StatusOK, (<-first).status)
			c.arrives(1)
			lets["b"] <- struct{}{}
			require.Equal(t, http.StatusOK, (<-waits).status)
		})
	}
}

// Requests of the proxy before may go through nodes without data as those of the next one may.
func TestNodesThatCoordinateAreThoseOfTheProxyInUse(t *testing.T) {
	c := startGated(t, 10, nil)
	with := *c.snapshot()
	with.Nodes = append(slices.Clone(with.Nodes), &cluster.Node{ID: "id-z", Name: "z", Roles: []string{"ingest"}, URL: with.Nodes[0].URL})
	c.proxy.UseSnapshot(&with)
	require.Len(t, c.proxy.view.Load().coordinating, 1)
	c.replace(func(o *Options) { o.CoordinatingOnly = true })
	require.Len(t, c.proxy.view.Load().coordinating, 2)
}

// The prober of the proxy before ends after the next one has begun. Nodes are asked for requests of both.
func TestNodesAreAskedAfterTheProxyIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := newProbing(t, func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})
		o := before.o
		o.Registerer = prometheus.NewRegistry()
		next, err := New(o)
		require.NoError(t, err)
		ends := [2]func(){}
		for i, p := range []*Proxy{before.Proxy, next} {
			if p == next {
				next.Replace(before.Proxy)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); p.Probe(ctx) }()
			synctest.Wait()
			ends[i] = func() { cancel(); <-done }
		}
		ends[0]()
		require.EqualValues(t, 1, before.probes.senders.Load())
		before.probes.asks <- selection.Asking{Node: before.view.Load().nodes[1]}
		synctest.Wait()
		require.InDelta(t, 1, testutil.ToFloat64(next.metrics.asks.WithLabelValues(askAnswered)), 0)
		ends[1]()
		require.Zero(t, before.probes.senders.Load())
	})
}
