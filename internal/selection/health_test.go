package selection

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// at is a moment of the tests.
func at(d time.Duration) time.Time { return epoch.Add(d) }

// states returns the states of nodes, as letters would be too short to read.
func states(nodes []*Node) []State {
	out := make([]State, len(nodes))
	for i, n := range nodes {
		out[i] = n.State()
	}
	return out
}

// answerProbes sends what is due at each step of 10 ms in [from, to) and has it
// answered after took(node); negative: never.
func answerProbes(s *Selector, nodes []*Node, from, to time.Duration, took func(n *Node) time.Duration) (sent int) {
	type pending struct {
		Probe
		due time.Duration
	}
	var waiting []pending
	for now := from; now < to; now += 10 * time.Millisecond {
		waiting = slices.DeleteFunc(waiting, func(p pending) bool {
			if p.due > now {
				return false
			}
			s.ObserveProbe(p.Probe, ProbeOutcome{Took: took(p.Node)}, at(now))
			return true
		})
		for _, p := range s.Probes(nil, nodes, at(now)) {
			sent++
			if d := took(p.Node); d >= 0 {
				waiting = append(waiting, pending{p, now + d})
			}
		}
	}
	return sent
}

func TestSlowNodeComesBackByProbesAndGrows(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 5)
	teach(nodes, 5, 3)
	set(&nodes[2].response, 300)
	shards := ring(5, 2, 5)
	choose(s, nodes, shards, at(0))
	require.Equal(t, []State{Fine, Fine, Slow, Fine, Fine}, states(nodes))

	slow := func(n *Node) time.Duration {
		if n == nodes[2] {
			return 300 * time.Millisecond
		}
		return 2 * time.Millisecond
	}
	sent := answerProbes(s, nodes, 0, 10*time.Second, slow)
	require.Equal(t, Slow, nodes[2].State(), "for as long as its probes are late")
	require.InDelta(t, 25, sent, 5, "within their budget")

	well := func(*Node) time.Duration { return 2 * time.Millisecond }
	answerProbes(s, nodes, 10*time.Second, 11500*time.Millisecond, well)
	require.Equal(t, Slow, nodes[2].State(), "held")
	answerProbes(s, nodes, 11500*time.Millisecond, 13*time.Second, well)
	require.Equal(t, Ramping, nodes[2].State())
	listed := map[bool]int{}
	for ms := range 3000 {
		d := choose(s, nodes, shards, at(13*time.Second+time.Duration(ms)*time.Millisecond))
		listed[slices.Contains(d.Nodes, nodes[2])]++
	}
	require.InDelta(t, 0.5, float64(listed[true])/3000, 0.3, "its share grows")
	answerProbes(s, nodes, 16*time.Second, 17*time.Second, well)
	require.Equal(t, Fine, nodes[2].State())
}

// A node that is back owes few searches until it has answered one: a hundred
// connections that wait for their answers would all wait for it.
func TestNodeThatIsBackIsTriedFirst(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 5)
	teach(nodes, 5, 3)
	nodes[2].sendAway(Slow, s.since(at(0)), "a test")
	nodes[2].startRamp(s.since(at(10 * time.Second)))
	late := at(12900 * time.Millisecond) // with nearly all of its share
	owed := []*Decision{}
	for range 200 {
		d := choose(s, nodes, ring(5, 2, 5), late)
		s.Acquire(d, late)
		if slices.Contains(d.Nodes, nodes[2]) {
			owed = append(owed, d)
		}
	}
	require.Len(t, owed, trials)
	answered := late.Add(10 * time.Millisecond)
	s.Observe(owed[0], Outcome{ResponseTime: 10 * time.Millisecond}, answered)
	owed[0].Release()
	listed := 0
	for range 200 {
		if slices.Contains(choose(s, nodes, ring(5, 2, 5), answered).Nodes, nodes[2]) {
			listed++
		}
	}
	require.Greater(t, listed, 150)
}

