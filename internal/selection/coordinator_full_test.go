package selection

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// coordinators returns which of four full nodes with these queues coordinate a search of a shard with copies on the first two.
// A search that is in a queue takes 10 ms.
func coordinators(t *testing.T, queues [4]float64, outliers bool, but func(*Selector, []*Node)) []int {
	t.Helper()
	s, nodes := withProcessors(t, 4)
	served(s, nodes, 100, 20*time.Millisecond, time.Second)
	for i, q := range queues {
		set(&nodes[i].queue, q)
	}
	if but != nil {
		but(s, nodes)
	}
	got, d := map[int]bool{}, &Decision{}
	for range 50 {
		s.Choose(d, Request{Nodes: nodes, Shards: [][]int{{0, 1}}, Outliers: outliers}, at(time.Second))
		require.Equal(t, outliers, d.Reason == NoOutlier)
		require.Equal(t, outliers, len(d.Nodes) > 1)
		got[slices.Index(nodes, d.Coordinator)] = true
	}
	return slices.Sorted(maps.Keys(got))
}

// Where searches wait in its queue, and for far less in those of others, these coordinate: what a node coordinates takes
// CPU from its shard queries.
func TestOthersCoordinateWhereSearchesWaitForACopy(t *testing.T) {
	for _, c := range []struct {
		queues [4]float64
		want   []int
	}{
		{[4]float64{0, 0, 0, 0}, []int{0, 1}},
		{[4]float64{20, 20, 20, 20}, []int{0, 1}},
		{[4]float64{20, 20, 0, 0}, []int{2, 3}},
		{[4]float64{20, 20, 0, 20}, []int{0, 1}},
		{[4]float64{50, 50, 0, 8}, []int{2, 3}},
		{[4]float64{50, 0, 0, 0}, []int{1}},
		{[4]float64{50, 50, 40, 20}, []int{0, 1}},
	} {
		require.Equal(t, c.want, coordinators(t, c.queues, false, nil), "%v", c.queues)
	}
}

// Where the engine chooses among copies it is the shortest of their queues that counts. A node that something speaks against may
// look as if it had none. Where there is no other, those that are listed are left only for a better HTTP side.
func TestCoordinatingWhereTheEngineChoosesACopyThatSearchesWaitFor(t *testing.T) {
	for name, c := range map[string]struct {
		queues [4]float64
		but    func(s *Selector, nodes []*Node)
		want   []int
	}{
		"a short queue":   {[4]float64{50, 0, 0, 0}, nil, []int{1}},
		"or the other":    {[4]float64{0, 50, 0, 0}, nil, []int{0}},
		"longer queues":   {[4]float64{50, 40, 0, 0}, nil, []int{2, 3}},
		"all are long":    {[4]float64{50, 50, 50, 50}, nil, []int{0, 1}},
		"HTTP":            {[4]float64{50, 50, 50, 50}, func(_ *Selector, n []*Node) { set(&n[0].reach, 1000); set(&n[1].reach, 1000) }, []int{2, 3}},
		"leaving":         {[4]float64{50, 50, 0, 50}, func(s *Selector, n []*Node) { s.Leave(n[2], at(time.Minute)) }, []int{0, 1}},
		"silent":          {[4]float64{50, 50, 0, 50}, func(_ *Selector, n []*Node) { silence(n[2], at(time.Second-1)) }, []int{0, 1}},
		"slow start":      {[4]float64{50, 50, 0, 50}, func(s *Selector, n []*Node) { s.slowStart(n[2], int64(time.Second)) }, []int{0, 1}},
		"unresponsive":    {[4]float64{50, 50, 0, 50}, func(s *Selector, n []*Node) { badPoll(s, n[2], Unresponsive) }, []int{0, 1}},
		"polls that fail": {[4]float64{50, 50, 0, 50}, func(s *Selector, n []*Node) { badPoll(s, n[2], Unknown) }, []int{0, 1}},
	} {
		require.Equal(t, c.want, coordinators(t, c.queues, true, c.but), name)
	}
}

// badPoll has a poll of the node end badly.
func badPoll(s *Selector, n *Node, state State) {
	s.ObservePoll(n.ID, Poll{State: state, Took: time.Millisecond}, at(time.Second))
}
