package selection

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// gainTest has nine idle nodes. Of ring(9, 2, 9) shard i is on nodes i and i+1.
type gainTest struct {
	*Selector
	nodes []*Node
}

func newGainTest(t *testing.T) *gainTest {
	t.Helper()
	s, nodes := newTest(t, 9)
	setTimes(nodes, 5, 3)
	for _, n := range nodes {
		n.Processors = 4
	}
	return &gainTest{s, nodes}
}

// slow ejects a node with what its last probe and shard searches took, in ms.
func (g *gainTest) slow(node int, took, response float64) *Node {
	n := g.nodes[node]
	g.eject(n, Slow, g.since(at(time.Second)), "a test")
	n.probe.took.Set(took)
	set(&n.response, response)
	return n
}

// probed has a node probed beside others, which answer well, so that it is avoided.
func (g *gainTest) probed(n *Node, o ProbeOutcome) {
	now := at(900 * time.Millisecond)
	g.Suspect(&Decision{Nodes: []*Node{n}}, now)
	for _, p := range g.Probes(nil, now) {
		outcome := ProbeOutcome{Took: time.Millisecond}
		if p.Node == n {
			outcome = o
		}
		g.ObserveProbe(p, outcome, now.Add(outcome.Took))
	}
}

func (g *gainTest) decide(shards [][]int) *Decision {
	d := &Decision{}
	g.Choose(d, Request{Nodes: g.nodes, Shards: shards, Outliers: true}, at(time.Second))
	return d
}

// A list that has to use a node that probes speak against, for want of another copy, gains nothing, however slow what it
// leaves out: of the copies listed the engine draws lots, so the node would get half of its shards. One that comes
// back may be used.
func TestAListThatUsesASlowNodeGainsNothing(t *testing.T) {
	for _, took := range []float64{100, 340, 900, 5000} { // of shard searches; probes are answered within a second
		g := newGainTest(t)
		used := []*Node{g.slow(2, 100, 100), g.slow(3, 100, 100)} // shard 2 is on both
		left := g.slow(6, min(took, 900), took)
		d := g.decide(ring(9, 2, 9))
		require.Equal(t, NoGain, d.Reason, took)
		require.Contains(t, d.Nodes, left)
		for _, n := range used {
			g.slowStart(n, g.since(at(time.Second)))
		}
		d = g.decide(ring(9, 2, 9))
		require.Equal(t, Ranked, d.Reason, took)
		require.NotContains(t, d.Nodes, left)
	}
}

// A list that has to use a node whose queue is full gains nothing, whatever it leaves out: lots send the node its part of
// all its shards, where the engine uses it for those alone that have no other copy.
func TestAListThatUsesAFullNodeGainsNothing(t *testing.T) {
	for _, took := range []float64{900, 5000} {
		g := newGainTest(t)
		g.slow(6, min(took, 900), took)
		require.Equal(t, Ranked, g.decide(ring(9, 2, 9)).Reason)
		g.nodes[7].rejectedAt.Store(g.since(at(time.Second)))
		require.Equal(t, NoGain, g.decide(ring(9, 2, 9)).Reason)
		g.Leave(g.nodes[8], at(time.Minute))
		require.Equal(t, Ranked, g.decide(ring(9, 2, 9)).Reason, "a node that is about to leave is left out in any case")
	}
}

// A list that leaves out nothing that takes long gains nothing either.
func TestAListOfAllCopiesGainsNothing(t *testing.T) {
	g := newGainTest(t)
	g.slow(2, 100, 100)
	require.Equal(t, NoGain, g.decide([][]int{{0, 1}, {2}, {3, 4}}).Reason)
	g.slowStart(g.nodes[8], g.since(at(time.Second))-int64(SlowStart)+1) // its turn in nearly every search
	require.Equal(t, NoOutlier, g.decide([][]int{{0, 1}, {3, 8}}).Reason)
	require.Equal(t, Ranked, g.decide([][]int{{0, 1}, {1, 2}, {3, 4}}).Reason)
}

// What is silent, short of CPU, or did not answer its last probe is far worse than what answers one, whatever
// time that took.
func TestAListLeavesOutWhatIsFarWorseThanASlowNode(t *testing.T) {
	for name, worse := range map[string]func(n *Node){
		"silent":         func(n *Node) { silence(n, at(time.Second-1)) },
		"short of CPU":   func(n *Node) { n.short.Store(true) },
		"did not answer": func(n *Node) { n.probe.took.Set(millis(ProbeTimeout)) },
	} {
		g := newGainTest(t)
		g.slow(2, 300, 5)
		n := g.slow(3, 300, 5)
		worse(n)
		d := g.decide(ring(9, 2, 9))
		require.Equal(t, Ranked, d.Reason, name)
		require.False(t, n.in(d.Nodes), name)
	}
}