func TestFlappingNodeStaysOutLonger(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 5)
	teach(nodes, 5, 3)
	well := func(*Node) time.Duration { return 2 * time.Millisecond }
	out := func(from time.Duration) time.Duration {
		set(&nodes[2].response, 300)
		choose(s, nodes, ring(5, 2, 5), at(from))
		require.Equal(t, Slow, nodes[2].State())
		now := from
		for nodes[2].State() == Slow {
			answerProbes(s, nodes, now, now+10*time.Millisecond, func(*Node) time.Duration { return 0 })
			answerProbes(s, nodes, now, now+10*time.Millisecond, well)
			now += 10 * time.Millisecond
			require.Less(t, now, from+10*time.Second, "back within ten seconds")
		}
		return now - from
	}
	first := out(0)
	again := out(first + 4*time.Second)
	require.GreaterOrEqual(t, first, firstHold)
	require.GreaterOrEqual(t, again, againHold)
	require.Less(t, out(first+again+2*time.Minute), againHold, "forgotten")
}

func TestNeverMoreThanAThirdIsSentAway(t *testing.T) {
	for _, n := range []int{2, 3, 5, 9, 30} {
		s, nodes := newTest(t, "adaptive", n)
		for i, node := range nodes {
			s.accuse(node, Slow, int64(i), "a test")
		}
		out := 0
		for _, node := range nodes {
			if node.State() == Slow {
				out++
			}
		}
		require.Equal(t, (n+1)/3, out, "of %d", n)
	}
}

func TestWhenAllAreSlowNobodyIs(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 5)
	teach(nodes, 2000, 3)
	d := &Decision{}
	s.Choose(d, Request{Nodes: nodes, Shards: ring(5, 2, 5), Outliers: true}, epoch)
	require.Equal(t, NoOutlier, d.Reason)
	require.Equal(t, "abcde", names(d))
}

func TestBusyNodesAreNotSlow(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 5)
	teach(nodes, 5, 3)
	set(&nodes[2].response, 300)
	set(&nodes[2].queue, 90)
	choose(s, nodes, ring(5, 2, 5), epoch)
	require.Equal(t, Fine, nodes[2].State(), "90 shard queries of 3 ms in its queue explain 270 ms")
}

// A probe that is late where all have queues speaks of the load, not of the node.
func TestLateProbesSendNobodyAwayFromABusyCluster(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 5)
	teach(nodes, 5, 3)
	for _, n := range nodes {
		set(&n.queue, 20)
	}
	s.accuse(nodes[2], Slow, 1, "probe took 400 ms")
	require.Equal(t, Fine, nodes[2].State())
	set(&nodes[2].service, 300)
	s.accuse(nodes[2], Slow, int64(time.Second), "probe took 400 ms")
	require.Equal(t, Slow, nodes[2].State(), "it does next to none of the work")
}

func TestUnderPressureASlowNodeIsUsed(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 5)
	teach(nodes, 5, 3)
	s.accuse(nodes[2], Slow, 0, "a test")
	nodes[2].probe.answered.Store(1)
	for i, n := range nodes {
		if i != 2 {
			set(&n.queue, 30)
		}
	}
	choice := func() *Decision {
		d := &Decision{}
		s.Choose(d, Request{Nodes: nodes, Shards: ring(5, 2, 5), Outliers: true}, at(time.Millisecond))
		return d
	}
	require.Equal(t, NoOutlier, choice().Reason, "the engine shares the load")
	set(&nodes[2].service, 100)
	require.Equal(t, "abde", names(choice()), "it could carry next to nothing")
}

func TestFailuresInARowSendANodeAwayUntilItAnswersSearchesItself(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 5)
	teach(nodes, 5, 3)
	for range failuresInARow {
		d := &Decision{Nodes: nodes, Coordinator: nodes[1]}
		s.Observe(d, Outcome{Failed: true, Blamed: nodes[1:2], Message: "rejected"}, epoch)
	}
	require.Equal(t, Failing, nodes[1].State())
	probes := s.Probes(nil, nodes, at(time.Second))
	require.Len(t, probes, 1)
	require.Same(t, nodes[1], probes[0].Via, "the way that failed is the one to try")
	s.ObserveProbe(probes[0], ProbeOutcome{Failed: true, Message: "rejected"}, at(time.Second))
	require.Equal(t, "2 failures in a row", s.View(nodes, at(time.Second))[1].Why)
}

