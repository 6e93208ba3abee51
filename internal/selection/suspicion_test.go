package selection

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALateOrLostPollAloneEjectsNobody(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	lost := Poll{State: Unresponsive, Took: time.Second, Message: "deadline exceeded"}
	for now := time.Second; now < 20*time.Second; now += time.Second {
		s.ObservePoll(nodes[2].ID, lost, at(now))
		require.Equal(t, Unresponsive, nodes[2].State())
		sent := probe(s, nodes, now, answeredWell)
		require.True(t, slices.ContainsFunc(sent, func(p Probe) bool { return p.Node == nodes[2] }), "it is a suspect")
		for range 20 {
			d := decide(s, nodes, now)
			require.Equal(t, NoOutlier, d.Reason)
			require.NotEqual(t, nodes[2], d.Coordinator)
		}
		require.NotEqual(t, nodes[2], s.Coordinator(nodes, func(*Node) bool { return true }, at(now)))
	}
	s.ObservePoll(nodes[2].ID, Poll{State: Fine}, at(21*time.Second))
	require.Equal(t, Fine, nodes[2].State(), "at once, without slow start")
}

func TestWhatRejectsIsNotEjected(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	full := func(p Probe) ProbeOutcome {
		if p.Node == nodes[2] {
			return ProbeOutcome{Failed: true, Took: time.Millisecond, Message: "queue full"}
		}
		return answeredWell(p)
	}
	for now := time.Second; now < 20*time.Second; now += 500 * time.Millisecond {
		s.ObservePoll(nodes[2].ID, Poll{State: Fine, Rejected: 0.5}, at(now))
		for range twice {
			s.Blame(nodes[2:3], "queue full", at(now))
		}
		s.Suspect(&Decision{Nodes: nodes}, at(now))
		probe(s, nodes, now, full)
		require.Equal(t, Fine, nodes[2].State())
		require.False(t, nodes[2].health.avoided())
	}
}

// A queue explains a late probe of its node; not one of a node that is slower at the same
// work than all others are.
func TestAQueueExplainsALateProbe(t *testing.T) {
	for _, everywhere := range []bool{false, true} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, 5, 3)
		n := nodes[2]
		set(&n.service, 20)
		set(&n.response, 300)
		set(&n.queue, 15)
		if everywhere {
			set(&n.response, 900)
		}
		decide(s, nodes, time.Second)
		require.Equal(t, everywhere, n.slowEverywhere.Load())
		suspect(s, nodes, time.Second, proofs+1, late(250*time.Millisecond, n))
		require.Equal(t, everywhere, n.State() == Slow, "15 shard queries of 20 ms in its queue, 3 ms elsewhere")
	}
}

// Where a node is slower than the other candidates of every target, a few milliseconds that
// its probes are late are proof; where it is not, they are noise.
func TestTheFineSlackIsForNodesThatAreSlowEverywhere(t *testing.T) {
	for _, light := range []bool{false, true} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, 5, 3)
		set(&nodes[2].response, 60)
		now := time.Second
		for range proofs {
			decide(s, nodes, now)
			if light { // another target, whose copies are all on such nodes
				s.Choose(&Decision{}, Request{Nodes: nodes, Shards: [][]int{{2}}}, at(now))
				set(&nodes[3].response, 60)
				s.Choose(&Decision{}, Request{Nodes: nodes, Shards: [][]int{{2, 3}, {3, 2}}}, at(now))
				set(&nodes[3].response, 5)
			}
			now = suspect(s, nodes, now, 1, late(12*time.Millisecond, nodes[2]))
		}
		require.Equal(t, !light, nodes[2].State() == Slow)
	}
}

