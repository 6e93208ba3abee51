package selection

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Where searches wait in its queue, and for far less in those of others, these coordinate: what a node coordinates takes
// CPU from its shard queries.
func TestOthersCoordinateWhereSearchesWaitForACopy(t *testing.T) {
	for _, c := range []struct {
		queues []float64 // of four nodes, of which two have a copy; a search that is in it takes 10 ms
		want   []int
	}{
		{[]float64{0, 0, 0, 0}, []int{0, 1}},
		{[]float64{20, 20, 20, 20}, []int{0, 1}},
		{[]float64{20, 20, 0, 8}, []int{2}},
		{[]float64{50, 50, 0, 8}, []int{2, 3}},
		{[]float64{50, 0, 0, 0}, []int{1}},
		{[]float64{50, 50, 40, 20}, []int{0, 1}},
	} {
		s, nodes := withProcessors(t, 4)
		served(s, nodes, 100, 20*time.Millisecond, time.Second)
		for i, q := range c.queues {
			set(&nodes[i].queue, q)
		}
		got := map[int]bool{}
		for range 50 {
			d := choose(s, nodes, [][]int{{0, 1}}, at(time.Second))
			require.Len(t, d.Nodes, 1)
			got[slices.Index(nodes, d.Coordinator)] = true
		}
		require.Equal(t, c.want, slices.Sorted(maps.Keys(got)), "%v", c.queues)
	}
}

// Where the engine chooses among copies it is the shortest of their queues that counts. A node that something speaks against may
// look as if it had none. Where there is no other, those that are listed are left only for a better HTTP side.
func TestWhoCoordinatesWhereSearchesWaitForACopy(t *testing.T) {
	for name, c := range map[string]struct {
		queues []float64
		but    func(s *Selector, nodes []*Node)
		want   []int
	}{
		"a short queue":   {[]float64{50, 0, 0, 0}, nil, []int{0, 1}},
		"or the other":    {[]float64{0, 50, 0, 0}, nil, []int{0, 1}},
		"longer queues":   {[]float64{50, 2, 0, 0}, nil, []int{2, 3}},
		"all are long":    {[]float64{50, 50, 50, 50}, nil, []int{0, 1}},
		"HTTP":            {[]float64{50, 50, 50, 50}, func(_ *Selector, n []*Node) { set(&n[0].reach, 300); set(&n[1].reach, 300) }, []int{2, 3}},
		"leaving":         {[]float64{50, 50, 0, 50}, func(s *Selector, n []*Node) { s.Leave(n[2], at(time.Minute)) }, []int{0, 1}},
		"silent":          {[]float64{50, 50, 0, 50}, func(_ *Selector, n []*Node) { silence(n[2], at(time.Second-1)) }, []int{0, 1}},
		"slow start":      {[]float64{50, 50, 0, 50}, func(s *Selector, n []*Node) { s.slowStart(n[2], int64(time.Second)) }, []int{0, 1}},
		"unresponsive":    {[]float64{50, 50, 0, 50}, func(s *Selector, n []*Node) { missPoll(s, n[2], Unresponsive) }, []int{0, 1}},
		"polls that fail": {[]float64{50, 50, 0, 50}, func(s *Selector, n []*Node) { missPoll(s, n[2], Unknown) }, []int{0, 1}},
	} {
		s, nodes := withProcessors(t, 4)
		served(s, nodes, 100, 20*time.Millisecond, time.Second)
		for i, q := range c.queues {
			set(&nodes[i].queue, q)
		}
		if c.but != nil {
			c.but(s, nodes)
		}
		got, d := map[int]bool{}, &Decision{}
		for range 50 {
			s.Choose(d, Request{Nodes: nodes, Shards: [][]int{{0, 1}}, Outliers: true}, at(time.Second))
			require.Equal(t, NoOutlier, d.Reason, name)
			got[slices.Index(nodes, d.Coordinator)] = true
		}
		require.Equal(t, c.want, slices.Sorted(maps.Keys(got)), name)
	}
}

func missPoll(s *Selector, n *Node, state State) {
	s.ObservePoll(n.ID, Poll{State: state, Took: time.Millisecond}, at(time.Second))
}
