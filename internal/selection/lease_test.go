package selection

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEveryLeaseReturnedMeansNothingOutstanding(t *testing.T) {
	s, nodes := newTest(t, 5)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			var d Decision
			for i := range 500 {
				now := epoch.Add(time.Duration(i) * time.Millisecond)
				s.Choose(&d, Request{Nodes: nodes, Shards: ring(5, 2, 5)}, now)
				s.Acquire(&d, 1, now)
				switch r.IntN(3) {
				case 0:
					s.Observe(&d, Outcome{ResponseTime: time.Millisecond, Took: time.Millisecond, HasTook: true}, now)
				case 1:
					s.Blame(d.Nodes[:1], "", now)
				}
				d.Release()
				if r.IntN(2) == 0 {
					d.Release() // a second return is ignored
				}
			}
		})
	}
	wg.Go(func() { // polls, probes and changes of state meanwhile
		for i := range 500 {
			now := epoch.Add(time.Duration(i) * time.Millisecond)
			n := nodes[i%len(nodes)]
			s.ObservePoll(n.ID, Poll{State: Fine, Queue: float64(i % 3), ServiceTime: time.Millisecond, Took: time.Millisecond}, now)
			s.ObservePoll(nodes[0].ID, Poll{State: Unreachable}, now)
			s.Probes(nil, now)
			_ = n.State()
		}
	})
	wg.Wait()
	for _, n := range nodes {
		require.Zero(t, n.Outstanding(), n.Name)
		require.Zero(t, n.coordinating.Load(), n.Name)
	}
}

func TestCanceledSearchChangesNoStatistics(t *testing.T) {
	s, nodes := newTest(t, 2)
	d := choose(s, nodes, [][]int{{0, 1}}, epoch)
	s.Acquire(d, 1, epoch)
	require.EqualValues(t, 1, d.Nodes[0].Outstanding())
	d.Release()
	_, ok := d.Nodes[0].response.Value()
	require.False(t, ok)
	require.Zero(t, d.Nodes[0].Outstanding())
}

func TestOneNodeSetTellsResponseAndOverhead(t *testing.T) {
	s, nodes := newTest(t, 2)
	d := choose(s, nodes, [][]int{{0, 1}}, epoch)
	s.Acquire(d, 1, epoch)
	s.Observe(d, Outcome{ResponseTime: 120 * time.Millisecond, Took: 20 * time.Millisecond, HasTook: true}, epoch)
	d.Release()
	r, _ := d.Nodes[0].response.Value()
	h, _ := d.Nodes[0].overhead.Value()
	require.InDelta(t, 20, r, 1e-9)
	require.InDelta(t, 100, h, 1e-9)
}

func response(n *Node) float64 {
	r, _ := n.response.Value()
	return r
}

// A node that is short of CPU answers clients and is late with its statistics: if that
// kept it out, its neighbours would be the next ones.
func TestALatePollIsNoProofAgainstANodeThatAnswers(t *testing.T) {
	s, nodes := newTest(t, 3)
	setTimes(nodes, 20, 3)
	late := Poll{State: Unresponsive, Took: time.Second, Message: "deadline exceeded"}
	s.ObservePoll(nodes[0].ID, Poll{State: Fine}, at(time.Second))
	s.Heard(nodes[0], at(2100*time.Millisecond))
	s.ObservePoll(nodes[0].ID, late, at(3*time.Second))
	require.Equal(t, Fine, nodes[0].State())
	require.True(t, nodes[0].Alive())
	require.Equal(t, "deadline exceeded", s.Figures(nodes[0], at(3*time.Second)).LastError.Message)

	s.ObservePoll(nodes[0].ID, late, at(4200*time.Millisecond))
	require.Equal(t, Unresponsive, nodes[0].State(), "it has answered nothing meanwhile")
	s.Heard(nodes[0], at(5*time.Second))
	s.ObservePoll(nodes[0].ID, late, at(5300*time.Millisecond))
	require.Equal(t, Unresponsive, nodes[0].State(), "a poll that it answers brings it back")
}