func TestViewCountsProbesThatHaveATime(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 2)
	for _, o := range []ProbeOutcome{
		{Took: 20 * time.Millisecond},
		{Took: ProbeTimeout, Failed: true},
		{Took: time.Millisecond, Failed: true, Message: "rejected"},
		{Unfit: true},
	} {
		s.ObserveProbe(Probe{Node: nodes[1], Via: nodes[0]}, o, epoch)
	}
	s.ObserveProbe(Probe{Node: nodes[1], Via: nodes[0], knock: true}, ProbeOutcome{Took: time.Minute}, epoch)
	views := s.View(nodes, epoch)
	require.Zero(t, views[0].Probes)
	require.EqualValues(t, 2, views[1].Probes)
	require.Equal(t, ProbeTimeout+20*time.Millisecond, views[1].ProbeTime)
}

func TestNewNodesRampUp(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 3)
	infos := []NodeInfo{{ID: "new", Name: "new"}}
	for _, n := range nodes {
		infos = append(infos, n.NodeInfo)
	}
	all := s.Update(infos)
	choose(s, all, [][]int{{0, 1, 2, 3}}, epoch)
	require.Equal(t, Ramping, all[0].State())
	require.Equal(t, []State{Fine, Fine, Fine}, states(all[1:]), "those that were there are not new")
}

// TestOneSlowNodeIsAccusedWithinASecondAndNobodyElse: blame without guessing. The
// searches touch all nodes, so that a late answer tells nothing of who was late.
func TestOneSlowNodeIsAccusedWithinASecondAndNobodyElse(t *testing.T) {
	for _, rate := range []int{20, 80, 400} {
		for victim := range 5 {
			v := newVirtual(t, "adaptive", func(node int, now time.Duration) time.Duration {
				if node == victim && now > 10*time.Second {
					return 300 * time.Millisecond
				}
				return 0
			})
			v.when = true
			accused := map[string]time.Duration{}
			v.s.onChange = func(c Change) {
				if c.After == Slow {
					accused[c.Node.Name] = v.now
				}
			}
			v.run(rate, 20*time.Second)
			require.Len(t, accused, 1, "%d/s, node %d", rate, victim)
			when := accused[v.nodes[victim].Name]
			require.Greater(t, when, 10*time.Second)
			require.Less(t, when, 11*time.Second, "%d/s, node %d", rate, victim)
		}
	}
}

// A node that fails at once costs next to nothing where the engine asks the next copy;
// one that is slow to fail, or rejects what its queue cannot take, is kept out.
func TestWhoFailsAtOnceIsLeftToTheEngine(t *testing.T) {
	later := at(time.Second + troubleHold)
	failing := func(took time.Duration) (*Selector, []*Node, Request) {
		s, nodes := newTest(t, "adaptive", 5)
		teach(nodes, 5, 3)
		req := Request{Nodes: nodes, Shards: ring(5, 2, 5), Outliers: true}
		d := &Decision{}
		for range 2 {
			s.Choose(d, req, at(time.Second))
			s.Observe(d, Outcome{Failed: true, Blamed: nodes[2:3], ResponseTime: took}, at(time.Second))
		}
		nodes[2].probe.since(s.since(later)) // probes tell nothing better of it
		require.Equal(t, Failing, nodes[2].State())
		return s, nodes, req
	}
	s, nodes, req := failing(time.Millisecond)
	d, a := accountOf(s, nodes, req.Shards, later, func(r *Request) { r.Outliers = true })
	require.Equal(t, NoOutlier, d.Reason)
	require.NotEqual(t, nodes[2].Name, d.Coordinator.Name)
	require.Contains(t, a.Summary, "where c fails, at once, the next copy is asked")
	require.Contains(t, about(t, a, "c").Why, "It coordinates nothing")

	s.accuse(nodes[3], Slow, s.since(later), "no answer to probes")
	_, a = accountOf(s, nodes, req.Shards, later, func(r *Request) { r.Outliers = true })
	require.Contains(t, a.Summary, "as d is to be kept out", "c alone would be no reason to list nodes")

	s, nodes, _ = failing(time.Millisecond)
	one := Request{Nodes: nodes, Shards: [][]int{{2, 3}}, Outliers: true}
	s.Choose(d, one, later)
	require.Equal(t, nodes[3].Name, d.Nodes[0].Name, "a copy that is named is not one that fails")

	keptOut := func(s *Selector, nodes []*Node, req Request) {
		t.Helper()
		s.Choose(d, req, later)
		require.Equal(t, Ranked, d.Reason)
		require.False(t, slices.Contains(d.Nodes, nodes[2]))
	}
	keptOut(failing(time.Second))
	s, nodes, req = failing(time.Millisecond)
	nodes[2].rejectedAt.Store(s.since(later))
	keptOut(s, nodes, req)
	s, nodes, req = failing(time.Millisecond)
	s.accuse(nodes[2], Slow, s.since(later), "no answer to probes")
	keptOut(s, nodes, req)
}