// A response time far above the others' is suspicion: it brings probes and no more.
func TestAResponseTimeAloneBringsProbes(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	set(&nodes[2].response, 300)
	for now := time.Second; now < 20*time.Second; now += 100 * time.Millisecond {
		require.Equal(t, NoOutlier, decide(s, nodes, now).Reason)
		probes := probe(s, nodes, now, answeredWell)
		about := func(p Probe) bool { return p.Node == nodes[2] }
		if now <= time.Second+suspicionInterval { // then more rarely: they find nothing
			require.True(t, slices.ContainsFunc(probes, about))
		}
		require.LessOrEqual(t, len(probes), 2+twice, "one more is a sample now and then")
	}
	require.Equal(t, Fine, nodes[2].State())
}

func TestBusyNodesAreNotSuspected(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	set(&nodes[2].response, 300)
	set(&nodes[2].queue, 95)
	decide(s, nodes, time.Second)
	require.Empty(t, s.Probes(nil, at(time.Second)), "95 shard queries of 3 ms in its queue explain 285 ms")
}

// Suspects and peers go through one coordinating node, in the same instant.
func TestARoundGoesThroughOneCoordinatingNode(t *testing.T) {
	s, nodes := withManagers(t, 5, 2)
	setTimes(nodes, 5, 3)
	vias := map[*Node]bool{}
	for now := time.Second; now < 10*time.Second; now += time.Second {
		s.Suspect(&Decision{Nodes: nodes[2:3]}, at(now))
		probes := probe(s, nodes, now, answeredWell)
		require.Len(t, probes, 1+twice)
		seen := map[*Node]bool{}
		for _, p := range probes {
			require.Same(t, probes[0].Via, p.Via)
			require.NotSame(t, p.Via, p.Node)
			require.False(t, p.Node.NoData || p.Via.NoData || seen[p.Node])
			seen[p.Node] = true
		}
		require.True(t, seen[nodes[2]])
		vias[probes[0].Via] = true
	}
	require.Len(t, vias, 4, "in each round another one, if possible none of the suspects")
}

// Probes that tell nothing, as their node holds no copy by now, neither eject it nor keep
// it avoided for good.
func TestANodeIsNotAvoidedForGood(t *testing.T) {
	for name, nothing := range map[string]ProbeOutcome{
		"unfit":     {Unfit: true},
		"timed out": {Failed: true, Took: ProbeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			s, nodes := newTest(t, 5)
			setTimes(nodes, 5, 3)
			now := suspect(s, nodes, time.Second, 1, late(300*time.Millisecond, nodes[2]))
			require.True(t, nodes[2].health.avoided())
			for range 3 {
				for _, p := range s.Probes(nil, at(now)) {
					s.ObserveProbe(p, nothing, at(now+nothing.Took))
				}
				now += 2 * ProbeTimeout
			}
			answerProbes(s, nodes, now, now+2*time.Second, answeredWell)
			require.False(t, nodes[2].health.avoided())
		})
	}
}

// A node that the others cannot do without is not ejected, however slow its probes, unless
// it does next to nothing.
func TestANodeThatIsNeededIsNotEjected(t *testing.T) {
	for _, c := range []struct {
		rate, own float64 // shard queries per ms, of the others and of the node
		service   float64 // ms, on the node
		quota     float64 // processors of each node; 0: all four
		used      float64 // processors that each keeps busy, whatever with; 0: not known
		needed    bool
	}{
		{0.1, 0.1, 9, 0, 0, false}, // the others are idle
		{1.1, 1.1, 9, 0, 0, true},
		{1.3, 0.15, 60, 0, 0, false}, // less than an eighth of what the others do
		{1.3, 0.2, 60, 0, 0, true},
		{1.1, 1.1, 30, 0, 0, true}, // as many as the others, of an index that is slow there
		{0.3, 0.3, 9, 0, 0, false},
		{0.3, 0.3, 9, 1, 0, true}, // a quarter of the processors that the engine counts
		{1.1, 1.1, 9, 8, 0, true}, // more than there are
		{0.1, 0.1, 9, 1, 0.5, false},
		{0.1, 0.1, 9, 1, 0.95, true}, // shard queries are a third of what they do
		{0.01, 0.01, 9, 1, 1, true},  // and where it goes is not known
		{0.1, 0.01, 9, 1, 1, false},
	} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, 5, 3)
		for _, n := range nodes {
			n.Processors = 4
			s.ObservePoll(n.ID, Poll{State: Fine, Quota: c.quota, Used: c.used}, at(time.Millisecond))
			set(&n.rate, c.rate)
		}
		set(&nodes[2].rate, c.own)
		set(&nodes[2].service, c.service)
		ejected := false
		for now := time.Second; now < 20*time.Second; now += 50 * time.Millisecond {
			d := decide(s, nodes, now)
			if c.needed {
				require.Equal(t, NoOutlier, d.Reason, "the engine shares the load")
			}
			s.Suspect(&Decision{Nodes: nodes}, at(now))
			probe(s, nodes, now, late(40*time.Millisecond, nodes[2]))
			ejected = ejected || nodes[2].State() != Fine
		}
		require.Equal(t, !c.needed, ejected, "%+v", c)
	}
}

