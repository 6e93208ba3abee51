package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A slow node is suspected, probed with peers, avoided and ejected; nobody else is.
// Blame without guessing: the searches touch all nodes, so that a late answer tells
// nothing of which was late.
func TestOneSlowNodeIsEjectedWithinASecondAndNoOther(t *testing.T) {
	for _, rate := range []int{20, 80, 400} {
		for victim := range 5 {
			v := newVirtual(t, by(300, 10*time.Second, time.Hour, victim))
			v.when = true
			v.run(rate, 20*time.Second)
			ejected := v.ejected()
			require.Len(t, ejected, 1, "%d/s, node %d: %v", rate, victim, ejected)
			when := ejected[v.nodes[victim].Name]
			require.Greater(t, when, 10*time.Second)
			require.Less(t, when, 11*time.Second, "%d/s, node %d", rate, victim)
			require.Len(t, v.avoided, 1, "after the first proof, before the last")
			require.Positive(t, v.avoided[v.nodes[victim].Name])
		}
	}
}

// It is back by proof and in slow start.
func TestSlowNodeIsBackOnceItIsWell(t *testing.T) {
	v := newVirtual(t, by(300, 10*time.Second, 20*time.Second, 2))
	v.when = true
	v.run(80, 40*time.Second)
	var way []State
	for _, c := range v.changes {
		require.Equal(t, "c", c.Node.Name)
		way = append(way, c.After)
	}
	require.Equal(t, []State{Slow, Ramping, Fine}, way)
	require.Greater(t, v.changes[1].at, 20*time.Second)
	require.Less(t, v.changes[1].at, 20*time.Second+2*firstHold)
	require.Less(t, v.changes[2].at, 30*time.Second)
}

// Two tenants: the one searches long, on two of five nodes only. Their response times are
// far above the others', and nothing is wrong.
func TestATenantWithLongSearchesEjectsNobody(t *testing.T) {
	for _, ms := range []float64{30, 100} {
		v := newVirtual(t, well)
		v.when = true
		v.targets = append(v.targets, target{shards: [][]int{{0, 1}, {1, 0}}, ms: ms, rate: 10})
		v.run(80, 60*time.Second)
		require.Empty(t, v.changes)
		require.Empty(t, v.avoided)
		require.Positive(t, v.probes, "they are suspects")
	}
}

func TestWhenAllAreSlowNoneIsEjected(t *testing.T) {
	for _, ms := range []int{100, 300, 5000} {
		v := newVirtual(t, by(ms, 10*time.Second, time.Hour, 0, 1, 2, 3, 4))
		v.when = true
		v.run(40, 20*time.Second)
		require.Positive(t, v.probes)
		require.Empty(t, v.changes, "%d ms", ms)
		require.Empty(t, v.avoided, "%d ms", ms)
	}
}

// One node is slow as coordinating node alone: it is not blamed as holder of copies, and neither are the others.
// It coordinates as much as they do, but where searches hang there: it then has more outstanding than its share.
func TestASlowCoordinatingNodeIsNotEjected(t *testing.T) {
	for _, ms := range []int{150, 300, 5000} {
		v := newVirtual(t, well)
		v.when = true
		v.through = by(ms, 10*time.Second, time.Hour, 2)
		through := 0
		for at := 11 * time.Second; at < 20*time.Second; at += 100 * time.Millisecond {
			v.after(at, func() {
				if d := choose(v.s, v.nodes, ring(5, 2, 5), epoch.Add(v.now)); d.Coordinator == v.nodes[2] {
					through++
				}
			})
		}
		v.run(80, 20*time.Second)
		require.Positive(t, v.probes)
		if ms < 5000 {
			require.InDelta(t, 18, through, 8, "%d ms", ms)
		} else {
			require.Less(t, through, 10, "%d ms", ms)
		}
		require.Empty(t, v.changes, "%d ms", ms)
		require.Empty(t, v.avoided, "%d ms", ms)
	}
}

