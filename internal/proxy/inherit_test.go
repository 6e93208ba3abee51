package proxy

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sidestep/internal/admission"
	"sidestep/internal/cluster"
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
	next.TakeOver(before)
	next.UseSnapshot(c.snapshot())
	next.Inherit(before)
	c.t.Cleanup(c.front.Close)
	c.proxy, c.front = next, httptest.NewServer(next)
	return before
}

// end has all requests answered.
func (c *gatedNodes) end(requests ...<-chan answered) {
	c.t.Helper()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case c.let <- struct{}{}:
			case <-ended:
				return
			}
		}
	}()
	polls := time.NewTicker(10 * time.Millisecond)
	defer polls.Stop()
	for _, one := range requests {
		for waits := true; waits; {
			select {
			case a := <-one:
				require.Equal(c.t, http.StatusOK, a.status, a.body)
				waits = false
			case <-polls.C:
				c.polled(2)
			}
		}
	}
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

// One bound holds for the bodies of all requests, whichever proxy they came to.
func TestBodiesOfTheProxyBeforeCount(t *testing.T) {
	c := startGated(t, 10, nil)
	one := c.send(t.Context(), http.MethodPost, "/lone/_search", `{"size":1,"stats":["`+strings.Repeat("x", 50_000)+`"]}`)
	require.Eventually(t, func() bool { return c.proxy.held.Load() > 0 && c.inFlight() == 1 }, admitPatience, time.Millisecond)
	before := c.replace(nil)
	require.Positive(t, c.proxy.held.Load())
	c.end(one)
	require.Eventually(t, func() bool { return c.proxy.held.Load() == 0 && before.held.Load() == 0 }, admitPatience, time.Millisecond)
}

// Another admission knows what the one before has learned of the nodes: it does not send as much again. What waits there is
// told of polls, nodes and modes as what waits here.
func TestAnotherAdmissionKnowsWhatTheOneBeforeHasLearned(t *testing.T) {
	c := startGated(t, 10, func(a *Admission) { a.Min, a.Max = 4, 4 })
	var all []<-chan answered
	for range 5 {
		all = append(all, c.search())
	}
	require.Equal(t, 1, c.waiting())
	before := c.replace(func(o *Options) { o.Admission.Queue.Length = 20 })
	require.NotSame(t, before.admission, c.proxy.admission)
	for range 3 {
		all = append(all, c.search())
	}
	require.Equal(t, 1, c.inFlight(), "the first of an admission always goes")
	require.Equal(t, 2, c.waiting())
	require.Equal(t, 1, before.admission.waiting())

	c.proxy.UseStats(cluster.NodeStats{Node: id(0), At: time.Now().Add(time.Second), State: cluster.PollOK, Threads: 2, Active: 50})
	require.Greater(t, before.admission.view(id(0), time.Now()).Others, 20.)
	require.NoError(t, c.proxy.SetAdmissionMode(admission.Off))
	require.Zero(t, before.admission.waiting())
	c.end(all...)
	require.Nil(t, c.proxy.admission.earlier())
}

// What waits for a node that leaves after the proxy was replaced waits no longer.
func TestWhatWaitsInAnEarlierAdmissionIsToldOfNodes(t *testing.T) {
	c := startGated(t, 10, nil)
	first, second := c.search(), c.search()
	before := c.replace(func(o *Options) { o.Admission.Queue.Length = 20 })
	require.Equal(t, 1, before.admission.waiting())
	c.proxy.admission.update(&cluster.Snapshot{})
	require.Zero(t, before.admission.waiting())
	c.end(first, second)
}

// What was learned of one cluster says nothing of another.
func TestNothingIsInheritedFromAnotherCluster(t *testing.T) {
	c := startGated(t, 10, nil)
	first, second := c.search(), c.search()
	other := *c.snapshot()
	other.ClusterUUID = "other"
	o := c.proxy.o
	o.Registerer, o.Admission.Queue.Length = prometheus.NewRegistry(), 20
	next, err := New(o)
	require.NoError(t, err)
	next.UseSnapshot(&other)
	next.Inherit(c.proxy)
	require.Nil(t, next.admission.view(id(0), time.Now()).Limit)
	require.Nil(t, next.admission.earlier())
	c.end(first, second)
}
