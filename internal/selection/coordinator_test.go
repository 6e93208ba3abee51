package selection

import (
	"fmt"
	"maps"
	"slices"
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
		s, nodes := newTest(t, 5)
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
	s, nodes := newTest(t, 1)
	nodes[0].observeOverhead(300, s.since(epoch))
	set(&nodes[0].reach, 2)
	p := pool{nodes: nodes}
	for after, want := range map[time.Duration]float64{0: 302, roundLife: 152, 2 * roundLife: 77, time.Minute: 2} {
		p.weigh(scarcity{}, s.since(epoch.Add(after)))
		require.InDelta(t, want, p.best, 0.1)
	}
}

// A node that is ejected or comes back does not coordinate, however quick its last
// answered poll was and however busy the others are.
func TestNodesThatAreNotFineDoNotCoordinate(t *testing.T) {
	s, nodes := newTest(t, 5)
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
		s.Acquire(d, 1, epoch)
	}
}

// Ejected and avoided nodes coordinate nothing either where most of the others answer no polls for a moment, though
// they are listed for shards of which the other copies are on such nodes.
func TestEjectedNodesDoNotCoordinateWhereOthersDoNotAnswerForAMoment(t *testing.T) {
	s, nodes := newTest(t, 5)
	for _, n := range nodes {
		set(&n.reach, 1)
		set(&n.response, 10)
	}
	s.eject(nodes[2], Slow, s.since(epoch), "a test")
	nodes[3].health.avoid.Store(1)
	for _, n := range nodes[:2] {
		n.polled.Store(int32(Unresponsive))
	}
	silence(nodes[4], at(1))
	for i := range 100 {
		now := at(time.Duration(i+1) * time.Millisecond)
		d := choose(s, nodes, [][]int{{0, 1}, {2, 4}, {3, 4}}, now)
		require.Subset(t, d.Nodes, nodes[2:4])
		require.NotContains(t, d.Nodes, nodes[4])
		require.NotContains(t, nodes[2:4], d.Coordinator)
		s.Acquire(d, 1, now)
	}
}

// What is not steered goes through no ejected or avoided node while there are others, also if two are drawn.
func TestWhatPassesGoesThroughNoEjectedNode(t *testing.T) {
	for name, exclude := range map[string]func(*Selector, *Node){
		"ejected": func(s *Selector, n *Node) { s.eject(n, Slow, s.since(epoch), "a test") },
		"avoided": func(s *Selector, n *Node) { s.avoid(n, false, "a test", 1) },
	} {
		s, nodes := newTest(t, 5)
		for _, n := range nodes[:2] {
			exclude(s, n)
			require.False(t, n.usable())
		}
		usable := func(*Node) bool { return true }
		for range 300 {
			require.NotContains(t, nodes[:2], s.Coordinator(nodes, usable, epoch), name)
		}
		require.Contains(t, nodes[:2], s.Coordinator(nodes[:2], usable, epoch), name)
	}
}

// A node that answers polls with errors fails what is sent through it, though it holds no copy: nothing is sent through
// it while others answer theirs. Where all polls fail so, as sidestep may not ask, that says nothing.
func TestANodeThatAnswersPollsWithErrorsCoordinatesNothing(t *testing.T) {
	s, nodes := newTest(t, 3)
	now := at(time.Second)
	usable := func(*Node) bool { return true }
	through := func() map[*Node]int {
		count := map[*Node]int{}
		for range 300 {
			count[s.Coordinator(nodes, usable, now)]++
		}
		return count
	}
	fails := Poll{State: Unknown, Message: "503"}
	s.ObservePoll(nodes[1].ID, fails, now)
	require.NotContains(t, through(), nodes[1])
	s.ObservePoll(nodes[0].ID, fails, now)
	s.ObservePoll(nodes[2].ID, fails, now)
	require.Len(t, through(), 3)
	silence(nodes[2], now)
	require.NotContains(t, through(), nodes[2], "what else speaks against a node counts all the same")

	s, _ = newTest(t, 1)
	nodes = []*Node{NewNode(NodeInfo{ID: "a"}), NewNode(NodeInfo{ID: "b"})} // never polled
	s.fail(nodes[0], s.since(now), "503")
	require.Len(t, through(), 2, "a request of a client that failed is no poll")
}