// A round that goes through the bad node tells nothing until its probes have ended, if at all. It holds up no other one,
// and what it tells late does not let in a node that a later one has found.
func TestARoundThroughTheBadNodeHoldsUpNothing(t *testing.T) {
	const from = 10*time.Second + 111*time.Millisecond // one of these rounds is then sent first through the bad node
	for _, ms := range []int{300, 5000} {
		for _, n := range []int{3, 5} {
			for victim := range n {
				v := newVirtualOf(t, n, by(ms, from, time.Hour, victim))
				v.through, v.when = by(ms, from, time.Hour, victim), true
				for at := from + 2*suspicionInterval; at < from+2*time.Second; at += 10 * time.Millisecond {
					v.after(at, func() {
						require.False(t, v.nodes[victim].usable(), "node %d of %d, %d ms, after %s", victim, n, ms, at-from)
					})
				}
				v.run(40, 20*time.Second)
				require.Len(t, v.ejected(), 1)
			}
		}
	}
}

// What is ejected has one probe at a time, whoever asks: it returns after a good one and a good burst. A probe that was sent
// before the ejection is neither.
func TestAnEjectedNodeIsProbedOnceAtATime(t *testing.T) {
	s, nodes := newTest(t, 5)
	of := func(probes []Probe) (all []Probe) {
		for _, p := range probes {
			if p.Node == nodes[2] {
				all = append(all, p)
			}
		}
		return all
	}
	suspected := Decision{Nodes: nodes[1:3], Coordinator: nodes[1]}
	s.Suspect(&suspected, at(time.Second))
	before := s.Probes(nil, at(time.Second))
	require.Len(t, of(before), 1)
	s.eject(nodes[2], Failing, s.since(at(1050*time.Millisecond)), "a test")
	for _, p := range before {
		s.ObserveProbe(p, ProbeOutcome{Took: 60 * time.Millisecond}, at(1060*time.Millisecond))
	}
	require.Zero(t, nodes[2].health.good.Load())

	require.Len(t, of(s.Probes(nil, at(2*time.Second))), 1)
	s.Suspect(&suspected, at(2200*time.Millisecond))
	require.Empty(t, of(s.Probes(nil, at(2300*time.Millisecond))))
}

// Of few nodes, one is slow as holder of copies and as coordinating node.
func TestOfFewNodesTheOneThatIsSlowBothWaysIsEjected(t *testing.T) {
	for _, n := range []int{2, 3} {
		for victim := range n {
			for _, ms := range []int{300, 5000} {
				v := newVirtualOf(t, n, by(ms, 10*time.Second, time.Hour, victim))
				v.through = by(ms, 10*time.Second, time.Hour, victim)
				v.when = true
				v.run(60, 20*time.Second)
				ejected := v.ejected()
				require.Len(t, ejected, 1, "node %d of %d, %d ms: %v", victim, n, ms, ejected)
				require.Less(t, ejected[v.nodes[victim].Name], 12*time.Second, "node %d of %d", victim, n)
				require.Contains(t, ejected, v.nodes[victim].Name)
			}
		}
	}
}

// Where probes are refused, the response times alone are proof, and time lets it in again.
func TestWhereProbesAreRefusedResponseTimesEject(t *testing.T) {
	v := newVirtual(t, by(300, 10*time.Second, 20*time.Second, 2))
	v.refuse = true
	v.run(80, 40*time.Second)
	ejected := v.ejected()
	require.Len(t, ejected, 1)
	require.Greater(t, ejected["c"], 10*time.Second)
	require.Less(t, ejected["c"], 15*time.Second)
	require.Contains(t, v.changes[0].Why, "probes are refused")
	require.Equal(t, Fine, v.nodes[2].State())
	require.InDelta(t, 0.2, share(v.s, v.nodes, 2, epoch.Add(40*time.Second)), 0.1)
}

// Probes that told nothing once, long ago, are no reason to do without: nodes are compared
// with others all the same, and response times alone do not eject.
func TestWhatToldNothingOnceIsForgotten(t *testing.T) {
	s, nodes := newTest(t, 2)
	setTimes(nodes, 5, 3)
	void := func(Probe) ProbeOutcome { return ProbeOutcome{Unfit: true} }
	s.Suspect(&Decision{Nodes: nodes}, at(time.Second))
	for now := time.Second; now < 2*time.Second; now += 100 * time.Millisecond {
		s.Suspect(&Decision{Nodes: nodes}, at(now))
		for _, p := range s.Probes(nil, at(now)) {
			s.ObserveProbe(p, void(p), at(now))
		}
	}
	s.eject(nodes[0], Slow, int64(10*time.Second), "a test")
	for now := 10 * time.Second; now < 20*time.Second; now += 50 * time.Millisecond {
		for _, p := range s.Probes(nil, at(now)) {
			s.ObserveProbe(p, ProbeOutcome{Took: 2 * time.Millisecond}, at(now+2*time.Millisecond))
		}
	}
	require.Equal(t, Fine, nodes[0].State(), "it is back by proof")
	require.False(t, nodes[1].untold())
}