// The times of an ejected node are those of probes: whether it is slower than the others at the same
// work is not found out anew before it is back.
func TestAnEjectedNodeIsComparedAsWhenItWasEjected(t *testing.T) {
	for _, slower := range []bool{false, true} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, 5, 3)
		n := nodes[2]
		times := map[bool]float64{false: 5, true: 300}
		set(&n.response, times[slower])
		decide(s, nodes, time.Second)
		s.eject(n, Slow, s.since(at(time.Second)), "a test")
		set(&n.response, times[!slower])
		decide(s, nodes, 2*time.Second)
		require.Equal(t, slower, n.slowEverywhere.Load())
		s.slowStart(n, s.since(at(2*time.Second)))
		set(&n.response, times[!slower])
		decide(s, nodes, 3*time.Second)
		require.Equal(t, !slower, n.slowEverywhere.Load())
	}
}

// How much work the others can do is not known where their processors are not.
func TestUnknownProcessorsNeedNobody(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	for _, n := range nodes {
		set(&n.rate, 0.1)
	}
	suspect(s, nodes, time.Second, proofs, late(300*time.Millisecond, nodes[2]))
	require.Equal(t, "abde", names(decide(s, nodes, 10*time.Second)))
}

func TestFiguresCountProbesThatHaveATime(t *testing.T) {
	s, nodes := newTest(t, 3)
	now := time.Second
	for _, o := range []ProbeOutcome{
		{Took: 20 * time.Millisecond},
		{Took: ProbeTimeout, Failed: true},
		{Took: time.Millisecond, Failed: true, Message: "rejected"},
		{Unfit: true},
	} {
		s.Suspect(&Decision{Nodes: nodes[1:2]}, at(now))
		probe(s, nodes, now, func(p Probe) ProbeOutcome {
			if p.Node == nodes[1] {
				return o
			}
			return ProbeOutcome{Unfit: true}
		})
		now += 2 * ProbeTimeout
	}
	require.Zero(t, s.Figures(nodes[0], at(now)).Probes)
	f := s.Figures(nodes[1], at(now))
	require.EqualValues(t, 2, f.Probes)
	require.Equal(t, ProbeTimeout+20*time.Millisecond, f.ProbeTime)
}

// Of three nodes two hang at once: one is ejected, which is all that the cap allows.
func TestNodesThatHangAreNoPeersOfEachOther(t *testing.T) {
	s, nodes := newTest(t, 3)
	setTimes(nodes, 5, 3)
	now := time.Second
	for range 4 {
		s.Suspect(&Decision{Nodes: nodes}, at(now))
		sent := s.Probes(nil, at(now))
		now += ProbeTimeout
		for _, p := range sent {
			o := ProbeOutcome{Took: time.Millisecond}
			if p.Node != nodes[1] {
				o = ProbeOutcome{Took: ProbeTimeout, Failed: true, Message: "no answer"}
			}
			s.ObserveProbe(p, o, at(now))
		}
	}
	require.Equal(t, Fine, nodes[1].State())
	require.NotEqual(t, nodes[0].usable(), nodes[2].usable())
}

