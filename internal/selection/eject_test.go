package selection

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// at is a moment of the tests.
func at(d time.Duration) time.Time { return epoch.Add(d) }

// silence has n owe an answer since now.
func silence(n *Node, now time.Time) {
	n.asking.sentAt.Store(max(1, int64(now.Sub(epoch))))
	n.asking.silent.Store(true)
}

// states returns the states of nodes.
func states(nodes []*Node) []State {
	out := make([]State, len(nodes))
	for i, n := range nodes {
		out[i] = n.State()
	}
	return out
}

// answeredWell is how a probe ends that took 2 ms.
func answeredWell(Probe) ProbeOutcome { return ProbeOutcome{Took: 2 * time.Millisecond} }

// late has the probes of bad take so long, and those of others 2 ms.
func late(took time.Duration, bad ...*Node) func(Probe) ProbeOutcome {
	return func(p Probe) ProbeOutcome {
		if slices.Contains(bad, p.Node) {
			return ProbeOutcome{Took: min(took, ProbeTimeout), Failed: took >= ProbeTimeout}
		}
		return answeredWell(p)
	}
}

// probe polls the nodes, sends what is due at now and has it end as told; the sooner ones first.
func probe(s *Selector, nodes []*Node, now time.Duration, outcome func(Probe) ProbeOutcome) []Probe {
	for _, n := range nodes {
		raise(&n.polledAt, int64(now))
	}
	return probeUnpolled(s, nodes, now, outcome)
}

// probeUnpolled sends what is due at now and has it end as told; the sooner ones first.
func probeUnpolled(s *Selector, nodes []*Node, now time.Duration, outcome func(Probe) ProbeOutcome) []Probe {
	probes := s.Probes(nil, at(now))
	type answer struct {
		Probe
		ProbeOutcome
	}
	var answers []answer
	for _, p := range probes {
		answers = append(answers, answer{p, outcome(p)})
	}
	slices.SortStableFunc(answers, func(a, b answer) int { return cmp.Compare(a.Took, b.Took) })
	for _, a := range answers {
		s.ObserveProbe(a.Probe, a.ProbeOutcome, at(now+a.Took))
	}
	return probes
}

// suspect has the nodes suspected and probed so often, from a moment on, and returns when
// that was done.
func suspect(s *Selector, nodes []*Node, from time.Duration, times int, outcome func(Probe) ProbeOutcome) time.Duration {
	for range times {
		s.Suspect(&Decision{Nodes: nodes}, at(from))
		probe(s, nodes, from, outcome)
		from += ProbeTimeout + suspicionInterval
	}
	return from
}

// answerProbes sends what is due at each step of 10 ms in [from, to) and has it answered.
func answerProbes(s *Selector, nodes []*Node, from, to time.Duration, outcome func(Probe) ProbeOutcome) (sent int) {
	for now := from; now < to; now += 10 * time.Millisecond {
		sent += len(probe(s, nodes, now, outcome))
	}
	return sent
}

// proofs of suspect eject: after the first each counts for suspicionInterval.
const proofs = 4

func decide(s *Selector, nodes []*Node, now time.Duration) *Decision {
	d := &Decision{}
	s.Choose(d, Request{Nodes: nodes, Shards: ring(len(nodes), 2, len(nodes)), Outliers: true}, at(now))
	return d
}

func TestTheFirstProofAvoidsAndTheLastEjects(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	now := time.Second
	require.Equal(t, NoOutlier, decide(s, nodes, now).Reason)
	s.Suspect(&Decision{Nodes: nodes}, at(now))
	require.Equal(t, NoOutlier, decide(s, nodes, now).Reason, "suspicion changes no routing")
	for i := range proofs {
		now = suspect(s, nodes, now, 1, late(300*time.Millisecond, nodes[2]))
		d := decide(s, nodes, now)
		require.Equal(t, "abde", names(d), i)
		require.Equal(t, Ranked, d.Reason)
		require.Equal(t, i == proofs-1, nodes[2].State() == Slow, "proof %d", i+1)
	}
	require.Contains(t, s.Figures(nodes[2], at(now)).Why, "those of its peers 2 ms")
	require.Equal(t, []State{Fine, Fine, Slow, Fine, Fine}, states(nodes))
}

