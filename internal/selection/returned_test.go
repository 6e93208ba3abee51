package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What was measured of a node before it returned counts no more. Response times of it are told again at once, by the
// answers themselves; its service time by its next poll. Until then it is not the fastest of all, as if a shard query took no
// time: it is cold.
func TestANodeWithoutAServiceTimeIsNotTheFastest(t *testing.T) {
	s, nodes := newTest(t, 3)
	setTimes(nodes, 5, 3)
	nodes[1].service.Reset()
	first := 0
	for range 100 {
		if d := choose(s, nodes, [][]int{{0, 1}}, at(time.Second)); d.Nodes[0] == nodes[1] {
			first++
		}
	}
	require.Equal(t, 50, first)
	require.Equal(t, "abc", names(choose(s, nodes, ring(3, 2, 3), at(time.Second))))
}

// What waited on a node, and what it rejected, before it could not be reached says nothing of it once it is back.
func TestWhatWaitedBeforeANodeWasAwayCountsNoMore(t *testing.T) {
	s, nodes := newTest(t, 3)
	setTimes(nodes, 5, 3)
	n := nodes[1]
	s.ObservePoll(n.ID, Poll{State: Fine, Queue: 1000, Queries: 10, Elapsed: time.Second, Rejected: 0.5}, at(time.Second))
	require.True(t, n.rejects(int64(time.Second)))
	s.ObservePoll(n.ID, Poll{State: Unreachable}, at(2*time.Second))
	s.ObservePoll(n.ID, Poll{State: Fine}, at(10*time.Second))
	require.Zero(t, n.queue.Mean())
	require.False(t, n.rejects(int64(10*time.Second)))
}

// A node in slow start that probes speak against, or that is silent, is no better than others like that, whether this
// search is in its share or not.
func TestANodeInSlowStartThatHangsIsNotUsedForOneThatIsSlow(t *testing.T) {
	for name, hang := range map[string]func(s *Selector, n *Node){
		"avoided": func(s *Selector, n *Node) { s.avoid(n, true, "a test", int64(2*time.Second)) },
		"silent":  func(_ *Selector, n *Node) { silence(n, at(2*time.Second)) },
	} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, 5, 3)
		s.eject(nodes[1], Slow, int64(time.Second), "a test")
		nodes[1].probe.took.Set(100)
		s.slowStart(nodes[2], int64(2*time.Second))
		hang(s, nodes[2])
		nodes[2].probe.took.Set(millis(ProbeTimeout))
		d := choose(s, nodes, [][]int{{1, 2}}, at(2*time.Second+time.Millisecond))
		require.Equal(t, "b", names(d), name)
		require.Equal(t, Suspected, d.candidates[2].Excluded, name)
	}
}

// What another sidestep found is as of when it sent its probes. Here the node is ejected when that is told: searches that were
// sent meanwhile wait for it as well.
func TestAnEjectionIsOfTheMomentWhenItIsTold(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	d := decide(s, nodes, time.Minute)
	s.Acquire(d, 1, at(time.Minute+600*time.Millisecond))
	for i := range proofs {
		sent := time.Minute + time.Duration(i)*suspicionInterval
		s.probes.lookedAt.Store(int64(sent + time.Second))
		s.TakeIn(heardOf(nodes[4], nodes[:3], at(sent), false, ProbeOutcome{Failed: true, Message: "503"}), at(sent+time.Second))
	}
	require.Equal(t, Failing, nodes[4].State())
	require.True(t, s.EjectedSince(d))
}

// At most a third of the nodes is ejected. What cannot be reached is no part of it, however many requests found that out: else
// one that hangs would stay in use beside it.
func TestWhatCannotBeReachedTakesNoPlaceOfWhatHangs(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	for _, n := range nodes[:2] {
		for range twice {
			s.MarkUnreachable(n, "refused", at(time.Second))
		}
	}
	require.Equal(t, Bound{AtMost: 2, Nodes: 5}, s.Bound())
	now := suspect(s, nodes, time.Second, proofs, late(ProbeTimeout, nodes[2]))
	require.Equal(t, []State{Unreachable, Unreachable, Slow, Fine, Fine}, states(nodes))
	for _, n := range nodes[:2] {
		s.ObservePoll(n.ID, Poll{State: Fine}, at(now))
	}
	require.Equal(t, []State{Slow, Ramping, Slow, Fine, Fine}, states(nodes), "where there is room they are to prove themselves")
}
