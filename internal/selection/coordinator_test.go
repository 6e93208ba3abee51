package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Requests that are not steered spread evenly over nodes that are about as good, and
// leave alone one whose HTTP side is slow.
func TestRequestsThatPassSpread(t *testing.T) {
	for _, c := range []struct {
		overhead []float64 // ms
		response float64   // ms
	}{
		{[]float64{0.2, 1, 1, 1, 300}, 10},
		{[]float64{50, 200, 200, 200, 3000}, 400},
	} {
		s, nodes := newTest(t, "adaptive", 5)
		for i, ms := range c.overhead {
			nodes[i].observeOverhead(ms, s.since(epoch))
			nodes[i].response.Observe(c.response)
		}
		for range 100 {
			s.Coordinator(nodes, func(*Node) bool { return true }, epoch).Begin()
		}
		for i, n := range nodes[:4] {
			require.InDelta(t, 25, n.coordinating.Load(), 5, "%v: node %d", c.overhead, i)
		}
		require.LessOrEqual(t, nodes[4].coordinating.Load(), int64(2), "%v", c.overhead)
		for _, n := range nodes {
			for n.coordinating.Load() > 0 {
				n.End()
			}
		}
	}
}

// What searches told of a coordinating node fades; what polls tell goes on.
func TestOverheadFades(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 1)
	nodes[0].observeOverhead(300, s.since(epoch))
	set(&nodes[0].reach, 2)
	for after, want := range map[time.Duration]float64{0: 302, overheadLife: 152, 2 * overheadLife: 77, time.Minute: 2} {
		require.InDelta(t, want, s.coordinatingRank(nodes[0], s.since(epoch.Add(after)), false), 0.1)
	}
}

// A node that is ejected or comes back does not coordinate, however quick its last
// answered poll was and however busy the others are.
func TestNodesThatAreNotFineDoNotCoordinate(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 5)
	for _, n := range nodes[1:] {
		n.observeOverhead(400, s.since(epoch))
	}
	s.eject(nodes[0], Slow, s.since(epoch), "a test")
	for i := range 200 {
		if i == 100 {
			s.slowStart(nodes[0], s.since(epoch))
		}
		d := choose(s, nodes, ring(5, 2, 5), epoch)
		passed := s.Coordinator(nodes, func(*Node) bool { return true }, epoch)
		require.NotContains(t, []string{d.Coordinator.Name, passed.Name}, nodes[0].Name)
		s.Acquire(d, epoch)
	}
}

// A burst of searches spreads over coordinating nodes that differ, but none goes through
// one that is out of all proportion.
func TestBurstDoesNotHerdToOneCoordinator(t *testing.T) {
	for _, c := range []struct {
		overhead []float64 // ms
		most     []int64
	}{
		{[]float64{10, 30, 30, 30, 30}, []int64{60, 25, 25, 25, 25}},
		{[]float64{10, 30, 30, 30, 4000}, []int64{65, 30, 30, 30, 0}},
		{[]float64{1, 1, 2, 300, 300}, []int64{40, 40, 40, 1, 1}},
	} {
		s, nodes := newTest(t, "adaptive", 5)
		for i, ms := range c.overhead {
			nodes[i].observeOverhead(ms, s.since(epoch))
			nodes[i].response.Observe(10)
		}
		for range 100 {
			now := epoch.Add(time.Second)
			s.Acquire(choose(s, nodes, ring(5, 2, 5), now), now)
		}
		for i, n := range nodes {
			require.LessOrEqual(t, n.coordinating.Load(), c.most[i], "%v: node %d", c.overhead, i)
		}
	}
}

// Requests that are not steered spread evenly over nodes that are about as good, and
// leave alone one whose HTTP side is slow.

// In a full cluster polls are late everywhere. The few nodes that nothing speaks against just
// then are not sent everything; one that cannot be reached is sent nothing.
func TestAFewNodesDoNotCoordinateEverything(t *testing.T) {
	for suspects := range 5 {
		s, nodes := newTest(t, "adaptive", 5)
		setTimes(nodes, 5, 3)
		s.ObservePoll(nodes[4].ID, Poll{State: Unreachable}, epoch)
		for _, n := range nodes[:suspects] {
			s.ObservePoll(n.ID, Poll{State: Unresponsive, Took: time.Second}, at(time.Second))
		}
		share := map[*Node]int{}
		for range 100 {
			d := decide(s, nodes, time.Second)
			share[d.Coordinator]++
		}
		for range 100 {
			n := s.Coordinator(nodes, func(*Node) bool { return true }, at(time.Second))
			require.NotSame(t, nodes[4], n)
		}
		require.Zero(t, share[nodes[4]], "it cannot be reached")
		if suspects == 1 {
			require.Zero(t, share[nodes[0]])
			require.InDelta(t, 33, share[nodes[1]], 5, "%d suspects", suspects)
			continue
		}
		for _, n := range nodes[:4] {
			require.InDelta(t, 25, share[n], 5, "%d suspects", suspects)
		}
	}
}
