package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOverloadedWhenAllCopiesOfAShardReject(t *testing.T) {
	const second = time.Second
	full := func(s *Selector, at time.Duration, share float64, nodes ...*Node) time.Time {
		for _, n := range nodes {
			s.ObservePoll(n.ID, Poll{State: Fine, Rejected: share}, epoch.Add(at))
		}
		return epoch.Add(at + second/10)
	}
	s, nodes := newTest(t, 4)
	shards := [][]int{{0, 1}, {2, 3}}
	now := full(s, second, 0.5, nodes[0], nodes[2])
	require.NotEqual(t, Overloaded, choose(s, nodes, shards, now).Reason, "each shard has a copy that takes searches")
	require.NotEqual(t, Overloaded, choose(s, nodes, [][]int{{3}, {0}}, now).Reason, "there is nothing to choose")

	now = full(s, second, 0.5, nodes[3])
	d := choose(s, nodes, shards, now)
	require.Equal(t, Overloaded, d.Reason)
	require.False(t, d.Reason.Lists())
	require.Len(t, d.Nodes, 4, "the engine picks")
	require.Equal(t, Overloaded, choose(s, nodes, [][]int{{2, 3}}, now).Reason, "one shard")
	require.NotEqual(t, Overloaded, choose(s, nodes, [][]int{{0, 1}}, now).Reason, "another index")
	require.Equal(t, Overloaded, choose(s, nodes, shards, now.Add(9*second)).Reason, "no poll has told otherwise")

	s.ObservePoll(nodes[1].ID, Poll{State: Unreachable}, now)
	require.Equal(t, Overloaded, choose(s, nodes, [][]int{{0, 1}}, now).Reason, "one copy rejects, the other is gone")
	s.ObservePoll(nodes[0].ID, Poll{State: Unreachable}, now.Add(2*second))
	require.NotEqual(t, Overloaded, choose(s, nodes, [][]int{{0, 1}}, now.Add(2*second)).Reason, "gone is not full")

	for i := range 20 {
		now = full(s, time.Duration(4+i)*second, 0, nodes...)
	}
	require.NotEqual(t, Overloaded, choose(s, nodes, shards, now).Reason, "it is over")
}

func TestFewRejectionsAreABurst(t *testing.T) {
	s, nodes := newTest(t, 2)
	at := epoch
	for i := range 10 {
		at = at.Add(200 * time.Millisecond)
		for _, n := range nodes {
			s.ObservePoll(n.ID, Poll{State: Fine, Rejected: []float64{0.05, 0, 0, 0}[i%4]}, at)
		}
	}
	require.NotEqual(t, Overloaded, choose(s, nodes, [][]int{{0, 1}}, at).Reason)
}

// A full queue is the exception where all other nodes with copies take what is sent to them.
func TestThereIsRoomBesideAFullQueue(t *testing.T) {
	now := epoch.Add(time.Second)
	for name, c := range map[string]struct {
		arrange func(s *Selector, n *Node)
		sole    bool // the full node has the only copy of some shard
		want    bool
	}{
		"the others have room":     {want: true},
		"one rejects":              {arrange: func(s *Selector, n *Node) { s.ObservePoll(n.ID, Poll{State: Fine, Rejected: 0.5}, now) }},
		"the CPUs of one are busy": {arrange: func(_ *Selector, n *Node) { n.Processors = 1; n.used.Set(0.95) }},
		"one is avoided":           {arrange: func(_ *Selector, n *Node) { n.health.avoid.Store(1) }},
		"one is gone":              {arrange: func(s *Selector, n *Node) { s.ObservePoll(n.ID, Poll{State: Unreachable}, now) }},
		"a shard has one copy":     {sole: true},
		"the full one rejects":     {arrange: func(s *Selector, n *Node) { s.ObservePoll("a", Poll{State: Fine, Rejected: 0.5}, now) }, want: true},
	} {
		s, nodes := newTest(t, 3)
		if c.arrange != nil {
			c.arrange(s, nodes[2])
		}
		d := Decision{Nodes: nodes, listed: []*Candidate{{sole: c.sole}, {}, {}}}
		require.Equal(t, c.want, s.RoomBeside(nodes[:1], &d, now.Add(time.Millisecond)), name)
		require.False(t, s.RoomBeside(nodes, &d, now), "there is no other node")
	}
}
