package proxy

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/admission"
	"sidestep/internal/attempt"
	"sidestep/internal/cluster"
	"sidestep/internal/selection"
)

// startPair starts two nodes that have all copies of an index, with a limit of so many shard queries each.
func startPair(t *testing.T, limit float64) *gatedNodes { return startLimited(t, 2, limit) }

// startLimited starts so many such nodes.
func startLimited(t *testing.T, nodes int, limit float64) *gatedNodes {
	t.Helper()
	c := &gatedNodes{let: make(chan struct{})}
	c.harness = start(t, nodes, func(o *Options) {
		o.Admission.Mode, o.Admission.Min, o.Admission.Max = admission.Auto, limit, limit
	})
	c.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
		select {
		case <-c.let:
		case <-r.Context().Done():
		}
		respond(http.StatusOK, complete)("", w, r)
	}
	c.polled(2)
	return c
}

// queued has polls tell of the queues of the nodes, by which one ranks far better.
func (c *gatedNodes) queued(queues ...float64) {
	for i, queue := range queues {
		for range 10 {
			c.selector.ObservePoll(id(i), selection.Poll{State: selection.Fine, ServiceTime: 3 * time.Millisecond, Queue: queue}, time.Now())
		}
	}
}

// A search that finds its node full waits for it, and is not sent to one that is left out: an operator drains it, it is
// slow, or it is in slow start.
func TestAFullNodeIsWaitedForBesideOneThatIsLeftOut(t *testing.T) {
	c := startPair(t, 2)
	require.NoError(t, c.proxy.Drain("b", time.Hour))
	first := c.send(t.Context(), http.MethodGet, "/idx/_search", "")
	require.Eventually(t, func() bool { return c.inFlight() == 2 }, admitPatience, time.Millisecond)
	second := c.send(t.Context(), http.MethodGet, "/idx/_search", "")
	c.await(1)
	c.let <- struct{}{}
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	require.Equal(t, http.StatusOK, (<-second).status)
	for _, one := range c.seen() {
		require.Contains(t, one.uri, "_only_nodes:id-a")
	}
}

// gate has each node answer once for each time that something is sent to its channel.
func (c *gatedNodes) gate() map[string]chan struct{} {
	lets := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{}), "c": make(chan struct{})}
	c.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		select {
		case <-lets[node]:
		case <-r.Context().Done():
		}
		respond(http.StatusOK, complete)("", w, r)
	}
	return lets
}

// arrives waits until a search has arrived that lists this node.
func (c *gatedNodes) arrives(node int) {
	c.t.Helper()
	var seen []recorded
	require.Eventually(c.t, func() bool { seen = c.seen(); return len(seen) == 1 }, admitPatience, time.Millisecond)
	require.Contains(c.t, seen[0].uri, "_only_nodes:"+id(node))
}

// startThree starts three nodes that have copies of the one shard of an index, with a limit of one shard query each.
func startThree(t *testing.T) (*gatedNodes, *cluster.Snapshot) {
	t.Helper()
	c := startLimited(t, 3, 1)
	placed := cluster.NewSnapshot(cluster.Contents{
		Engine: c.snapshot().Engine, PlacedAt: time.Now(), Nodes: c.snapshot().Nodes,
		Indices: []cluster.Index{{Name: "idx", Shards: []cluster.Shard{{Copies: []cluster.Copy{
			{Node: id(0), Kind: 'p', State: cluster.Started}, {Node: id(1), Kind: 'r', State: cluster.Started}, {Node: id(2), Kind: 'r', State: cluster.Started},
		}}}}},
	})
	c.proxy.UseSnapshot(placed)
	return c, placed
}

