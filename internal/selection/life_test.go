package selection

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A node that cannot be reached is back when it answers a poll, not when one is late.
func TestALatePollIsNoReturn(t *testing.T) {
	s, nodes := newTest(t, 5)
	s.ObservePoll(nodes[0].ID, Poll{State: Unreachable}, at(time.Second))
	for i := range 5 {
		s.ObservePoll(nodes[0].ID, Poll{State: Unresponsive, Took: time.Second}, at(time.Duration(i+2)*time.Second))
		require.Equal(t, Unreachable, nodes[0].State())
	}
	s.ObservePoll(nodes[0].ID, Poll{State: Fine}, at(10*time.Second))
	require.Equal(t, Slow, nodes[0].State(), "it must answer probes before it gets its share")
}

// A node that answers its polls with errors is probed when that begins. What its probes tell does not change with each
// further error.
func TestErrorsOfPollsThatGoOnAskForNoMoreProbes(t *testing.T) {
	s, nodes := newTest(t, 5)
	wanted := &nodes[0].probe.wanted
	for i := range 5 {
		s.ObservePoll(nodes[0].ID, Poll{State: Unknown}, at(time.Duration(i+1)*time.Second))
		require.Equal(t, i == 0, wanted.Swap(false), i)
	}
	s.ObservePoll(nodes[0].ID, Poll{State: Fine}, at(10*time.Second))
	s.ObservePoll(nodes[0].ID, Poll{State: Unknown}, at(11*time.Second))
	require.True(t, wanted.Load())
}

// The only node that is left serves everything. Nothing is to be compared with it, so it is not shown as bad for good.
func TestTheOnlyNodeThatIsLeftReturns(t *testing.T) {
	for name, keepOut := range map[string]func(*Selector, *Node){
		"ejected": func(s *Selector, n *Node) { s.eject(n, Slow, s.since(at(time.Second)), "a test") },
		"avoided": func(s *Selector, n *Node) {
			n.health.avoid.Store(s.since(at(time.Second)))
			n.probe.wanted.Store(true)
		},
	} {
		s, nodes := newTest(t, 2)
		keepOut(s, nodes[0])
		s.ObservePoll(nodes[1].ID, Poll{State: Unreachable}, at(time.Second))
		require.Positive(t, answerProbes(s, nodes, time.Second, 10*time.Second, answeredWell), name)
		require.True(t, nodes[0].usable(), name)
	}
}

// A node that joined, and was ejected before it got copies, has to prove itself as any other.
func TestTheFirstCopyEndsNoEjection(t *testing.T) {
	s, nodes := newTest(t, 5)
	infos := []NodeInfo{{ID: "new", Name: "new"}}
	for _, n := range nodes {
		infos = append(infos, n.NodeInfo)
	}
	all := s.Update(infos, at(time.Second))
	i := slices.IndexFunc(all, func(n *Node) bool { return n.ID == "new" })
	require.True(t, all[i].joined.Load())
	s.eject(all[i], Failing, int64(time.Second), "fails")
	require.Equal(t, Failing, all[i].State())
	choose(s, all, ring(6, 2, 6), at(2*time.Second))
	require.Equal(t, Failing, all[i].State())
}

// A node may come back with other roles before anybody saw that it was away. What was proved of it as a holder of copies
// would never end: without shards it is not probed. One that holds shards from now on is cold.
func TestANodeThatChangesItsPartBeginsAnew(t *testing.T) {
	s, nodes := newTest(t, 5)
	s.eject(nodes[2], Slow, int64(time.Second), "was unreachable")
	infos := infosOf(nodes)
	infos[2].NoData = true
	nodes = s.Update(infos, at(2*time.Second))
	s.ObservePoll(nodes[2].ID, Poll{State: Fine}, at(2*time.Second))
	require.Equal(t, Fine, nodes[2].State())
	require.Zero(t, s.expectedUntil.Load())

	infos[2].NoData = false
	nodes = s.Update(infos, at(3*time.Second))
	require.EqualValues(t, 3*time.Second+absence, s.expectedUntil.Load())
	choose(s, nodes, ring(5, 2, 5), at(4*time.Second))
	require.Equal(t, Ramping, nodes[2].State())
	require.Zero(t, s.expectedUntil.Load())
}
