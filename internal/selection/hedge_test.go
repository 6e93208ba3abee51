package selection

import (
	"hash/maphash"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// spent returns how many second attempts h had, and takes them all.
func spent(h *Hedges) (made int) {
	for h.Spend() {
		made++
	}
	return made
}

func TestHedgesStayWithinTheirBudget(t *testing.T) {
	h, at := NewHedges(0.05), time.Unix(100, 0)
	searches := func(n int) {
		for range n {
			h.Delay("x", at)
		}
	}
	searches(1000)
	require.LessOrEqual(t, spent(h), 50, "one in twenty")
	searches(100)
	require.Equal(t, 5, spent(h))
	_, ok := NewHedges(0).Delay("x", at)
	require.False(t, ok)
}

func TestHedgesAreSavedUpForTenSeconds(t *testing.T) {
	h, at := NewHedges(0.05), time.Unix(100, 0)
	second := func(searches int) {
		at = at.Add(time.Second)
		for range searches {
			h.Delay("x", at)
		}
	}
	for range 600 {
		second(1)
	}
	require.InDelta(t, minSaved, spent(h), 1, "few searches: a few are saved up all the same")
	for range 60 {
		second(100)
	}
	require.InDelta(t, 50, spent(h), 5, "one in twenty of the thousand of the last ten seconds")
	at = at.Add(time.Hour)
	for range 10 {
		second(10)
	}
	require.LessOrEqual(t, spent(h), minSaved+1, "what was long ago does not count")
}

func TestStrandedIsWhatWasSentBeforeItsNodeWasFoundUnfit(t *testing.T) {
	const second = time.Second
	for _, unfit := range []func(*Selector, *Node){
		func(s *Selector, n *Node) { s.eject(n, Slow, int64(2*second), "test") },
		func(s *Selector, n *Node) { s.MarkUnreachable(n, "refused", epoch.Add(2*second)) },
	} {
		s, nodes := newTest(t, "adaptive", 3)
		var before, elsewhere, after Decision
		s.Choose(&before, Request{Nodes: nodes, Shards: [][]int{{0}}}, epoch.Add(second))
		s.Acquire(&before, epoch.Add(second))
		s.Choose(&elsewhere, Request{Nodes: nodes, Shards: [][]int{{1}}}, epoch.Add(second))
		s.Acquire(&elsewhere, epoch.Add(second))
		elsewhere.Coordinator = nodes[1]
		require.False(t, s.Stranded(&before))
		unfit(s, nodes[0])
		require.True(t, s.Stranded(&before))
		require.False(t, s.Stranded(&elsewhere), "it waits for another node")
		elsewhere.Coordinator = nodes[0]
		require.True(t, s.Stranded(&elsewhere), "it waits for its coordinating node")
		s.Choose(&after, Request{Nodes: nodes, Shards: [][]int{{0}}}, epoch.Add(3*second))
		s.Acquire(&after, epoch.Add(3*second))
		require.False(t, s.Stranded(&after), "that was known when it was sent")
	}
}

func TestOverdueIsWhatTakesLongerThanUsual(t *testing.T) {
	h := NewHedges(0.05)
	for i := range 20_000 {
		h.Observe("x", time.Duration(1+i%100)*time.Millisecond)
	}
	d, ok := h.Delay("x", time.Unix(0, 0))
	require.True(t, ok)
	p95 := float64(d-overdueSlack) / overdueFactor / float64(time.Millisecond)
	require.InDelta(t, 95, p95, 10)
	for h.kind("another").seen.Load() > 0 {
		h.seed = maphash.MakeSeed() // kinds are shared by chance
	}
	_, ok = h.Delay("another", time.Unix(0, 0))
	require.False(t, ok, "nothing is known of it")
}