// Probes that wait in full queues differ. A node whose probes are a few times as long as the
// shortest of its peers', but not of all, is not ejected, unless response times speak against it.
func TestOneQuickPeerIsNoProof(t *testing.T) {
	for _, everywhere := range []bool{false, true} {
		s, nodes := newTest(t, 3)
		setTimes(nodes, 5, 3)
		n := nodes[2]
		if everywhere {
			set(&n.response, 900)
		}
		decide(s, nodes, time.Second)
		differ := func(p Probe) ProbeOutcome {
			const ms = time.Millisecond
			return ProbeOutcome{Took: map[string]time.Duration{nodes[0].ID: 20 * ms, nodes[1].ID: 90 * ms, n.ID: 200 * ms}[p.Node.ID]}
		}
		suspect(s, nodes, time.Second, proofs, differ)
		require.Equal(t, everywhere, n.State() == Slow)
	}
}

// Probes that all time out, as their coordinating node hangs, speak against nobody, and for
// nobody: an ejected node is not back for it.
func TestProbesThatAllTimeOutSayNothing(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	s.eject(nodes[2], Slow, 1, "a test")
	for now := time.Second; now < 30*time.Second; now += 2 * ProbeTimeout {
		s.Suspect(&Decision{Nodes: nodes}, at(now))
		probe(s, nodes, now, late(ProbeTimeout, nodes...))
	}
	require.Equal(t, []State{Fine, Fine, Slow, Fine, Fine}, states(nodes))
}

// A shard whose copies are on a node in slow start and on an ejected one is served by the
// former, whatever its share.
func TestSlowStartComesBeforeEjected(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	s.eject(nodes[2], Slow, int64(time.Second), "a test")
	s.slowStart(nodes[3], int64(time.Second))
	for range 100 {
		d := choose(s, nodes, ring(5, 2, 5), at(time.Second))
		require.Contains(t, names(d), "d")
		require.NotContains(t, names(d), "c")
	}
}

// A slow node that has nothing to do is as fast as its peers: a good probe does not end
// that it is avoided at once.
func TestANodeThatIsSlowEverywhereIsAvoidedForAWhile(t *testing.T) {
	for _, everywhere := range []bool{false, true} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, 5, 3)
		n := nodes[2]
		if everywhere {
			set(&n.response, 300)
		}
		decide(s, nodes, time.Second)
		require.Equal(t, everywhere, n.slowEverywhere.Load())
		now := suspect(s, nodes, time.Second, 1, late(300*time.Millisecond, n))
		require.False(t, n.usable())
		answerProbes(s, nodes, now, now+firstHold/twice, answeredWell)
		require.Equal(t, everywhere, n.health.avoided())
		require.Zero(t, n.probe.against.Load(), "what proof there was is over")
		answerProbes(s, nodes, now+firstHold/twice, now+2*firstHold, answeredWell)
		require.True(t, n.usable())
	}
}

// Where no more nodes may be taken out, one that is merely avoided gives way to proof.
func TestAnAvoidedNodeGivesWayToProof(t *testing.T) {
	s, nodes := newTest(t, 3)
	s.avoid(nodes[0], false, "a test", 1)
	s.avoid(nodes[1], false, "a test", 1)
	require.Equal(t, []bool{true, false, false}, []bool{nodes[0].health.avoided(), nodes[1].health.avoided(), nodes[2].health.avoided()})
	s.eject(nodes[1], Slow, int64(time.Second), "a test")
	require.Equal(t, Slow, nodes[1].State())
	require.False(t, nodes[0].health.avoided())
	s.eject(nodes[2], Slow, int64(time.Second), "a test")
	require.Equal(t, Fine, nodes[2].State())
}
