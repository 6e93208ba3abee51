package selection

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A node that is about to leave is given no searches and coordinates nothing, whatever kind they
// are of, until it has left.
func TestANodeThatLeavesIsGivenNothing(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	s.Leave(nodes[1], at(time.Minute))
	for range 50 {
		for _, shards := range [][][]int{{{0, 1}}, ring(5, 2, 5)} {
			d := choose(s, nodes, shards, at(2*time.Second))
			require.NotContains(t, d.Nodes, nodes[1])
			require.NotSame(t, nodes[1], d.Coordinator)
		}
		require.NotSame(t, nodes[1], s.Coordinator(nodes, func(*Node) bool { return true }, at(2*time.Second)))
	}
	require.Equal(t, at(time.Minute), s.Figures(nodes[1], at(2*time.Second)).LeavingUntil.UTC())
	require.Equal(t, Drained, s.Figures(nodes[1], at(2*time.Second)).Leaving)
	require.Equal(t, []string{"id-b"}, s.DrainedNodes(at(2*time.Second)))
	require.Empty(t, s.DrainedNodes(at(time.Minute)))
	require.Contains(t, names(choose(s, nodes, [][]int{{1}, {0, 2}}, at(2*time.Second))), "b", "the last copy stays")
}

// While no node stands out the engine chooses the copies: it would choose one that leaves, too.
func TestANodeThatLeavesMakesLists(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	require.Equal(t, NoOutlier, decide(s, nodes, time.Second).Reason)
	s.Leave(nodes[1], at(time.Minute))
	d := decide(s, nodes, time.Second)
	require.Equal(t, Ranked, d.Reason)
	require.NotContains(t, d.Nodes, nodes[1])
}

// A mark is soft: it ends with its time, when it is taken back, and when the node has restarted or left.
func TestTheMarkOfANodeThatLeavesEnds(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string // its ephemeral id; "-": it is gone
		at            time.Duration
		why           string
	}{
		"nothing happens":        {"one", "one", 59 * time.Second, ""},
		"its time":               {"one", "one", time.Minute, "its time is over"},
		"another process":        {"one", "two", 2 * time.Second, "it has restarted"},
		"it was not known which": {"", "one", 2 * time.Second, ""},
		"it is not known which":  {"one", "", 2 * time.Second, ""},
		"it is gone":             {"one", "-", 2 * time.Second, "it has left the cluster"},
	} {
		s, nodes := newTest(t, 5)
		infos := infosOf(nodes)
		infos[1].EphemeralID = c.before
		nodes = s.Update(infos, epoch)
		s.Leave(nodes[1], at(time.Minute))
		if infos[1].EphemeralID = c.after; c.after == "-" {
			infos = slices.Delete(infos, 1, 2)
		}
		s.Update(infos, epoch)
		var told []string
		for range 2 {
			s.EndMarks(nodes, at(c.at), func(n *Node, why string) { told = append(told, n.Name+": "+why) })
		}
		if c.why == "" {
			require.Empty(t, told, name)
			require.True(t, nodes[1].leaves(s.since(at(c.at))), name)
			continue
		}
		require.Equal(t, []string{"b: " + c.why}, told, name)
		require.False(t, nodes[1].leaves(s.since(at(2*time.Second))), name)
	}

	s, nodes := newTest(t, 5)
	s.Leave(nodes[1], at(time.Minute))
	s.Leave(nodes[1], time.Time{})
	require.False(t, nodes[1].leaves(s.since(at(2*time.Second))), "it was taken back")

	s.Leave(nodes[1], at(time.Minute))
	require.False(t, nodes[1].leaves(s.since(at(time.Minute))), "its time is over, and nobody has looked")

	infos := infosOf(nodes)
	s.Update(infos[:1], epoch)
	require.False(t, s.Update(infos, epoch)[1].leaves(s.since(at(4*time.Second))), "it left the cluster, and joined again")

	s, nodes = newTest(t, 5)
	s.Leave(nodes[1], at(time.Minute))
	info := nodes[1].NodeInfo
	info.Zone = "other"
	require.True(t, s.Update([]NodeInfo{info}, epoch)[0].leaves(s.since(at(4*time.Second))), "something else of it changed")
}

// Where all copies of a shard are on nodes that leave, or are ejected, one that leaves is listed.
func TestANodeThatLeavesComesBeforeASlowOne(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	s.eject(nodes[0], Slow, s.since(at(time.Second)), "a test")
	nodes[0].probe.took.Set(millis(ProbeTimeout))
	s.Leave(nodes[1], at(time.Minute))
	require.Equal(t, "b", names(choose(s, nodes, [][]int{{0, 1}}, at(2*time.Second))))
}