// What has waited for a node goes there once it has room, although others rank better by then, as these are full: also if the
// placement was confirmed meanwhile.
func TestWhatHasWaitedGoesWhereItHasRoom(t *testing.T) {
	c, placed := startThree(t)
	lets := c.gate()
	search := func() <-chan answered { return c.send(t.Context(), http.MethodGet, "/idx/_search", "") }
	for _, node := range []string{"b", "c"} {
		require.NoError(t, c.proxy.Drain(node, time.Hour))
	}
	first := search()
	c.arrives(0)
	waits := search()
	c.await(1)
	for _, node := range []string{"b", "c"} {
		require.NoError(t, c.proxy.Drain(node, 0))
	}
	c.queued(100, 0, 50)
	second := search()
	c.arrives(1)
	c.queued(100, 50, 0)
	third := search()
	c.arrives(2)
	c.queued(100, 0, 50)
	confirmed := *placed
	c.proxy.UseSnapshot(&confirmed)
	lets["a"] <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	c.arrives(0)
	for _, node := range []string{"a", "b", "c"} {
		lets[node] <- struct{}{}
	}
	for _, one := range []<-chan answered{waits, second, third} {
		require.Equal(t, http.StatusOK, (<-one).status)
	}
}

// While one node is full a search goes to the other, if nothing speaks against that one, although it ranks worse. One that has
// waited stays where there is room by now.
func TestNothingWaitsForAFullNodeBesideOneWithRoom(t *testing.T) {
	c := startPair(t, 2)
	lets := c.gate()
	search := func() <-chan answered { return c.send(t.Context(), http.MethodGet, "/idx/_search", "") }
	arrives := c.arrives
	require.NoError(t, c.proxy.Drain("b", time.Hour))
	first := search()
	arrives(0)
	waits := search()
	c.await(1)
	require.NoError(t, c.proxy.Drain("b", 0))
	c.queued(0, 50)
	second := search()
	arrives(1)
	c.queued(50, 0)
	lets["a"] <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	arrives(0)
	lets["a"] <- struct{}{}
	lets["b"] <- struct{}{}
	require.Equal(t, http.StatusOK, (<-waits).status)
	require.Equal(t, http.StatusOK, (<-second).status)
}

// What waits for a node that fails is decided anew, and waits for room on the others: else all of it would be there at once.
func TestWhatWaitedForANodeThatFailsWaitsForTheOthers(t *testing.T) {
	c := startPair(t, 2)
	var now, most atomic.Int64 // searches on b
	answer := c.answer
	c.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if node == "b" {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
		}
		answer(node, w, r)
	}
	require.NoError(t, c.proxy.Drain("b", time.Hour))
	all := []<-chan answered{c.send(t.Context(), http.MethodGet, "/idx/_search", "")}
	require.Eventually(t, func() bool { return c.inFlight() == 2 }, admitPatience, time.Millisecond)
	for i := range 5 {
		all = append(all, c.send(t.Context(), http.MethodGet, "/idx/_search", ""))
		c.await(i + 1)
	}
	require.NoError(t, c.proxy.Drain("b", 0))
	c.proxy.UseStats(cluster.NodeStats{Node: id(0), At: time.Now(), State: cluster.PollUnreachable})
	for i := range all {
		c.let <- struct{}{}
		if i < len(all)-1 {
			require.Eventually(t, func() bool { return now.Load() > 0 }, admitPatience, time.Millisecond)
		}
	}
	for _, one := range all {
		require.Equal(t, http.StatusOK, (<-one).status)
	}
	require.EqualValues(t, 1, most.Load())
}