func TestAProbeAsGoodAsItsPeersClears(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	now := suspect(s, nodes, time.Second, proofs-1, late(300*time.Millisecond, nodes[2]))
	now = suspect(s, nodes, now, 1, answeredWell)
	require.Equal(t, NoOutlier, decide(s, nodes, now).Reason)
	now = suspect(s, nodes, now, proofs-1, late(300*time.Millisecond, nodes[2]))
	require.Equal(t, Fine, nodes[2].State(), "not in a row")
	suspect(s, nodes, now, 1, late(300*time.Millisecond, nodes[2]))
	require.Equal(t, Slow, nodes[2].State())
}

// A node that answers nothing is found out while its first probe still waits. It is avoided, and probed
// again and again until it is ejected.
func TestANodeThatHangsIsAvoidedAtOnceAndEjectedAfterProofTime(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	raise(&nodes[2].missedAt, int64(time.Second)) // nor polls
	s.Suspect(&Decision{Nodes: nodes[2:3]}, at(time.Second))
	var sent []time.Duration
	avoided := time.Duration(0)
	for now := time.Second; nodes[2].State() == Fine; now += time.Millisecond {
		require.Less(t, now, time.Second+proofTime+2*suspicionInterval)
		if avoided == 0 && nodes[2].health.avoided() {
			avoided = now
		}
		for _, p := range s.Probes(nil, at(now)) {
			if p.Node == nodes[2] {
				sent = append(sent, now)
				continue
			}
			s.ObserveProbe(p, ProbeOutcome{Took: time.Millisecond}, at(now+time.Millisecond))
		}
	}
	require.Less(t, avoided, time.Second+suspicionInterval)
	require.GreaterOrEqual(t, sent[len(sent)-1]-sent[0], proofTime-suspicionInterval)
	require.GreaterOrEqual(t, len(sent), 3, "no single one ejects")
	for i := range sent[1:] {
		require.GreaterOrEqual(t, sent[i+1]-sent[i], suspicionInterval)
	}
}

// What a node works on may keep probes waiting, however fast its idle peers are: a shard query of
// its own, or such a one as there usually are. It does not make them fail at once, and one that takes
// a minute is no excuse for as long.
func TestProofOutlastsAShardQuery(t *testing.T) {
	for _, c := range []struct {
		own, usual float64
		fails      bool
		longer     time.Duration // than proofTime
	}{
		{3, 3, false, 9 * time.Millisecond},
		{100, 3, false, 300 * time.Millisecond},
		{3, 100, false, 300 * time.Millisecond},
		{60_000, 3, false, firstHold},
		{100, 100, true, 0},
	} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, c.usual, c.usual)
		n := nodes[2]
		set(&n.service, c.own)
		s.Suspect(&Decision{Nodes: nodes[2:3]}, at(time.Second))
		first, now := time.Duration(0), time.Second
		for ; n.State() == Fine; now += time.Millisecond {
			require.Less(t, now, 5*time.Second, c)
			raise(&n.polledAt, int64(now))
			for _, p := range s.Probes(nil, at(now)) {
				if p.Node != n || c.fails {
					s.ObserveProbe(p, ProbeOutcome{Took: time.Millisecond, Failed: p.Node == n}, at(now+time.Millisecond))
				}
			}
			if first == 0 && n.probe.against.Load() != 0 {
				first = now
				require.True(t, n.health.avoided(), "it is avoided at once")
			}
		}
		require.GreaterOrEqual(t, now-first, proofTime+c.longer, c)
		require.Less(t, now-first, proofTime+c.longer+2*suspicionInterval, c)
	}
}

func TestSlowNodeComesBackByProbesAndGrows(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	shards := ring(5, 2, 5)
	s.eject(nodes[2], Slow, 1, "a test")
	bad := late(300*time.Millisecond, nodes[2])
	sent := answerProbes(s, nodes, 0, 10*time.Second, bad)
	require.Equal(t, Slow, nodes[2].State(), "for as long as its probes are late")
	require.InDelta(t, 3*25, sent, 20, "one in probeInterval, and two to compare with")

	from := 10 * time.Second
	answerProbes(s, nodes, from, from+firstHold/2, answeredWell)
	require.Equal(t, Slow, nodes[2].State(), "held")
	bursts := map[int]bool{}
	answerProbes(s, nodes, from+firstHold/2, from+firstHold+time.Second, func(p Probe) ProbeOutcome {
		bursts[p.Burst] = true
		return answeredWell(p)
	})
	require.Equal(t, Ramping, nodes[2].State())
	back := from + firstHold + time.Second
	listed := map[bool]int{}
	for ms := range 2000 {
		d := choose(s, nodes, shards, at(back+time.Duration(ms)*time.Millisecond))
		listed[slices.Contains(d.Nodes, nodes[2])]++
	}
	require.InDelta(t, 0.5, float64(listed[true])/2000, 0.3, "its share grows")
	answerProbes(s, nodes, back+SlowStart, back+SlowStart+time.Second, answeredWell)
	require.Equal(t, Fine, nodes[2].State())
}

