package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A second attempt goes past a node that something is proved against, or a silent
// coordinating node, and past no other.
func TestASecondAttemptNeedsProof(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	first := decide(s, nodes, time.Second)
	s.Acquire(first, 1, at(time.Second))
	first.Coordinator = nodes[0]
	require.Empty(t, s.Probes(nil, at(1100*time.Millisecond)), "nothing is suspected")
	s.Suspect(first, at(1100*time.Millisecond))
	again := func(now time.Duration) bool { return s.Worthwhile(first, decide(s, nodes, now), at(now)) }
	require.False(t, again(1100*time.Millisecond), "suspicion alone")
	for _, p := range s.Probes(nil, at(1100*time.Millisecond)) {
		if p.Node != nodes[2] {
			s.ObserveProbe(p, answeredWell(p), at(1102*time.Millisecond))
		}
	}
	require.False(t, again(1110*time.Millisecond), "not late yet")
	s.Probes(nil, at(1130*time.Millisecond))
	require.True(t, nodes[2].health.avoided())
	require.True(t, again(1130*time.Millisecond))
}

// A coordinating node without copies cannot be probed as a holder of copies. That says nothing of the way
// through it while probes of the nodes with the copies tell something.
func TestACoordinatingNodeWithoutCopiesIsNotTakenForSilent(t *testing.T) {
	const sent, now = time.Second, 2 * time.Second
	for name, c := range map[string]struct {
		arrange func(s *Selector, nodes []*Node)
		want    bool
	}{
		"all tell something": {func(s *Selector, nodes []*Node) { s.Probes(nil, at(now)) }, false},
		"no copy":            {func(s *Selector, nodes []*Node) { s.Probes(nil, at(now)); refuse(nodes[4]) }, false},
		"nobody may search":  {func(s *Selector, nodes []*Node) { s.Probes(nil, at(now)); refuse(nodes...) }, true},
		"nobody probes":      {func(*Selector, []*Node) {}, true},
		"nobody does so now": {func(s *Selector, nodes []*Node) { s.Probes(nil, at(sent)) }, true},
	} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, 5, 3)
		first := decide(s, nodes, sent)
		first.Nodes, first.Coordinator = nodes[:4], nodes[4]
		s.Acquire(first, 1, at(sent))
		c.arrange(s, nodes)
		require.Equal(t, c.want, s.Worthwhile(first, decide(s, nodes, now), at(now)), name)
	}
}

// refuse has all probes of the nodes tell nothing, for long.
func refuse(nodes ...*Node) {
	for _, n := range nodes {
		n.probe.untoldAt.Store(1)
		n.probe.untoldLast.Store(2 + int64(roundLife))
		n.probe.unfit.Store(twice)
	}
}

// A second attempt that would wait in queues instead is none.
func TestASecondAttemptWaitsInNoLongQueue(t *testing.T) {
	for queue, want := range map[float64]bool{0: true, 5: true, 20: false} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, 5, 5)
		req := Request{Nodes: nodes, Shards: [][]int{{0, 1}, {1, 2}}}
		var first, second Decision
		s.Choose(&first, req, at(time.Second))
		first.Nodes = nodes[1:2]
		s.Acquire(&first, 1, at(time.Second))
		nodes[1].health.avoid.Store(1)
		nodes[1].probe.took.Set(100)
		set(&nodes[2].queue, queue)
		s.Probes(nil, at(1100*time.Millisecond))
		s.Choose(&second, req, at(1100*time.Millisecond))
		require.False(t, nodes[1].in(second.Nodes))
		require.Equal(t, want, s.Worthwhile(&first, &second, at(1100*time.Millisecond)), "%g shard queries of 5 ms wait", queue)
		s.ObservePoll(nodes[1].ID, Poll{State: Unreachable}, at(1100*time.Millisecond))
		require.True(t, s.Worthwhile(&first, &second, at(1100*time.Millisecond)), "what cannot be reached is no queue")
	}
}

// The best of two bad copies is worth a second attempt, if the first waits for a node that answers nothing.
func TestASecondAttemptLeavesANodeThatHangs(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	req := Request{Nodes: nodes, Shards: [][]int{{0, 1}, {1, 2}}}
	s.eject(nodes[0], Slow, s.since(at(time.Second)), "a test")
	nodes[0].probe.took.Set(300)
	var first, second Decision
	s.Choose(&first, req, at(1100*time.Millisecond))
	s.Acquire(&first, 1, at(1100*time.Millisecond))
	nodes[1].health.avoid.Store(1)
	nodes[1].probe.took.Set(millis(ProbeTimeout))
	s.Choose(&second, req, at(1200*time.Millisecond))
	require.True(t, nodes[0].in(second.Nodes))
	require.True(t, s.Worthwhile(&first, &second, at(1200*time.Millisecond)))
}