// A search that goes on as its node has left, and then waits for room on another, was not sent to a node of which nothing is
// known.
func TestWhatWaitsAgainWasNotSentBlindly(t *testing.T) {
	c := startPair(t, 2)
	search := func() <-chan answered { return c.send(t.Context(), http.MethodGet, "/idx/_search", "") }
	require.NoError(t, c.proxy.Drain("b", time.Hour))
	all := []<-chan answered{search()}
	require.Eventually(t, func() bool { return len(c.seen()) == 1 }, admitPatience, time.Millisecond)
	all = append(all, search())
	c.await(1)
	require.NoError(t, c.proxy.Drain("b", 0))
	c.queued(50, 0)
	all = append(all, search())
	require.Eventually(t, func() bool { return len(c.seen()) == 1 }, admitPatience, time.Millisecond)
	left := cluster.Index{Name: "idx"}
	for i := range 2 {
		left.Shards = append(left.Shards, cluster.Shard{Number: i, Copies: []cluster.Copy{{Node: id(1), Kind: 'p', State: cluster.Started}}})
	}
	was := c.snapshot()
	c.proxy.UseSnapshot(cluster.NewSnapshot(cluster.Contents{
		Engine: was.Engine, Nodes: was.Nodes[1:], PlacedAt: time.Now(), Indices: []cluster.Index{left},
	}))
	for range all {
		c.let <- struct{}{}
	}
	for _, one := range all {
		require.Equal(t, http.StatusOK, (<-one).status)
	}
	require.Zero(t, c.opened())
}

// A class that waits for the clock, as its rate is for, keeps no other from a second attempt.
func TestWhatWaitsForTheClockIsNoSignOfAFullCluster(t *testing.T) {
	c := startGated(t, 10, func(a *Admission) {
		a.Classes = []AdmissionClass{{Class: admission.Class{Name: "slow", Rate: 0.001}, OpaqueIDPrefix: "slow-"}}
	})
	first := c.search("X-Opaque-Id", "slow-1")
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	clock := c.search("X-Opaque-Id", "slow-2")
	require.Equal(t, 1, c.waiting())
	require.False(t, c.proxy.admission.full())
	second, room := c.search(), c.search()
	require.Equal(t, 2, c.waiting())
	require.True(t, c.proxy.admission.full())
	require.NoError(t, c.proxy.SetAdmissionMode(admission.Off))
	require.False(t, c.proxy.admission.full())
	for range 3 {
		c.let <- struct{}{}
	}
	for _, one := range []<-chan answered{clock, second, room} {
		require.Equal(t, http.StatusOK, (<-one).status)
	}
}

// The threads of other clusters are not known: a search of these alone does not wait for the nodes of this one.
func TestSearchesOfOtherClustersDoNotWait(t *testing.T) {
	c := startGated(t, 1, nil)
	c.proxy.UseStats(cluster.NodeStats{Node: id(0), At: time.Now(), State: cluster.PollOK, Threads: 2, Queries: 1}) // it serves
	all := []<-chan answered{c.search(), c.search()}
	for _, target := range []string{"far:idx", "*:idx,-far:idx-old", "far:a,near:b"} {
		all = append(all, c.send(t.Context(), http.MethodGet, "/"+target+"/_search", ""))
		require.Nil(t, c.explain(Question{Target: target}).Admission)
	}
	require.Equal(t, http.StatusTooManyRequests, (<-c.send(t.Context(), http.MethodGet, "/lone,far:idx/_search", "")).status)
	for range all {
		c.let <- struct{}{}
	}
	for _, one := range all {
		require.Equal(t, http.StatusOK, (<-one).status)
	}
}

// What waits for a node that is ejected goes to others that have room, however long those searches last that the node has.
func TestWhatWaitsForANodeThatIsEjectedIsDecidedAnew(t *testing.T) {
	c := startPair(t, 2)
	lets := c.gate()
	search := func() <-chan answered { return c.send(t.Context(), http.MethodGet, "/idx/_search", "") }
	require.NoError(t, c.proxy.Drain("b", time.Hour))
	first := search()
	c.arrives(0)
	waits := search()
	c.await(1)
	require.NoError(t, c.proxy.Drain("b", 0))
	c.proxy.UseStats(cluster.NodeStats{Node: id(0), At: time.Now().Add(time.Hour), State: cluster.PollOK, Threads: 2}) // it answers polls
	c.slow(0)
	c.arrives(1)
	lets["b"] <- struct{}{}
	require.Equal(t, http.StatusOK, (<-waits).status)
	lets["a"] <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
}

