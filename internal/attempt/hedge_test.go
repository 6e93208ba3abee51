package attempt

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