// A node that did not answer for a while is probed before it comes back, though it was kept
// out before: what probes told then is no longer true.
func TestWhoWasUnresponsiveIsProbedAnew(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 5)
	teach(nodes, 5, 3)
	n := nodes[2]
	s.accuse(n, Slow, s.since(at(time.Second)), "a test")
	n.health.good.Store(goodProbes)
	s.ObservePoll(n.ID, Poll{State: Unresponsive}, at(2*time.Second))
	s.ObservePoll(n.ID, Poll{State: Fine}, at(30*time.Second))
	choose(s, nodes, ring(5, 2, 5), at(30*time.Second+firstHold/2))
	require.Equal(t, Slow, n.State())
	require.False(t, n.mends())
	choose(s, nodes, ring(5, 2, 5), at(30*time.Second+holdMemory))
	require.Equal(t, Ramping, n.State(), "where no probe tells anything, it is tried")
}

// A node that is kept out while the others have more than they can is let in again, though
// probes are late: all that is sent through nodes with queues is.
func TestWhoIsNeededComesBackThoughProbesAreLate(t *testing.T) {
	for name, queue := range map[string]float64{"the others wait": 20, "the others have time": 0} {
		t.Run(name, func(t *testing.T) {
			s, nodes := newTest(t, "adaptive", 5)
			teach(nodes, 5, 3)
			for _, n := range nodes {
				n.Processors = 1
				set(&n.rate, 0.12)
				set(&n.queue, queue)
			}
			bad := nodes[2]
			set(&bad.queue, 0)
			bad.sendAway(Slow, s.since(at(time.Second)), "a test")
			for now := time.Second; now <= 4*time.Second; now += probeInterval {
				p := Probe{Node: bad, Via: nodes[0], Burst: 1, sent: s.since(at(now))}
				bad.probe.sent.Store(p.sent)
				s.ObserveProbe(p, ProbeOutcome{Took: ProbeTimeout, Failed: true}, at(now+ProbeTimeout))
				choose(s, nodes, ring(5, 2, 5), at(now+ProbeTimeout))
			}
			require.Equal(t, queue == 0, bad.health.excluded())
		})
	}
}

// While the others have all they can carry, a slow node is sent away only if it does next
// to none of the work; if it is already, it then gets none.
func TestWhoDoesNoWorkIsNotNeeded(t *testing.T) {
	for name, tc := range map[string]struct {
		service, rate, queue float64
		useless              bool
	}{
		"a third of the speed":              {9, 0.04, 50, false},
		"a tenth of the speed":              {30, 0.01, 50, true},
		"starved, quick about what it does": {2, 0.01, 50, true},
		"nothing waits for it":              {2, 0.01, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, nodes := newTest(t, "adaptive", 5)
			teach(nodes, 5, 3)
			for _, n := range nodes {
				n.Processors = 1
				set(&n.rate, 0.12)
				set(&n.queue, 20)
				n.latest.set(20)
			}
			bad := nodes[2]
			set(&bad.service, tc.service)
			set(&bad.rate, tc.rate)
			bad.latest.set(tc.queue)
			require.NotEqual(t, tc.useless, s.needed(bad, s.busy(bad), 0))

			bad.sendAway(Slow, s.since(at(time.Second)), "a test")
			bad.probe.answered.Store(s.since(at(time.Second)))
			d := choose(s, nodes, ring(5, 2, 5), at(1100*time.Millisecond))
			require.NotEqual(t, tc.useless, slices.Contains(d.Nodes, bad))
		})
	}
}