// Where no other node has a copy that a probe could search, there is nothing to compare a node with. It must not
// stay ejected for good: time lets it in again, if for two seconds its probes are
// answered, or fail through another node. One that fails searches is sent its probes itself.
func TestANodeThatCannotBeComparedReturns(t *testing.T) {
	for name, own := range map[string]ProbeOutcome{
		"answered":          {Took: 2 * time.Millisecond},
		"failed":            {Took: 2 * time.Millisecond, Failed: true, Message: "HTTP status 503"},
		"could not be sent": {Unfit: true},
		"unanswered":        {Took: ProbeTimeout, Failed: true},
	} {
		for _, others := range []ProbeOutcome{{Unfit: true}, {Took: 3 * time.Millisecond, Unfit: true}, {Took: 3 * time.Millisecond, Failed: true}} {
			for _, n := range []int{2, 3} {
				s, nodes := newTest(t, n)
				setTimes(nodes, 5, 3)
				s.eject(nodes[0], Slow, int64(time.Second), "was unreachable")
				require.Equal(t, Slow, nodes[0].State())
				outcome := func(p Probe) ProbeOutcome {
					if p.Node == nodes[0] {
						return own
					}
					return others
				}
				answerProbes(s, nodes, time.Second, 3*time.Second, outcome)
				if others.Took == 0 { // else it has answered before the others, which speaks for it
					require.Equal(t, Slow, nodes[0].State(), "%s, %d nodes", name, n)
				}
				answerProbes(s, nodes, 3*time.Second, 20*time.Second, outcome)
				require.Equal(t, name != "unanswered", nodes[0].State() == Fine, "%s, %d nodes, others %+v", name, n, others)
			}
		}
	}
}

// Nor does one return of which one probe could not be compared: it hangs since, or rejects while the others answer.
func TestOneProbeThatCannotBeComparedIsNotEnough(t *testing.T) {
	for name, then := range map[string]func(p Probe, n *Node) ProbeOutcome{
		"hangs": func(p Probe, n *Node) ProbeOutcome {
			return ProbeOutcome{Took: ProbeTimeout, Failed: p.Node == n, Unfit: p.Node != n}
		},
		"rejects": func(p Probe, n *Node) ProbeOutcome {
			return ProbeOutcome{Took: time.Millisecond, Failed: p.Node == n}
		},
	} {
		s, nodes := newTest(t, 3)
		s.eject(nodes[0], Slow, int64(time.Second), "a test")
		answerProbes(s, nodes, time.Second, 1500*time.Millisecond, func(p Probe) ProbeOutcome {
			return ProbeOutcome{Took: 2 * time.Millisecond, Unfit: p.Node != nodes[0]}
		})
		require.NotZero(t, nodes[0].probe.untoldAt.Load(), name)
		for now := 1500 * time.Millisecond; now < 20*time.Second; now += 10 * time.Millisecond {
			if name == "rejects" {
				raise(&nodes[0].rejectedAt, int64(now))
			}
			probe(s, nodes, now, func(p Probe) ProbeOutcome { return then(p, nodes[0]) })
		}
		require.Equal(t, Slow, nodes[0].State(), name)
	}
}

// A node that fails searches is probed through itself, and stays ejected while it fails these probes, too.
func TestANodeThatFailsItsProbesStaysEjected(t *testing.T) {
	s, nodes := newTest(t, 3)
	s.eject(nodes[0], Failing, int64(time.Second), "a test")
	answerProbes(s, nodes, time.Second, 20*time.Second, func(Probe) ProbeOutcome {
		return ProbeOutcome{Took: time.Millisecond, Failed: true}
	})
	require.Equal(t, Failing, nodes[0].State())
}

// A probe that ends before those that it is compared with counts as compared: one burst that is late keeps the node out.
func TestAProbeThatIsSoonerThanItsPeersIsCompared(t *testing.T) {
	s, nodes := newTest(t, 3)
	s.eject(nodes[0], Slow, int64(time.Second), "a test")
	answerProbes(s, nodes, time.Second, 20*time.Second, func(p Probe) ProbeOutcome {
		took := 2 * time.Millisecond
		if p.Node != nodes[0] {
			took = 3 * time.Millisecond
		} else if p.Burst > 1 {
			took = 300 * time.Millisecond
		}
		return ProbeOutcome{Took: took}
	})
	require.Zero(t, nodes[0].probe.untoldAt.Load())
	require.Equal(t, Slow, nodes[0].State())
}

