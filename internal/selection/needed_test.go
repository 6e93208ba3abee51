package selection

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What the others could not carry is not probed on suspicion: nothing that probes say of it could be acted upon. What
// does not answer polls, is short of CPU or does next to nothing is.
func TestANodeThatIsNeededIsNotProbed(t *testing.T) {
	for name, c := range map[string]struct {
		rate   float64 // shard queries of 3 ms per ms, of nodes of 4 CPUs
		change func(s *Selector, n *Node)
		probed bool
	}{
		"there is room":           {1, func(*Selector, *Node) {}, true},
		"the others are full":     {1.2, func(*Selector, *Node) {}, false},
		"it answers no polls":     {1.2, func(s *Selector, n *Node) { s.ObservePoll(n.ID, Poll{State: Unresponsive}, at(time.Second)) }, true},
		"it is short of CPU":      {1.2, func(_ *Selector, n *Node) { n.short.Store(true) }, true},
		"it does next to no work": {1.5, func(_ *Selector, n *Node) { set(&n.rate, 0.01) }, true},
		"CPUs are not known":      {1.2, func(s *Selector, _ *Node) { (*s.known.Load())["id-a"].Processors = 0 }, true},
	} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, 5, 3)
		for _, n := range nodes {
			n.Processors = 4
			set(&n.rate, c.rate)
		}
		c.change(s, nodes[2])
		s.Suspect(&Decision{Nodes: nodes[2:3]}, at(time.Second))
		probes := s.Probes(nil, at(time.Second))
		require.Equal(t, c.probed, slices.ContainsFunc(probes, func(p Probe) bool { return p.Node == nodes[2] }), name)
		require.Equal(t, c.probed, len(probes) > 0, name)
	}
}

// The last queue that a node told counts for as long as it would take to be worked off, where it answers no polls: one that
// hangs with a long queue does not answer its probes in time, and is found.
func TestAQueueExcusesNoNodeThatHangs(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 50)
	for _, n := range nodes {
		n.Processors = 4
	}
	s.ObservePoll(nodes[2].ID, Poll{State: Fine, Queue: 1000, Queries: 10, ServiceTime: 50 * time.Millisecond, Elapsed: time.Second}, at(time.Second))
	require.Greater(t, nodes[2].queued(int64(2*time.Second)), 10_000.0)
	s.ObservePoll(nodes[2].ID, Poll{State: Unresponsive, Took: time.Second}, at(3*time.Second))
	require.InDelta(t, 5, nodes[2].queued(int64(10*time.Second)), 0, "nothing was seen to take longer")
	set(&nodes[2].response, 12_500)
	require.Greater(t, nodes[2].queued(int64(10*time.Second)), 10_000.0, "it may be working")
	require.Zero(t, nodes[2].queued(int64(20*time.Second)))
	s.ObservePoll(nodes[0].ID, Poll{State: Fine, Coordinated: map[string]Seen{nodes[2].ID: {Now: time.Millisecond, Before: 12500 * time.Millisecond}}}, at(20*time.Second))
	set(&nodes[2].response, 50)
	require.InDelta(t, 50, nodes[2].queued(int64(20*time.Second)), 0, "others were preferred to it")
	for now := 20 * time.Second; now < 28*time.Second; now += ProbeTimeout + suspicionInterval {
		s.Suspect(&Decision{Nodes: nodes}, at(now))
		probeUnpolled(s, nodes, now, late(ProbeTimeout, nodes[2]))
	}
	require.Equal(t, Slow, nodes[2].health.condition())
}

func TestAFailureIsAReasonToProbe(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	s.Blame(nodes[1:2], "broken", at(time.Second))
	require.True(t, slices.ContainsFunc(s.Probes(nil, at(time.Second)), func(p Probe) bool { return p.Node == nodes[1] }))
}

