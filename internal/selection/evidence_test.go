package selection

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Several ejected nodes that are probed in one round do not excuse each other: three nodes
// with latency returned together as each was as fast as the other two.
func TestEjectedNodesAreNoPeersOfEachOther(t *testing.T) {
	s, nodes := newTest(t, 9)
	setTimes(nodes, 5, 3)
	bad := nodes[:3]
	for _, n := range bad {
		s.eject(n, Slow, 1, "a test")
		require.Equal(t, Slow, n.State())
	}
	answerProbes(s, nodes, time.Second, 30*time.Second, late(100*time.Millisecond, bad...))
	for _, n := range bad {
		require.Equal(t, Slow, n.State(), n.Name)
	}
}

// A node that answers no polls does nothing that would be needed: what it did before it
// hung had kept it in use.
func TestANodeThatHangsIsNotNeeded(t *testing.T) {
	s, nodes := newBusy(t, 5, 1.1)
	set(&nodes[2].service, 9)
	s.ObservePoll(nodes[2].ID, Poll{State: Unresponsive, Took: time.Second}, at(time.Second))
	for now := time.Second; now < 7*time.Second; now += ProbeTimeout + suspicionInterval {
		s.Suspect(&Decision{Nodes: nodes}, at(now))
		probeUnpolled(s, nodes, now, late(ProbeTimeout, nodes[2]))
	}
	require.Equal(t, Slow, nodes[2].State())
	require.Equal(t, "abde", names(decide(s, nodes, 10*time.Second)))
}

// Where all copies of a shard are on ejected nodes, those are listed whose probes are
// answered soonest: one that hangs would hang the search, too.
func TestOfEjectedCopiesTheOneWithTheSoonestProbeIsListed(t *testing.T) {
	for hangs := range 2 {
		s, nodes := newTest(t, 9)
		setTimes(nodes, 5, 3)
		answer := func(p Probe) ProbeOutcome {
			switch p.Node {
			case nodes[hangs]:
				return ProbeOutcome{Failed: true, Took: ProbeTimeout}
			case nodes[1-hangs]:
				return ProbeOutcome{Took: 100 * time.Millisecond}
			}
			return answeredWell(p)
		}
		now := suspect(s, nodes, time.Second, proofs+1, answer) // one of the rounds goes through the node
		require.Equal(t, Slow, nodes[0].State())
		require.Equal(t, Slow, nodes[1].State())
		d := &Decision{}
		s.Choose(d, Request{Nodes: nodes, Shards: [][]int{{0, 1}, {2, 3}}, Outliers: true}, at(now))
		require.Equal(t, nodes[1-hangs], d.Nodes[0])
		require.NotContains(t, d.Nodes, nodes[hangs])
	}
}

// A change of a node's zone or processors, as after a restart with another configuration,
// changes nothing of what is known of it, and of what is under way.
func TestWhatChangesOfANodeLeavesItEjected(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	d := decide(s, nodes, time.Second)
	s.Acquire(d, 1, at(time.Second))
	s.eject(nodes[2], Slow, 1, "a test")
	infos := infosOf(nodes)
	infos[2].Zone, infos[2].Processors = "b", 8
	after := s.Update(infos, epoch)
	require.Equal(t, "b", after[2].Zone)
	require.Empty(t, nodes[2].Zone, "decisions read it without a lock")
	require.Equal(t, Slow, after[2].State())
	require.Equal(t, "abde", names(decide(s, after, time.Second)))
	require.EqualValues(t, 1, after[2].Outstanding())
	d.Release()
	require.Zero(t, after[2].Outstanding())
	answerProbes(s, after, 2*time.Second, 12*time.Second, answeredWell)
	require.Equal(t, Fine, after[2].State())
}

// A poll that is answered with an error speaks against the node, and proves nothing.
func TestAPollAnsweredWithAnErrorIsSuspicion(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	s.ObservePoll(nodes[2].ID, Poll{State: Unknown, Message: "503"}, at(time.Second))
	require.Equal(t, Unknown, nodes[2].State())
	require.Equal(t, "503", s.Figures(nodes[2], at(time.Second)).LastError.Message)
	probed := false
	for _, p := range probe(s, nodes, time.Second, answeredWell) {
		probed = probed || p.Node == nodes[2]
	}
	require.True(t, probed)
	require.Equal(t, NoOutlier, decide(s, nodes, time.Second).Reason)
	s.ObservePoll(nodes[2].ID, Poll{State: Fine}, at(2*time.Second))
	require.Equal(t, Fine, nodes[2].State())
}