// Some nodes that leave beside others that come back are still not coordinated through, however
// often two nodes are drawn of which both leave.
func TestNodesThatLeaveDoNotCoordinateBesideOthersThatComeBack(t *testing.T) {
	all := func(*Node) bool { return true }
	s, nodes := newTest(t, 5)
	s.Leave(nodes[1], at(time.Minute))
	s.Leave(nodes[3], at(time.Minute))
	for range 500 {
		require.False(t, s.Coordinator(nodes, all, at(2*time.Second)).in([]*Node{nodes[1], nodes[3]}))
	}
	s, nodes = newTest(t, 3)
	s.slowStart(nodes[0], s.since(at(time.Second)))
	s.Leave(nodes[1], at(time.Minute))
	for range 500 {
		require.NotSame(t, nodes[1], s.Coordinator(nodes, all, at(2*time.Second)))
	}
	require.Same(t, nodes[1], s.Coordinator(nodes[1:2], all, at(2*time.Second)), "the only one")
}

// A connection that breaks off is no restart, and neither is one that cannot be made: the network may be at fault.
func TestTheMarkOutlivesABrokenConnection(t *testing.T) {
	s, nodes := newTest(t, 5)
	s.Leave(nodes[1], at(time.Minute))
	s.MarkUnreachable(nodes[1], "reset", at(2*time.Second))
	s.ObservePoll(nodes[1].ID, Poll{State: Fine}, at(3*time.Second))
	require.True(t, nodes[1].leaves(s.since(at(3*time.Second))))
	s.ObservePoll(nodes[1].ID, Poll{State: Unreachable}, at(4*time.Second))
	s.ObservePoll(nodes[1].ID, Poll{State: Fine}, at(5*time.Second))
	require.True(t, nodes[1].leaves(s.since(at(5*time.Second))))
}

// A node that hangs and is to be restarted for that does not become the better of two bad copies.
func TestAnEjectedNodeThatLeavesIsRankedAsEjected(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	for i, took := range []time.Duration{300 * time.Millisecond, ProbeTimeout} {
		s.eject(nodes[i], Slow, s.since(at(time.Second)), "a test")
		nodes[i].probe.took.Set(millis(took))
	}
	s.Leave(nodes[1], at(time.Minute))
	for range 10 {
		require.Equal(t, "a", names(choose(s, nodes, [][]int{{0, 1}}, at(2*time.Second))))
	}
}

// What the cluster announces counts as what an operator says, until the cluster says otherwise.
func TestANodeThatTheClusterAnnouncesToLeaveIsGivenNothing(t *testing.T) {
	s, nodes := newTest(t, 5)
	infos := infosOf(nodes)
	infos[1].Announced = "excluded"
	nodes = s.Update(infos, epoch)
	setTimes(nodes, 5, 3)
	for range 50 {
		d := choose(s, nodes, ring(5, 2, 5), at(2*time.Second))
		require.Equal(t, Ranked, d.Reason)
		require.NotContains(t, d.Nodes, nodes[1])
		require.NotSame(t, nodes[1], d.Coordinator)
	}
	require.Contains(t, names(choose(s, nodes, [][]int{{1}, {0, 2}}, at(2*time.Second))), "b", "the last copy stays")
	require.Equal(t, "excluded", s.Figures(nodes[1], at(2*time.Second)).Leaving)
	require.Zero(t, s.Figures(nodes[1], at(2*time.Second)).LeavingUntil)

	infos[1].Announced = ""
	nodes = s.Update(infos, epoch)
	require.Equal(t, NoOutlier, decide(s, nodes, 3*time.Second).Reason)
	require.Empty(t, s.Figures(nodes[1], at(3*time.Second)).Leaving)
}

// Another selector of the same cluster, as after a reload, keeps out what this one keeps out, and drains what is drained here.
func TestWhatIsKeptOutStaysOutForAnotherSelector(t *testing.T) {
	before, old := newTest(t, 5)
	infos := infosOf(old)
	infos[2].EphemeralID = "one"
	old = before.Update(infos, epoch)
	before.eject(old[1], Failing, int64(time.Second), "failed searches")
	before.Leave(old[2], at(time.Minute))
	s, nodes := newTest(t, 5)
	s.KeepOutAs(before, at(2*time.Second))
	require.Equal(t, states(old), states(nodes))
	require.Equal(t, Failing, nodes[1].State())
	require.Equal(t, at(time.Minute), s.DrainedUntil(nodes[2], at(2*time.Second)).UTC())
	require.Equal(t, "one", nodes[2].leaving.Load().ephemeralID, "whichever process is known here")

	other := New(Options{Epoch: epoch})
	other.KeepOutAs(before, at(2*time.Second))
	require.Empty(t, *other.known.Load())
}
