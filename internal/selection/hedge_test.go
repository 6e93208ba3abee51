package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHedgesStayWithinTheirBudget(t *testing.T) {
	h := NewHedges(0.05)
	for range 1000 {
		h.Delay("x")
	}
	made := 0
	for h.Spend() {
		made++
	}
	require.LessOrEqual(t, made, burst, "saved up to a burst")
	require.Positive(t, made)
	for range 100 {
		h.Delay("x")
	}
	made = 0
	for h.Spend() {
		made++
	}
	require.Equal(t, 5, made, "one in twenty")
	_, ok := NewHedges(0).Delay("x")
	require.False(t, ok)
}

func TestOverdueIsWhatTakesLongerThanUsual(t *testing.T) {
	h := NewHedges(0.05)
	for i := range 20_000 {
		h.Observe("x", time.Duration(1+i%100)*time.Millisecond)
	}
	d, ok := h.Delay("x")
	require.True(t, ok)
	p95 := float64(d-overdueSlack) / overdueFactor / float64(time.Millisecond)
	require.InDelta(t, 95, p95, 10)
	_, ok = h.Delay("another target")
	require.False(t, ok, "nothing is known of it")
}