// Beside one that comes back, or missed a poll, nothing is sent through a node that answers polls with errors either: what is
// well coordinates alone. Else answers would be errors that need not be.
func TestErrorsAreNotExcusedByWhatElseSpeaksAgainstOthers(t *testing.T) {
	for name, degrade := range map[string]func(*Selector, *Node){
		"slow start": func(s *Selector, n *Node) { s.slowStart(n, s.since(at(time.Second))) },
		"missed a poll": func(s *Selector, n *Node) {
			s.ObservePoll(n.ID, Poll{State: Unresponsive, Took: time.Second}, at(time.Second))
		},
	} {
		s, nodes := newTest(t, 3)
		s.ObservePoll(nodes[0].ID, Poll{State: Unknown, Message: "503"}, at(time.Second))
		degrade(s, nodes[1])
		for range 100 {
			require.Same(t, nodes[2], s.Coordinator(nodes, func(*Node) bool { return true }, at(time.Second)), name)
			require.Same(t, nodes[2], decide(s, nodes, time.Second).Coordinator, name)
		}
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
		s, nodes := newTest(t, 5)
		for i, ms := range c.overhead {
			nodes[i].observeOverhead(ms, s.since(epoch))
			nodes[i].response.Observe(10)
		}
		for range 100 {
			now := epoch.Add(time.Second)
			s.Acquire(choose(s, nodes, ring(5, 2, 5), now), 1, now)
		}
		for i, n := range nodes {
			require.LessOrEqual(t, n.coordinating.Load(), c.most[i], "%v: node %d", c.overhead, i)
		}
	}
}