// Probes before an ejection say nothing of the node after it.
func TestWhatCouldNotBeComparedBeforeDoesNotReturn(t *testing.T) {
	s, nodes := newTest(t, 2)
	for range 2 { // the second time it is ejected already
		nodes[0].probe.untoldAt.Store(int64(time.Second))
		nodes[0].probe.untoldLast.Store(int64(9 * time.Second))
		s.eject(nodes[0], Slow, int64(10*time.Second), "a test")
	}
	s.Probes(nil, at(11*time.Second))
	decide(s, nodes, time.Minute)
	require.Equal(t, Slow, nodes[0].State())
}

// A node whose probes are a little longer than those of its peers, as it is far away, is
// not avoided for good for having stood still once.
func TestANodeThatIsFarAwayIsNotAvoidedForGood(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	far := func(took time.Duration) {
		for i := range 8 {
			now := time.Duration(i+1)*time.Second + took
			s.Suspect(&Decision{Nodes: nodes[2:3]}, at(now))
			for _, p := range s.Probes(nil, at(now)) {
				o := ProbeOutcome{Took: time.Millisecond}
				if p.Node == nodes[2] {
					o.Took = took
				}
				s.ObserveProbe(p, o, at(now+took))
			}
			if nodes[2].health.avoided() {
				took = 8 * time.Millisecond // from then on
			}
		}
	}
	far(100 * time.Millisecond)
	require.Equal(t, Fine, nodes[2].State())
	require.False(t, nodes[2].health.avoided())
}

// While nothing is suspected a node a second is probed, whichever of the nodes cannot be: a dedicated manager, or one that
// cannot be reached.
func TestANodeThatIsNotProbedHoldsUpNoOther(t *testing.T) {
	for name, unprobed := range map[string]func(*Selector, *Node){
		"manager":     func(_ *Selector, n *Node) { n.NoData = true },
		"unreachable": func(s *Selector, n *Node) { s.MarkUnreachable(n, "refused", at(time.Second)) },
	} {
		for first := range 4 {
			s, nodes := newTest(t, 4)
			for _, n := range nodes {
				n.Processors = 2
				n.rate.Observe(1)
				n.service.Observe(1)
			}
			unprobed(s, nodes[first])
			probed := map[*Node]bool{}
			for now := time.Second; now < 10*time.Second; now += 10 * time.Millisecond {
				choose(s, nodes, ring(1, 1, 4), at(now))
				for _, p := range probeUnpolled(s, nodes, now, answeredWell) {
					probed[p.Node] = true
				}
			}
			delete(probed, nodes[first]) // others may be compared with it
			require.Len(t, probed, 3, "%s, node %d", name, first)
		}
	}
}

// Others compare what a node is sent through itself only where another one is compared with that.
func TestWhatIsComparedWithNothingIsNotToldAsCompared(t *testing.T) {
	for of, state := range map[int]State{1: Fine, 2: Failing} {
		s, nodes := newTest(t, of)
		for _, n := range nodes {
			n.health.state.Store(int32(state))
			n.probe.wanted.Store(true)
		}
		probes := s.Probes(nil, at(time.Second))
		require.Len(t, probes, of)
		for _, p := range probes {
			require.Same(t, p.Node, p.Via)
			require.False(t, p.round.local, "%d nodes", of)
		}
	}
}

// One that is back, or new, and answers no polls is no node to send probes through while others do.
func TestProbesAreSentThroughNoUnresponsiveNode(t *testing.T) {
	s, nodes := newTest(t, 5)
	s.slowStart(nodes[2], int64(time.Second))
	s.ObservePoll(nodes[2].ID, Poll{State: Unresponsive, Took: time.Second}, at(time.Second))
	for now := time.Second; now < 4*time.Second; now += 200 * time.Millisecond {
		s.Suspect(&Decision{Nodes: nodes[:1]}, at(now))
		for _, p := range probeUnpolled(s, nodes, now, answeredWell) {
			require.NotEqual(t, nodes[2], p.Via)
		}
	}
}