func TestPollsFeedQueueServiceAndWhatOthersSaw(t *testing.T) {
	s, nodes := newTest(t, 2)
	s.ObservePoll(nodes[0].ID, Poll{
		State: Fine, Queue: 7, ServiceTime: 3 * time.Millisecond,
		Coordinated: map[string]Seen{nodes[0].ID: {Now: time.Millisecond}, nodes[1].ID: {Now: 300 * time.Millisecond}, "gone": {Now: 1}},
	}, epoch)
	v := []Figures{s.Figures(nodes[0], epoch), s.Figures(nodes[1], epoch)}
	require.InDelta(t, 0.3*7, v[0].Parts.Queue, 1e-9, "the poll in newTest saw an empty queue")
	require.InDelta(t, 3, v[0].Parts.ServiceTime, 1e-9)
	require.InDelta(t, 3, v[0].Parts.ResponseTime, 1e-9, "what a node says of itself has no network in it")
	require.InDelta(t, 300, v[1].Parts.ResponseTime, 1e-9)
	require.Equal(t, Fine.String(), v[0].State)
	s.ObservePoll(nodes[0].ID, Poll{State: Fine, Coordinated: map[string]Seen{nodes[1].ID: {Now: 100 * time.Millisecond}}}, epoch)
	require.InDelta(t, 0.7*300+0.3*100, response(nodes[1]), 1e-9)
	require.NotPanics(t, func() { s.ObservePoll("unknown", Poll{State: Fine}, epoch) })
}

// share returns the part of the expected shard queries of the last minute that a node has.
func share(s *Selector, nodes []*Node, i int, now time.Time) float64 {
	var all float64
	for _, n := range nodes {
		all += s.Figures(n, now).Sent
	}
	return s.Figures(nodes[i], now).Sent / max(1, all)
}

func TestShareCountsExpectedShardQueriesOfTheLastMinute(t *testing.T) {
	s, nodes := newTest(t, 3)
	setTimes(nodes, 5, 3)
	s.eject(nodes[2], Slow, 1, "a test")
	for range 10 {
		d := choose(s, nodes, [][]int{{0, 1}, {1, 2}, {0, 2}}, epoch)
		require.Equal(t, "ab", names(d))
		s.Acquire(d, 1, epoch)
		d.Release()
	}
	now := epoch.Add(10 * time.Second)
	require.InDelta(t, 0.5, share(s, nodes, 0, now), 1e-3)
	require.InDelta(t, 0.5, share(s, nodes, 1, now), 1e-3)
	require.Zero(t, share(s, nodes, 2, now))
	require.Zero(t, share(s, nodes, 0, epoch.Add(2*time.Minute)))
}

func TestUpdateKeepsStatisticsAndForgetsNodesThatLeft(t *testing.T) {
	s, nodes := newTest(t, 2)
	setTimes(nodes, 5, 3)
	kept := s.Update([]NodeInfo{{ID: nodes[1].ID, Name: nodes[1].Name}}, epoch)
	require.Same(t, nodes[1], kept[0])
	back := s.Update([]NodeInfo{{ID: nodes[0].ID, Name: nodes[0].Name}, {ID: nodes[1].ID, Name: nodes[1].Name}}, epoch)
	require.NotSame(t, nodes[0], back[0])
	require.Same(t, nodes[1], back[1])
}

// Searches that one request sends together count one by one.
func TestSearchesSentTogetherAreLoad(t *testing.T) {
	s, nodes := newTest(t, 2)
	setTimes(nodes, 10, 3)
	d := choose(s, nodes, [][]int{{0, 1}, {0, 1}}, epoch)
	s.Acquire(d, 5, epoch)
	for _, n := range d.Nodes {
		require.EqualValues(t, 5, n.Outstanding())
		require.EqualValues(t, 5, n.searches.Load())
	}
	require.EqualValues(t, 1, d.Coordinator.coordinating.Load())
	other := choose(s, nodes, [][]int{{0, 1}, {0, 1}}, epoch)
	s.Acquire(other, 1, epoch)
	d.Release()
	d.Release()
	for _, n := range nodes {
		require.EqualValues(t, 1, n.Outstanding(), "the search of another request")
	}
	other.Release()
	for _, n := range nodes {
		require.Zero(t, n.Outstanding())
		require.Zero(t, n.coordinating.Load())
	}
	s.Acquire(d, 1, epoch)
	d.Release()
	require.Zero(t, nodes[0].Outstanding(), "a decision may be used again, alone")
}

// Of a set nobody knows which node was slow.
func TestTheTimeOfASetTellsNoResponseTime(t *testing.T) {
	s, nodes := newTest(t, 3)
	setTimes(nodes, 10, 3)
	s.Observe(&Decision{Nodes: nodes}, Outcome{ResponseTime: time.Second, Took: time.Second, HasTook: true}, at(time.Minute))
	for _, n := range nodes {
		require.InDelta(t, 10, response(n), 1e-9)
	}
}
