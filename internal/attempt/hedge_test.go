package attempt

import (
	"hash/maphash"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// spent returns how many second attempts h had, and takes them all.
func spent(h *Hedges) (made int) {
	for h.Spend() {
		made++
	}
	return made
}

// counted has h count n searches at a moment.
func counted(h *Hedges, at time.Time, n int) {
	for range n {
		h.Delay("x", at)
	}
}

func TestHedgesStayWithinTheirBudget(t *testing.T) {
	h, at := NewHedges(0.05), time.Unix(100, 0)
	counted(h, at, 1000)
	require.LessOrEqual(t, spent(h), 50, "one in twenty")
	counted(h, at, 100)
	require.Equal(t, 5, spent(h))
	_, _, ok := NewHedges(0).Delay("x", at)
	require.False(t, ok)
}

// Where second attempts lose, as the cluster is busy everywhere, few are made, and one now and then
// finds out that they win again.
func TestSecondAttemptsThatLoseCostMore(t *testing.T) {
	h, at := NewHedges(0.05), time.Unix(100, 0)
	made := func(won bool) (n int) {
		for h.Spend() {
			h.Ended(won)
			n++
		}
		require.False(t, h.Left())
		return n
	}
	counted(h, at, 1000)
	require.InDelta(t, 8, made(false), 2, "a fifth of what there may be")
	for range 10 {
		counted(h, at, minSaved*20)
		require.Equal(t, 1, made(false), "and one in some hundred searches later on")
	}
	counted(h, at, 1000)
	require.Greater(t, made(true), 25, "they win again")
	counted(h, at, 1000)
	require.InDelta(t, 50, made(true), 2)
}

func TestHedgesAreSavedUpForTenSeconds(t *testing.T) {
	h, at := NewHedges(0.05), time.Unix(100, 0)
	second := func(searches int) {
		at = at.Add(time.Second)
		counted(h, at, searches)
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
		h.Observe("x", time.Duration(1+37*i%100)*time.Millisecond)
	}
	late, overdue, ok := h.Delay("x", time.Unix(0, 0))
	require.True(t, ok)
	require.InDelta(t, 50, float64(late-lateSlack)/lateFactor/float64(time.Millisecond), 10, "the median")
	require.InDelta(t, 95, float64(overdue-overdueSlack)/overdueFactor/float64(time.Millisecond), 10, "the 95th percentile")
	for h.kind("another").seen.Load() > 0 {
		h.seed = maphash.MakeSeed() // kinds are shared by chance
	}
	_, _, ok = h.Delay("another", time.Unix(0, 0))
	require.False(t, ok, "nothing is known of it")
}

// A cold engine makes the first searches long, which is soon forgotten.
func TestTheFirstSearchesAreSoonForgotten(t *testing.T) {
	h := NewHedges(0.05)
	for _, took := range []time.Duration{time.Second, 10 * time.Millisecond} {
		for range minSeen {
			h.Observe("x", took)
		}
	}
	late, _, ok := h.Delay("x", time.Unix(0, 0))
	require.True(t, ok)
	require.Less(t, late, 100*time.Millisecond)
}

// Asking costs no second attempt, and stays within a budget of the same size.
func TestAskingStaysWithinABudgetOfItsOwn(t *testing.T) {
	h, at := NewHedges(0.05), time.Unix(100, 0)
	asked := 0
	asks := func() bool { return len(ToAsk(h, func() []string { return []string{"a", "b"} })) == 2 }
	for range 2000 {
		h.Delay("x", at)
		require.Empty(t, ToAsk(h, func() []string { return nil }), "where nobody is to be asked, that costs nothing")
		if asks() {
			asked++
		}
	}
	require.InDelta(t, 100, asked, 1, "one search in twenty")
	require.InDelta(t, 100, spent(h), 1, "the second attempts are all left")
	counted(h, at, 10_000)
	asked = 0
	for asks() {
		asked++
	}
	require.Equal(t, minSaved, asked, "few are saved up: one answer does for all searches of a moment")
}

// Second attempts are saved up for as long as ever when the system's clock is set back.
func TestTheClockIsSetBackWhileSecondAttemptsAreSaved(t *testing.T) {
	h, now := NewHedges(0.05), time.Now()
	for range 1000 {
		h.lately(now)
	}
	later := now.Add(3 * savingTime)
	*(*uint64)(unsafe.Pointer(&later)) -= 3600 << 30 //nolint:gosec // the seconds of the system's clock, see testkit.SetBack
	require.Equal(t, 3*savingTime, later.Sub(now))
	require.EqualValues(t, 1, h.lately(later))
}
