package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is shown of a decision is kept without an allocation.
func TestChoosingAllocatesNothing(t *testing.T) {
	s, nodes := newTest(t, 10)
	setTimes(nodes, 5, 3)
	var d Decision
	zero := func(r Request) {
		t.Helper()
		require.Zero(t, testing.AllocsPerRun(100, func() { s.Choose(&d, r, at(time.Second)) }))
	}
	req := Request{Nodes: nodes, Shards: ring(20, 3, 10), Outliers: true}
	zero(req)
	zero(Request{Nodes: nodes, Shards: [][]int{{0, 1, 2}}, Outliers: true})
	s.expectedUntil.Store(int64(time.Minute))
	zero(req)
	require.True(t, d.Expects())
	s.expectedUntil.Store(0)
	set(&nodes[1].response, 300)
	zero(req)
	suspect(s, nodes, time.Second/2, 1, late(300*time.Millisecond, nodes[2]))
	s.eject(nodes[3], Slow, int64(time.Second), "a test")
	s.slowStart(nodes[4], int64(time.Second))
	for _, n := range nodes {
		n.Processors = 1
		set(&n.rate, 0.1)
	}
	zero(req)
	require.Equal(t, Ranked, d.Reason)
	for _, n := range nodes {
		set(&n.rate, 0.4)
	}
	zero(req)
	require.Equal(t, Needed, d.candidates[3].Excluded)
	require.Zero(t, testing.AllocsPerRun(100, func() { s.SentThrough(nodes[0], at(time.Second)) }))
}

// Whether the cluster can do without its nodes is found out for all of them at once: an overdue search of a thousand
// suspects each of them.
func TestSuspectingManyNodesCostsNoMoreThanLookingAtEach(t *testing.T) {
	s, nodes := newTest(t, 1000)
	setTimes(nodes, 5, 3)
	for _, n := range nodes {
		n.Processors = 4
	}
	d, now := &Decision{Nodes: nodes}, time.Second
	perRun := testing.AllocsPerRun(10, func() {
		now += suspicionInterval
		s.Suspect(d, at(now))
	})
	require.Less(t, perRun, 20.0)
}