// A search without a choice is not steered because the only node that could serve it is away.
func TestWhatHasNoChoiceHasNoneWhenItsNodeIsAway(t *testing.T) {
	s, nodes := newTest(t, 3)
	s.MarkUnreachable(nodes[0], "refused", at(time.Second))
	for _, shards := range [][][]int{{{0}}, {{0}, {1}}} {
		require.Equal(t, NoChoice, choose(s, nodes, shards, at(time.Second)).Reason)
	}
	require.Equal(t, FailOpen, choose(s, nodes, [][]int{{0}, {1, 2}}, at(time.Second)).Reason)
}

// A node that nobody suspects is probed while there are searches. Writes are none, and neither is what looks for a node to
// send a probe through.
func TestOnlySearchesHaveNodesProbedThatNobodySuspects(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	sampled := func(from time.Duration, request func(now time.Time)) int {
		return answerProbes(s, nodes, from, from+10*time.Second, func(p Probe) ProbeOutcome {
			request(at(from))
			return answeredWell(p)
		})
	}
	any := func(*Node) bool { return true }
	s.Coordinator(nodes, any, at(time.Second))
	require.Zero(t, sampled(time.Second, func(now time.Time) { s.Coordinator(nodes, any, now) }))
	decide(s, nodes, 20*time.Second)
	require.Positive(t, sampled(20*time.Second, func(time.Time) { decide(s, nodes, 20*time.Second) }))
}

// What was sent before polls began is not taken for what was sent between the first two.
func TestWhatWasSentBeforeTheFirstPollIsNoRate(t *testing.T) {
	s := New(Options{Epoch: epoch})
	nodes := s.Update([]NodeInfo{{ID: "a"}, {ID: "b"}}, epoch)
	for range 1000 {
		d := choose(s, nodes, [][]int{{0}}, epoch)
		s.Acquire(d, 1, epoch)
		d.Release()
	}
	s.ObservePoll("a", Poll{State: Fine}, at(time.Second))
	s.ObservePoll("a", Poll{State: Fine, Elapsed: time.Second}, at(2*time.Second))
	require.Zero(t, nodes[0].own.Mean())
}

// What nodes do beside searches, as indexing, does not move with shard queries: they can carry those of another node all the same.
func TestWhatNodesDoBesideSearchesNeedsNobody(t *testing.T) {
	s, nodes := newTest(t, 2)
	setTimes(nodes, 15, 10)
	for _, n := range nodes {
		n.Processors = 8
		n.used.Set(4.1)
		set(&n.rate, 0.02)
	}
	s.Suspect(&Decision{Nodes: nodes[:1]}, at(time.Second))
	require.NotEmpty(t, s.Probes(nil, at(time.Second)))
	s.eject(nodes[0], Slow, int64(time.Second), "a test")
	d := choose(s, nodes, [][]int{{0, 1}}, at(time.Second))
	require.Equal(t, nodes[1:], d.Nodes)
	require.Equal(t, KeptSlow, d.candidates[0].Excluded)
}

// A node that answers clients or other nodes while it owes polls is busy: what it told of its queue excuses it.
func TestAQueueExcusesANodeThatAnswersOthers(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 10)
	s.ObservePoll(nodes[2].ID, Poll{State: Fine, Queue: 100, Queries: 10, ServiceTime: 10 * time.Millisecond, Elapsed: time.Second}, at(time.Second))
	s.Heard(nodes[2], at(9500*time.Millisecond))
	s.ObservePoll(nodes[2].ID, Poll{State: Unresponsive, Took: time.Second}, at(10*time.Second))
	require.Positive(t, nodes[2].queued(int64(10*time.Second)))
	require.Zero(t, nodes[2].queued(int64(20*time.Second)))
	s.ObservePoll(nodes[0].ID, Poll{State: Fine, Coordinated: map[string]Seen{nodes[2].ID: {Now: time.Second}}}, at(19500*time.Millisecond))
	require.Positive(t, nodes[2].queued(int64(20*time.Second)), "another node was answered")
}