// Without an answer to a probe time brings no node back, but where nobody asks for probes: they are switched off.
func TestANodeWhoseProbesAreNotAnsweredStaysEjected(t *testing.T) {
	for state, asks := range map[State]bool{Slow: true, Ramping: false} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, 5, 3)
		s.eject(nodes[2], Slow, 1, "a test")
		if asks {
			require.NotEmpty(t, s.Probes(nil, at(time.Second)))
		}
		s.ObservePoll(nodes[2].ID, Poll{State: Fine}, at(holdMemory))
		require.Equal(t, state, nodes[2].State())
	}
}

// It takes a burst of probes, as good as those of its peers, to come back: a starved node
// answers one, and no more.
func TestANodeThatAnswersOneProbeAndNoBurstStaysEjected(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	s.eject(nodes[2], Slow, 1, "a test")
	answerProbes(s, nodes, 0, 20*time.Second, func(p Probe) ProbeOutcome {
		if p.Burst > 1 {
			return late(300*time.Millisecond, nodes[2])(p)
		}
		return answeredWell(p)
	})
	require.Equal(t, Slow, nodes[2].State())
}

func TestFlappingNodeStaysOutLonger(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	out := func(from time.Duration) time.Duration {
		s.eject(nodes[2], Slow, s.since(at(from)), "a test")
		require.Equal(t, Slow, nodes[2].State())
		now := from
		for nodes[2].State() == Slow {
			probe(s, nodes, now, answeredWell)
			now += 10 * time.Millisecond
			require.Less(t, now, from+holdMemory*6/5+time.Second)
		}
		return now - from
	}
	first := out(time.Second)
	again := out(time.Second + first + 4*time.Second)
	require.GreaterOrEqual(t, first, firstHold*4/5)
	require.GreaterOrEqual(t, again, 2*firstHold*4/5)
	from, last := time.Second+first+again+8*time.Second, again
	for range 5 {
		last = out(from)
		from += last + 4*time.Second
	}
	require.GreaterOrEqual(t, last, holdMemory*4/5, "no longer than that")
	require.Less(t, out(from+2*holdMemory), firstHold*6/5+probeInterval*2, "forgotten")
}

func TestNeverMoreThanAThirdOfTheDataNodesIsEjected(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 9, 30} {
		for _, managers := range []int{0, 3} {
			s, nodes := withManagers(t, n, managers)
			for i, node := range nodes[:n] {
				s.eject(node, Slow, int64(i+1), "a test")
			}
			out := 0
			for _, node := range nodes {
				if node.State() == Slow {
					out++
				}
			}
			require.Equal(t, (n+1)/3, out, "of %d, with %d managers", n, managers)
			require.Equal(t, Bound{Out: out, AtMost: (n + 1) / 3, Nodes: n}, s.Bound())
		}
	}
}

// withManagers returns so many data nodes, and managers after them.
func withManagers(t *testing.T, data, managers int) (*Selector, []*Node) {
	t.Helper()
	s, nodes := newTest(t, data)
	infos := infosOf(nodes)
	for i := range managers {
		name := "m" + string(rune('0'+i))
		infos = append(infos, NodeInfo{ID: name, Name: name, NoData: true})
	}
	nodes = s.Update(infos, epoch)
	for _, n := range nodes {
		s.ObservePoll(n.ID, Poll{State: Fine}, epoch)
	}
	return s, nodes
}

func TestFailuresInARowEjectUntilTheNodeAnswersItself(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	for range twice {
		require.Equal(t, Fine, nodes[1].State())
		s.Blame(nodes[1:2], "broken", at(time.Second))
	}
	require.Equal(t, Failing, nodes[1].State())
	broken := func(p Probe) ProbeOutcome {
		if p.Node != nodes[1] {
			return answeredWell(p)
		}
		require.Same(t, p.Node, p.Via, "the way that failed is the one to try")
		return ProbeOutcome{Failed: true, Message: "broken"}
	}
	answerProbes(s, nodes, 2*time.Second, 10*time.Second, broken)
	require.Equal(t, Failing, nodes[1].State())
	require.Equal(t, "2 failures in a row", s.Figures(nodes[1], at(10*time.Second)).Why)
	answerProbes(s, nodes, 10*time.Second, 11*time.Second+firstHold, answeredWell)
	require.Equal(t, Ramping, nodes[1].State())
}