// Whatever waits may be decided anew at any moment, also while its verdict comes, or its client leaves. (For the race detector, too.)
func TestWhatWaitsIsDecidedAnewAtAnyMoment(t *testing.T) {
	c := startPair(t, 2)
	c.answer = nil
	const clients, each = 10, 10
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for j := range each {
				ctx, leave := context.WithCancel(t.Context())
				if (i+j)%7 == 0 {
					time.AfterFunc(time.Millisecond, leave)
				}
				<-c.send(ctx, http.MethodGet, "/idx/_search", "")
				leave()
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		all.Wait()
	}()
	for done := false; !done; {
		for i := range c.nodes {
			c.proxy.admission.reconsider(id(i))
		}
		select {
		case <-ended:
			done = true
		case <-time.After(100 * time.Microsecond):
		}
	}
	c.await(0)
	require.Eventually(t, func() bool { return c.inFlight() == 0 }, admitPatience, time.Millisecond)
}

// While others wait for room, too, a search gets a second attempt past a node that was lost after it was sent.
func TestWhatALostNodeHadIsSentASecondTimeInAFullCluster(t *testing.T) {
	c, _ := startThree(t)
	c.proxy.hedges = attempt.NewHedges(0.05)
	c.slow()
	c.timed()
	for c.proxy.hedges.Spend() { // none is left for those that are late before the cluster is full
	}
	search := func() <-chan answered { return c.send(t.Context(), http.MethodGet, "/idx/_search", "") }
	var all []<-chan answered
	for range c.nodes {
		all = append(all, search())
		require.Eventually(t, func() bool { return len(c.seen()) == 1 }, admitPatience, time.Millisecond)
	}
	all = append(all, search())
	c.await(1)
	c.proxy.UseStats(cluster.NodeStats{Node: id(0), At: time.Now(), State: cluster.PollUnreachable})
	require.Eventually(t, func() bool { return len(c.seen()) == 1 }, admitPatience, time.Millisecond)
	require.Equal(t, 1, c.waiting())
	close(c.let)
	for _, one := range all {
		require.Equal(t, http.StatusOK, (<-one).status)
	}
}

// A search that passes when it comes, as its target is not known yet, waits as others do. When its turn comes it is decided about as if it came
// then.
func TestWhatPassedWhenItCameIsSteeredOnceItHasWaited(t *testing.T) {
	c := startPair(t, 2)
	for i := range 2 { // they serve, and others fill up b
		for range 2 {
			c.proxy.UseStats(cluster.NodeStats{Node: id(i), At: time.Now().Add(10 * time.Second), State: cluster.PollOK, Threads: 2, Queries: 1, Queue: int64(50 * i)})
		}
	}
	require.NoError(t, c.proxy.Drain("b", time.Hour))
	first := c.send(t.Context(), http.MethodGet, "/idx/_search", "")
	require.Eventually(t, func() bool { return len(c.seen()) == 1 }, admitPatience, time.Millisecond)
	waits := c.send(t.Context(), http.MethodGet, "/late/_search", "")
	c.await(1)
	was := c.snapshot()
	idx, _ := was.Lookup("idx")
	late := *idx
	late.Name = "late"
	c.proxy.UseSnapshot(cluster.NewSnapshot(cluster.Contents{Engine: was.Engine, Nodes: was.Nodes, PlacedAt: time.Now(), Indices: []cluster.Index{*idx, late}}))
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	c.arrives(0)
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-waits).status)
}

// What is admitted goes by what polls tell, also where the engine chooses all copies.
func TestPollsMatterToAdmission(t *testing.T) {
	p := start(t, 1, nil).proxy
	require.False(t, p.NeedsPolls("n1"))
	require.NoError(t, p.SetAdmissionMode(admission.Auto))
	require.True(t, p.NeedsPolls("n1"))
	require.NoError(t, p.SetMode(ModeOff))
	require.False(t, p.NeedsPolls("n1"))
}