// A list that sends searches into a queue, in which they wait for far longer than what it leaves out takes,
// gains nothing, though all nodes together are idle. What answers nothing is worth a wait of ProbeTimeout.
func TestAListDoesNotSendSearchesIntoALongQueue(t *testing.T) {
	for _, c := range []struct {
		queue, took, response float64 // shard queries; ms, of the slow node
		want                  Reason
	}{
		{0, 100, 120, Ranked},
		{490, 100, 120, Ranked}, {495, 100, 120, NoGain}, {495, 100, 125, Ranked}, // 3 ms each, four at a time
		{495, 125, 100, Ranked},
		{1330, 1000, 120, Ranked}, {1340, 1000, 120, NoGain}, {1340, 1000, 400, NoGain},
	} {
		g := newGainTest(t)
		g.slow(2, c.took, c.response)
		set(&g.nodes[3].queue, c.queue)
		require.Equal(t, c.want, g.decide(ring(9, 2, 9)).Reason, "%+v", c)
		set(&g.nodes[3].queue, 0)
		require.Equal(t, Ranked, g.decide(ring(9, 2, 9)).Reason, "%+v", c)
	}
}

// The engine does not know that a node comes back or is to leave, nor is it known how long a node takes that was
// not measured since it was unreachable. What leaves is kept out whatever that gains; the others are worth a wait of
// ProbeTimeout.
func TestWhatAListGainsWithoutAFigure(t *testing.T) {
	for name, c := range map[string]struct {
		always bool
		other  func(g *gainTest, n *Node)
	}{
		"leaves":     {true, func(g *gainTest, n *Node) { g.Leave(n, at(time.Hour)) }},
		"comes back": {false, func(g *gainTest, n *Node) { g.slowStart(n, g.since(at(time.Second))) }},
		"was unreachable": {false, func(g *gainTest, n *Node) {
			g.ObservePoll(n.ID, Poll{State: Unreachable}, at(time.Second))
			g.ObservePoll(n.ID, Poll{State: Fine}, at(time.Second))
			n.probe.took.Set(1)
		}},
	} {
		for queue, want := range map[float64]Reason{1330: Ranked, 1340: NoGain} {
			g := newGainTest(t)
			g.slow(2, 100, 100)
			n := g.nodes[7]
			c.other(g, n)
			set(&g.nodes[3].queue, queue)
			if c.always {
				want = Ranked
			}
			d := g.decide(ring(9, 2, 9))
			require.Equal(t, want, d.Reason, "%s, %g", name, queue)
			require.Equal(t, want == NoGain, n.in(d.Nodes), name)
		}
	}
}

// A node that fails at once, or cannot be reached, costs the engine no time: it is no reason for a list.
func TestANodeThatFailsAtOnceIsNoGain(t *testing.T) {
	for name, other := range map[string]func(g *gainTest, n *Node){
		"its probes fail": func(g *gainTest, n *Node) { g.probed(n, ProbeOutcome{Failed: true, Took: time.Millisecond}) },
		"fails":           func(g *gainTest, n *Node) { g.eject(n, Failing, g.since(at(time.Second)), "a test") },
		"gone":            func(g *gainTest, n *Node) { g.ObservePoll(n.ID, Poll{State: Unreachable}, at(time.Second)) },
		"slow, and gone": func(g *gainTest, n *Node) {
			g.slow(7, 1000, 1000)
			g.ObservePoll(n.ID, Poll{State: Unreachable}, at(time.Second))
		},
	} {
		g := newGainTest(t)
		g.slow(2, 100, 100)
		g.slow(3, 100, 100)
		other(g, g.nodes[7])
		require.Equal(t, NoGain, g.decide(ring(9, 2, 9)).Reason, name)
	}
}

// A node is avoided as soon as one probe of it was bad. Whether a list is made for it depends on how: a probe that was not
// answered in time is a reason, one that failed at once is none.
func TestAnAvoidedNodeThatFailsAtOnceIsNoReasonForAList(t *testing.T) {
	for took, want := range map[time.Duration]Reason{time.Millisecond: NoOutlier, ProbeTimeout: Ranked} {
		g := newGainTest(t)
		g.probed(g.nodes[7], ProbeOutcome{Failed: true, Took: took})
		require.True(t, g.nodes[7].health.avoided(), took)
		d := &Decision{}
		g.Choose(d, Request{Nodes: g.nodes, Shards: ring(9, 2, 9), Outliers: true}, at(1900*time.Millisecond))
		require.Equal(t, want, d.Reason, took)
	}
}

// That a node once failed its probes at once says nothing of it after its slow start.
func TestANodeThatFailedAtOnceMayHangLater(t *testing.T) {
	g := newGainTest(t)
	n := g.nodes[7]
	g.probed(n, ProbeOutcome{Failed: true, Took: time.Millisecond})
	require.True(t, n.failsAtOnce())
	g.slowStart(n, int64(time.Second))
	g.avoid(n, true, "", int64(2*time.Second))
	require.False(t, n.failsAtOnce())
}