// Sidesteps that ejected a node at the same moment do not let it in at the same moment.
func TestTheTimeOutIsJittered(t *testing.T) {
	seen := map[time.Duration]bool{}
	for i := range 20 {
		s, nodes := newTest(t, 5)
		s.o.Seed = uint64(i)
		s.eject(nodes[2], Slow, int64(time.Second), "a test")
		nodes[2].health.good.Store(twice)
		hold := time.Duration(0)
		for ; nodes[2].State() == Slow; hold += time.Millisecond {
			s.advance(nodes[2], int64(time.Second+hold))
		}
		require.GreaterOrEqual(t, hold, firstHold*4/5)
		require.LessOrEqual(t, hold, firstHold*6/5+time.Millisecond)
		seen[hold] = true
	}
	require.Greater(t, len(seen), 15)
}

// A node that has just joined has not been ejected before.
func TestTheFirstTimeOutOfANodeThatJoinedIsWhole(t *testing.T) {
	s, nodes := newTest(t, 5)
	s.slowStart(nodes[2], int64(time.Second))
	s.eject(nodes[2], Slow, int64(2*time.Second), "a test")
	require.GreaterOrEqual(t, time.Duration(nodes[2].health.hold.Load()), firstHold*4/5)
}

// A node whose CPU quota runs out stands still until the next period, at another moment than
// its peers: that is neither a fault of it nor a reason to move its load to them. One that is
// later by more than that is ejected.
func TestANodeThatWaitsForItsQuotaIsNotEjected(t *testing.T) {
	for _, c := range []struct {
		throttled, took time.Duration
		ejected         bool
	}{
		{0, 90 * time.Millisecond, true},
		{100 * time.Millisecond, 90 * time.Millisecond, false},
		{100 * time.Millisecond, 300 * time.Millisecond, true},
	} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, 5, 3)
		now := time.Second
		for range proofs {
			for _, n := range nodes { // the engines tell of it in one poll of five
				s.ObservePoll(n.ID, Poll{State: Fine, Quota: 0.3, Throttled: c.throttled}, at(now))
				s.ObservePoll(n.ID, Poll{State: Fine, Quota: 0.3}, at(now+200*time.Millisecond))
			}
			now = suspect(s, nodes, now+200*time.Millisecond, 1, late(c.took, nodes[2]))
		}
		require.Equal(t, c.ejected, nodes[2].State() == Slow, "%+v", c)
		require.Equal(t, c.ejected, nodes[2].health.excluded() || nodes[2].health.avoided(), "%+v", c)
	}
}

// Where nothing but ejected nodes serves anything, they are compared with each other: else
// two nodes that restarted together were ejected for good.
func TestEjectedNodesThatAreAloneReturn(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	holders := nodes[:2]
	for _, n := range holders {
		s.eject(n, Slow, 1, "a test")
		require.Equal(t, Slow, n.State())
	}
	answerProbes(s, nodes, time.Second, 20*time.Second, func(p Probe) ProbeOutcome {
		if slices.Contains(holders, p.Node) {
			return answeredWell(p)
		}
		return ProbeOutcome{Unfit: true}
	})
	for _, n := range holders {
		require.Equal(t, Fine, n.State(), n.Name)
	}
}

// What was proved of a node before an update names the same node after it.
func TestProofOutlivesAnUpdate(t *testing.T) {
	s, nodes := newTest(t, 3)
	setTimes(nodes, 5, 3)
	nodes[2].health.avoid.Store(1)
	infos := infosOf(nodes)
	for i := range infos {
		infos[i].Processors = 8
	}
	updated := s.Update(infos, epoch)
	require.True(t, updated[2].Same(nodes[2]))
	require.False(t, updated[2].Same(nodes[1]))
	require.True(t, s.makeRoom(nodes[2], false, 1), "it is avoided, and not another one")
	require.False(t, s.makeRoom(nodes[1], false, 1))
}