func TestFailuresFarApartAreNoProof(t *testing.T) {
	s, nodes := newTest(t, 5)
	for i := range 10 {
		now := at(time.Duration(i+1) * 2 * failureMemory)
		s.Blame(nodes[1:2], "", now)
	}
	require.Equal(t, Fine, nodes[1].State())
}

// Probes that fail at once, while those of peers go well, are proof as late ones are.
func TestProbesThatFailAtOnceEject(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	suspect(s, nodes, time.Second, proofs, func(p Probe) ProbeOutcome {
		if p.Node == nodes[2] {
			return ProbeOutcome{Failed: true, Took: time.Millisecond, Message: "broken"}
		}
		return answeredWell(p)
	})
	require.Equal(t, Failing, nodes[2].State())
	require.Equal(t, "probe failed: broken", s.Figures(nodes[2], at(time.Minute)).Why)
}

func TestNewNodesRampUp(t *testing.T) {
	s, nodes := newTest(t, 3)
	infos := slices.Concat([]NodeInfo{{ID: "new", Name: "new"}}, infosOf(nodes))
	all := s.Update(infos, epoch)
	choose(s, all, [][]int{{0, 1, 2, 3}}, epoch)
	require.Equal(t, Ramping, all[0].State())
	require.Equal(t, []State{Fine, Fine, Fine}, states(all[1:]), "those that were there are not new")
}

// A node that fails at once costs next to nothing where the engine asks the next copy. It
// does not coordinate, and where one copy is named it is another.
func TestANodeThatFailsAtOnceIsLeftToTheEngine(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	for range twice {
		s.Blame(nodes[2:3], "", at(time.Second))
	}
	d := decide(s, nodes, 2*time.Second)
	require.Equal(t, NoOutlier, d.Reason)
	require.NotEqual(t, nodes[2].Name, d.Coordinator.Name)
	s.Choose(d, Request{Nodes: nodes, Shards: [][]int{{2, 3}}, Outliers: true}, at(2*time.Second))
	require.Equal(t, "d", names(d), "a copy that is named is not one that fails")

	s.eject(nodes[0], Slow, s.since(at(2*time.Second)), "a test")
	require.Equal(t, "bde", names(decide(s, nodes, 2*time.Second)), "where copies are listed, for the sake of another, it is not")
}

// A copy on an ejected node is better than one on a node that cannot be reached.
func TestAnEjectedCopyServesWhereTheOthersCannotBeReached(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	s.eject(nodes[2], Slow, s.since(at(time.Second)), "a test")
	s.MarkUnreachable(nodes[3], "refused", at(time.Second))
	d := choose(s, nodes, [][]int{{0, 1}, {2, 3}}, at(time.Second))
	require.Equal(t, "abc", names(d))
	require.Equal(t, Ranked, d.Reason)
	require.Equal(t, "c", names(choose(s, nodes, [][]int{{2, 3}}, at(time.Second))))
}

// All attempts of one search may fail on the node with the only copy of a shard. That is one failure: two searches must fail.
func TestOneSearchIsOneFailure(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	s.Blame([]*Node{nodes[2], nodes[1], nodes[2]}, "broken", at(time.Second))
	require.Equal(t, Fine, nodes[2].State())
	s.Blame(nodes[2:3], "broken", at(2*time.Second))
	require.Equal(t, Failing, nodes[2].State())
	require.Equal(t, Fine, nodes[1].State())
}

// Failures are in a row if no search through the node went well in between, also one of which the client does not want to know
// how long it took (filter_path).
func TestASearchThatWentWellEndsARowOfFailures(t *testing.T) {
	for _, took := range []bool{false, true} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, 5, 3)
		for range 3 {
			s.Blame(nodes[2:3], "broken", at(time.Second))
			s.Observe(&Decision{Nodes: nodes, Coordinator: nodes[2]}, Outcome{ResponseTime: time.Millisecond, HasTook: took}, at(time.Second))
		}
		require.Equal(t, Fine, nodes[2].State())
	}
}