// A search that was sent with a list is sent a second time, through another node, also if lists gain nothing
// by then.
func TestASecondAttemptThatTheEngineChoosesLeavesASilentCoordinatingNode(t *testing.T) {
	for _, silent := range []bool{false, true} {
		g := newGainTest(t)
		slow := g.slow(2, 100, 100)
		first := g.decide(ring(9, 2, 9))
		require.Equal(t, Ranked, first.Reason)
		g.Acquire(first, 1, at(time.Second))
		set(&g.nodes[3].queue, 1000)
		second := g.decide(ring(9, 2, 9))
		require.Equal(t, NoGain, second.Reason)
		require.True(t, slow.in(second.Nodes))
		if silent {
			silence(first.Coordinator, at(time.Second))
		}
		g.Probes(nil, at(time.Second))
		require.Equal(t, silent, g.Worthwhile(first, second, at(time.Second+time.Millisecond)))
	}
}

// What answers nothing is left out whatever has to be used: without the list there would be no second attempt, either.
func TestWhatHangsIsLeftOutThoughTheListUsesNodesThatHang(t *testing.T) {
	g := newGainTest(t)
	g.slow(2, 1000, 5) // shard 2 is on both
	g.slow(3, 1000, 5)
	hangs := g.slow(7, 1000, 5)
	d := g.decide(ring(9, 2, 9))
	require.Equal(t, Ranked, d.Reason)
	require.NotContains(t, d.Nodes, hangs)
	hangs.probe.took.Set(999)
	require.Equal(t, NoGain, g.decide(ring(9, 2, 9)).Reason)
}

// How long a probe takes that is late is not known before it ends. Until then it counts for as long as it has taken.
func TestAProbeThatIsLateCountsBeforeItEnds(t *testing.T) {
	for _, void := range []bool{false, true} {
		g := newGainTest(t)
		n := g.nodes[2]
		n.probe.took.Set(2)
		g.Suspect(&Decision{Nodes: []*Node{n}}, at(time.Second))
		probes := g.Probes(nil, at(time.Second))
		bad := slices.IndexFunc(probes, func(p Probe) bool { return p.Node == n })
		for i, p := range probes {
			if i != bad {
				g.ObserveProbe(p, answeredWell(p), at(time.Second+2*time.Millisecond))
			}
		}
		require.Zero(t, n.probe.awaited(g.since(at(time.Second+2*time.Millisecond))))
		g.Probes(nil, at(time.Second+100*time.Millisecond))
		require.True(t, n.health.avoided())
		require.InDelta(t, 150, n.probe.awaited(g.since(at(time.Second+150*time.Millisecond))), 0)
		set(&g.nodes[3].queue, 200) // 150 ms; the other copy of shard 2
		require.Equal(t, NoGain, g.decide(ring(9, 2, 9)).Reason, "at the beginning")
		d := &Decision{}
		g.Choose(d, Request{Nodes: g.nodes, Shards: ring(9, 2, 9), Outliers: true}, at(time.Second+150*time.Millisecond))
		require.Equal(t, Ranked, d.Reason)
		g.ObserveProbe(probes[bad], ProbeOutcome{Took: 250 * time.Millisecond, Unfit: void}, at(time.Second+250*time.Millisecond))
		require.Zero(t, n.probe.awaited(g.since(at(time.Second+250*time.Millisecond))))
	}
}

// A node that pauses for a moment is not left for one that is ejected, as its probe is late.
func TestASecondAttemptDoesNotLeaveANodeThatPausesForAnEjectedOne(t *testing.T) {
	g := newGainTest(t)
	slow, pauses := g.slow(2, 300, 300), g.nodes[3]
	pauses.probe.took.Set(2)
	first := g.decide(ring(9, 2, 9))
	require.NotContains(t, first.Nodes, slow)
	g.Acquire(first, 1, at(time.Second))
	g.Suspect(&Decision{Nodes: []*Node{pauses}}, at(time.Second))
	for _, p := range g.Probes(nil, at(time.Second)) {
		if p.Node != pauses {
			g.ObserveProbe(p, answeredWell(p), at(time.Second+2*time.Millisecond))
		}
	}
	g.Probes(nil, at(time.Second+60*time.Millisecond))
	require.True(t, pauses.health.avoided())
	second := &Decision{}
	g.Choose(second, Request{Nodes: g.nodes, Shards: ring(9, 2, 9)}, at(time.Second+60*time.Millisecond))
	require.Contains(t, second.Nodes, pauses)
	require.False(t, g.Worthwhile(first, second, at(time.Second+60*time.Millisecond)))
}