// In a full cluster polls are late everywhere. The few nodes that nothing speaks against just
// then are not sent everything; one that cannot be reached is sent nothing.
func TestAFewNodesDoNotCoordinateEverything(t *testing.T) {
	for suspects := range 5 {
		s, nodes := newTest(t, 5)
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

// What a node coordinates takes CPU from its shard queries. Where few of many nodes have the copies
// of a busy index, the others coordinate its searches, all alike; where all are as busy, all nodes do.
func TestOthersCoordinateForFullNodes(t *testing.T) {
	for full := range 6 {
		s, nodes := withProcessors(t, 5)
		served(s, nodes[:full], 200, 10*time.Millisecond, time.Second)
		served(s, nodes[full:], 100, 10*time.Millisecond, time.Second)
		through := func(next func() *Node) (count [5]int) {
			for range 300 {
				n := next()
				count[slices.Index(nodes, n)]++
				n.Begin()
			}
			for _, n := range nodes {
				n.coordinating.Store(0)
			}
			return count
		}
		why := map[Via]bool{}
		listed := through(func() *Node {
			d := choose(s, nodes, [][]int{{0, 1}, {0, 1}}, at(time.Second))
			why[via(s, d, time.Second)] = true
			return d.Coordinator
		})
		require.Equal(t, full > 0, why[ViaBusy], "%v", why)
		require.Equal(t, full == 0, why[ViaTurns] && len(why) == 1, "%v", why)
		passing := through(func() *Node { return s.Coordinator(nodes, func(*Node) bool { return true }, at(time.Second)) })
		for i := range nodes {
			switch {
			case full == 0: // those that are listed
				require.InDelta(t, map[bool]int{true: 150}[i < 2], listed[i], 15, "none is full")
				require.InDelta(t, 60, passing[i], 20, "none is full")
			case full == 5:
				require.InDelta(t, 60, listed[i], 6, "all are full")
				require.InDelta(t, 60, passing[i], 6, "all are full")
			case i < full: // one that is full is as good as one that coordinates four times as much
				require.Less(t, listed[i], 60, "%d of 5 are full", full)
				require.Less(t, passing[i], 60, "%d of 5 are full", full)
			default:
				require.Greater(t, listed[i], 60, "%d of 5 are full", full)
				require.Greater(t, passing[i], 60, "%d of 5 are full", full)
			}
		}
	}
}

// Nodes that are not busy coordinate for full ones, and none that answers nothing; not for nodes that
// reject, but have CPU left.
func TestNodesThatCoordinateForAFullNode(t *testing.T) {
	const idle, full, between, silent, rejecting, avoided = "idle", "full", "between", "silent", "rejecting", "avoided"
	for name, c := range map[string]struct {
		are  []string
		want []int // of the searches that the first two nodes are listed for
	}{
		"one of two":          {[]string{full, idle}, []int{1}},
		"two of four":         {[]string{full, idle, full, idle}, []int{1, 3}},
		"half busy ones, too": {[]string{full, full, between, between, idle}, []int{2, 3, 4}},
		"silent":              {[]string{full, full, silent, idle, idle, idle}, []int{3, 4, 5}},
		"rejecting":           {[]string{full, full, rejecting, idle, idle, idle}, []int{3, 4, 5}},
		"for rejecting ones":  {[]string{rejecting, rejecting, idle, idle}, []int{2, 3}},
		"avoided":             {[]string{full, full, avoided, idle, idle, idle}, []int{3, 4, 5}},
		"avoided, all full":   {[]string{full, avoided, full, full}, []int{0, 2, 3}},
		"all are avoided":     {[]string{avoided, avoided, avoided}, []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s, nodes := withProcessors(t, len(c.are))
			for i, n := range nodes {
				queries := map[string]int64{full: 200, avoided: 200, between: 150}
				served(s, nodes[i:i+1], max(queries[c.are[i]], 100), 10*time.Millisecond, time.Second)
				switch c.are[i] {
				case silent:
					s.ObservePoll(n.ID, Poll{State: Unresponsive, Took: time.Millisecond}, at(time.Second))
				case avoided:
					n.health.avoid.Store(1)
				case rejecting:
					s.ObservePoll(n.ID, Poll{State: Fine, Rejected: 0.5, Elapsed: time.Second}, at(time.Second))
				}
			}
			got := map[int]bool{}
			for range 100 {
				d := choose(s, nodes, [][]int{{0, 1}, {0, 1}}, at(time.Second))
				got[slices.Index(nodes, d.Coordinator)] = true
			}
			for range 100 {
				nodes[0].Begin() // however many it coordinates already
				passing := s.Coordinator(nodes, func(*Node) bool { return true }, at(time.Second))
				require.NotEqual(t, silent, c.are[slices.Index(nodes, passing)])
			}
			require.Equal(t, c.want, slices.Sorted(maps.Keys(got)))
		})
	}
}

// Load alone sends no searches to coordinating nodes in other zones.
func TestOthersCoordinateForAFullNodeInItsZone(t *testing.T) {
	for _, c := range []struct {
		zone  string        // of two more nodes
		takes time.Duration // of a shard query there
		want  []int
	}{
		{"a", 10 * time.Millisecond, []int{2, 3}},
		{"b", 10 * time.Millisecond, []int{0, 1}},
		{"a", 16 * time.Millisecond, []int{0, 1, 2, 3}}, // few are idle
		{"b", 16 * time.Millisecond, []int{0, 1}},
	} {
		s := New(Options{Epoch: epoch, Zone: "a", ZoneFactor: 3})
		var infos []NodeInfo
		for i, z := range []string{"a", "a", c.zone, c.zone, "b", "b"} {
			infos = append(infos, NodeInfo{ID: fmt.Sprint(i), Processors: 2, Zone: z})
		}
		nodes := s.Update(infos, epoch)
		served(s, nodes[:2], 100, 20*time.Millisecond, time.Second)
		served(s, nodes[2:], 100, c.takes, time.Second)
		got := map[int]bool{}
		for range 200 {
			d := choose(s, nodes, [][]int{{0, 1}, {0, 1}}, at(time.Second))
			s.Acquire(d, 1, at(time.Second))
			got[slices.Index(nodes, d.Coordinator)] = true
		}
		require.Equal(t, c.want, slices.Sorted(maps.Keys(got)), "two more nodes in zone %s", c.zone)
	}
}

// Where the only node of the own zone is out of use, busy nodes of other zones coordinate themselves, and so they do where
// there is none.
func TestABusyNodeCoordinatesWhereItsZoneHasNoOther(t *testing.T) {
	for name, zone := range map[string]string{"ejected": "a", "none": "z"} {
		s := New(Options{Epoch: epoch, Zone: zone, ZoneFactor: 3})
		var infos []NodeInfo
		for i, z := range []string{"a", "b", "c"} {
			infos = append(infos, NodeInfo{ID: fmt.Sprint(i), Processors: 2, Zone: z})
		}
		nodes := s.Update(infos, epoch)
		served(s, nodes[:1], 1, 18*time.Millisecond, time.Second)
		served(s, nodes[1:], 100, 18*time.Millisecond, time.Second)
		s.eject(nodes[0], Slow, s.since(at(time.Second)), "a test")
		for range 20 {
			d := choose(s, nodes, [][]int{{0, 1}, {0, 2}}, at(1500*time.Millisecond))
			require.Contains(t, nodes[1:], d.Coordinator, name)
		}
		one := choose(s, nodes, [][]int{{1}}, at(1500*time.Millisecond))
		require.Same(t, nodes[1], one.Coordinator, name)
	}
}

// What one node can serve alone stays with it in a full cluster: a hop is saved.
func TestOneShardStaysWithItsCopyInAFullCluster(t *testing.T) {
	s, nodes := withProcessors(t, 4)
	served(s, nodes, 100, 20*time.Millisecond, time.Second)
	for _, copies := range [][]int{{0}, {0, 1}} {
		for range 50 {
			d := choose(s, nodes, [][]int{copies}, at(time.Second))
			require.Contains(t, d.Nodes, d.Coordinator)
		}
	}
}

// However long searches take, and however much the others coordinate: what waits through a node
// that answers nothing waits longer.
func TestANodeThatAnswersNothingCoordinatesOnlyIfNoOtherIsLeft(t *testing.T) {
	s, nodes := newTest(t, 3)
	for _, n := range nodes {
		set(&n.response, 300_000)
		set(&n.reach, 1)
	}
	s.ObservePoll(nodes[2].ID, Poll{State: Unresponsive, Took: time.Second}, at(time.Second))
	for range 100 {
		nodes[0].Begin()
		nodes[1].Begin()
	}
	for range 100 {
		require.NotSame(t, nodes[2], decide(s, nodes, time.Second).Coordinator)
		require.NotSame(t, nodes[2], s.Coordinator(nodes[1:], func(*Node) bool { return true }, at(time.Second)))
	}
}

// A search of one shard goes to the node of the copy itself, though the others' HTTP sides are a
// little better, but not to one whose HTTP side is slow or against which something speaks.
func TestOneShardGoesToItsCopy(t *testing.T) {
	s, nodes := newTest(t, 5)
	set(&nodes[1].reach, 4)
	for i := range 200 {
		d := choose(s, nodes, [][]int{{1, 2}}, at(time.Duration(i)*10*time.Millisecond))
		require.Len(t, d.Nodes, 1)
		require.Same(t, d.Nodes[0], d.Coordinator)
		require.Equal(t, ViaCopy, via(s, d, time.Duration(i)*10*time.Millisecond))
		s.Acquire(d, 1, epoch)
	}
	now := 2 * time.Second
	for name, c := range map[string]struct {
		why     Via
		degrade func(*Selector, *Node)
	}{
		"HTTP slow":    {ViaSlowHTTP, func(_ *Selector, n *Node) { set(&n.reach, 30) }},
		"silent":       {ViaSilent, func(_ *Selector, n *Node) { silence(n, at(now)) }},
		"unresponsive": {ViaNotFine, func(s *Selector, n *Node) { s.ObservePoll(n.ID, Poll{State: Unresponsive}, at(now)) }},
		"errors":       {ViaNotFine, func(s *Selector, n *Node) { s.ObservePoll(n.ID, Poll{State: Unknown}, at(now)) }},
		"ejected":      {ViaEjected, func(s *Selector, n *Node) { s.eject(n, Slow, s.since(at(now)), "a test") }},
		"avoided":      {ViaEjected, func(_ *Selector, n *Node) { n.health.avoid.Store(1) }},
		"slow start":   {ViaNotFine, func(s *Selector, n *Node) { s.slowStart(n, s.since(at(now))) }},
		"leaving":      {ViaLeaving, func(s *Selector, n *Node) { s.Leave(n, at(time.Minute)) }},
		"unreachable":  {ViaUnreachable, func(s *Selector, n *Node) { s.MarkUnreachable(n, "refused", at(now)) }},
	} {
		s, nodes := newTest(t, 5)
		c.degrade(s, nodes[1])
		for range 20 {
			d := choose(s, nodes, [][]int{{1}}, at(now))
			require.Equal(t, []*Node{nodes[1]}, d.Nodes, name)
			require.NotSame(t, nodes[1], d.Coordinator, name)
			require.NotContains(t, d.Turns(), nodes[1], name)
			require.Equal(t, c.why, via(s, d, now), name)
		}
	}
}

// Dedicated managers never coordinate. Nodes that only coordinate do if they are said to, but not
// what one node can serve alone.
func TestNodesWithoutDataCoordinateIfTheyMay(t *testing.T) {
	s := New(Options{Epoch: epoch})
	infos := []NodeInfo{{ID: "manager", NoData: true}, {ID: "only", NoData: true, CoordinatingOnly: true}}
	for i := range 3 {
		infos = append(infos, NodeInfo{ID: fmt.Sprint("data", i)})
	}
	nodes := s.Update(infos, epoch)
	for _, n := range nodes {
		s.ObservePoll(n.ID, Poll{State: Fine}, epoch)
	}
	seen := map[string]int{}
	for range 1000 {
		seen[choose(s, nodes, [][]int{{2, 3}, {3, 4}, {4, 2}}, at(time.Second)).Coordinator.ID]++
	}
	require.Zero(t, seen["manager"])
	require.InDelta(t, 250, seen["only"], 20, "%v", seen)
	for range 20 {
		require.NotEqual(t, "only", choose(s, nodes, [][]int{{2, 3}}, at(time.Second)).Coordinator.ID)
	}
	// While the HTTP sides of all data nodes are slow, it coordinates everything.
	for _, n := range nodes[2:] {
		set(&n.reach, 300)
	}
	require.Equal(t, "only", choose(s, nodes, [][]int{{2, 3}}, at(time.Second)).Coordinator.ID)
	require.Equal(t, ViaCoordinatingOnly, via(s, choose(s, nodes, [][]int{{2, 3}, {3, 4}}, at(time.Second)), time.Second))
	// While polls of all nodes take a while, those listed and the one that only coordinates do, as before.
	for _, n := range nodes {
		set(&n.reach, 30)
	}
	for range 100 {
		id := choose(s, nodes, [][]int{{3, 4}, {4, 3}}, at(time.Second)).Coordinator.ID
		require.Contains(t, []string{"only", "data1", "data2"}, id)
	}
	// One in another zone does not.
	s = New(Options{Epoch: epoch, Zone: "own", ZoneFactor: 2})
	for i := range infos {
		infos[i].Zone = "own"
	}
	infos[1].Zone = "other"
	for nodes = s.Update(infos, epoch); seen["data2"] < 300; {
		id := choose(s, nodes, [][]int{{2, 3}, {3, 4}, {4, 2}}, at(time.Second)).Coordinator.ID
		require.NotEqual(t, "only", id)
		seen[id]++
	}
}

// Clients that begin together, and are sent searches in the same moments, do not all send them to
// the same node.
func TestClientsThatBeginTogetherSpread(t *testing.T) {
	const clients = 100
	sent := map[string]int{}
	for client := range clients {
		s := New(Options{Epoch: epoch, Seed: uint64(client)})
		nodes := s.Update([]NodeInfo{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}, {ID: "e"}}, epoch)
		sent[choose(s, nodes, ring(5, 2, 5), epoch).Coordinator.ID]++
		sent[s.Coordinator(nodes, func(*Node) bool { return true }, epoch).ID]++
	}
	for id, n := range sent {
		require.InDelta(t, 2*clients/5, n, 15, "%s: %v", id, sent)
	}
}