// What a node did that is away is counted once: the others do it already, and have told so. Else a slow node would be
// used for as long as another one is away.
func TestWhatIsAwayMovesNothingMore(t *testing.T) {
	s, nodes := newBusy(t, 5, 0.7)
	s.eject(nodes[2], Slow, int64(time.Second), "a test")
	require.NotContains(t, decide(s, nodes, 2*time.Second).Nodes, nodes[2], "there is room")
	for _, n := range nodes[1:] {
		set(&n.rate, 0.875)
	}
	s.MarkUnreachable(nodes[0], "refused", at(3*time.Second))
	s.ObservePoll(nodes[0].ID, Poll{State: Unreachable}, at(3*time.Second))
	require.NotContains(t, decide(s, nodes, 3*time.Second).Nodes, nodes[2])
}

// A node that answers clients while it owes a poll does its work: the others would have to do it beside theirs.
func TestWhatIsBusyMovesWhatItDoes(t *testing.T) {
	s, nodes := newBusy(t, 3, 0.93)
	busy := nodes[1]
	busy.health.avoid.Store(1)
	s.Heard(busy, at(2*time.Second))
	s.ObservePoll(busy.ID, Poll{State: Unresponsive, Took: time.Second}, at(2*time.Second))
	d := decide(s, nodes, 2*time.Second)
	require.Contains(t, d.Nodes, busy)
	require.Equal(t, Needed, d.candidates[1].Excluded)
}

// Where every second node is needed the others have their turns all the same.
func TestANodeThatIsNeededHoldsUpNoOther(t *testing.T) {
	s, nodes := newTest(t, 3)
	setTimes(nodes, 5, 10)
	for i, n := range nodes {
		n.Processors = 4
		set(&n.rate, []float64{0.4, 0.4, 0.04}[i])
	}
	seen := map[*Node]bool{}
	for now := time.Second; now < 20*time.Second; now += 10 * time.Millisecond {
		decide(s, nodes, now)
		for _, p := range probe(s, nodes, now, answeredWell) {
			seen[p.Node] = true
		}
	}
	require.True(t, seen[nodes[2]])
}

// Beside a node that is left out although it has the other copy, one that is to be kept out seems to be needed. A search is not to
// go there for that, and looking for another copy does not keep that node from being ejected.
func TestWhatIsKeptOutDoesNotFitBesideANodeThatIsLeftOut(t *testing.T) {
	s, nodes := newBusy(t, 5, 0.5)
	shards := [][]int{{0, 1}}
	nodes[1].health.avoid.Store(1)
	before := choose(s, nodes, shards, at(time.Second))
	require.Equal(t, nodes[:1], before.Nodes)
	other := func() *Decision {
		d := &Decision{}
		s.Preview(d, Request{Nodes: nodes, Shards: shards, Avoid: nodes[:1]}, at(time.Second))
		require.Equal(t, nodes[1:2], d.Nodes)
		return d
	}
	require.False(t, other().Fit(before))
	require.Zero(t, nodes[1].neededAt.Load())
	nodes[1].health.clear()
	before = choose(s, nodes, shards, at(time.Second))
	require.True(t, other().Fit(before))
}

// A search that failed on a node is sent to another one. Other searches still go to the first: a slow node is not needed as
// this one does not.
func TestWhatOneSearchAvoidsHelpsToCarryTheLoad(t *testing.T) {
	s, nodes := newBusy(t, 5, 0.5)
	nodes[1].health.avoid.Store(1)
	for now := time.Second; now < 2*time.Second; now += 10 * time.Millisecond {
		d := choose(s, nodes, [][]int{{0, 1, 2}}, at(now), nodes[0])
		require.Equal(t, nodes[2:3], d.Nodes)
	}
	require.Zero(t, nodes[1].neededAt.Load())
	s.eject(nodes[0], Failing, s.since(at(2*time.Second)), "a test")
	require.Equal(t, Failing, nodes[0].State())
	d := choose(s, nodes, [][]int{{0, 1, 2}}, at(2*time.Second), nodes[0])
	require.Equal(t, Needed, d.candidates[1].Excluded, "no search goes there any more")
}
