package app

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOneProcessorWhileLittleIsToBeDone(t *testing.T) {
	var p processors
	calm := func(n int) (changed bool) {
		for range n {
			changed = p.observe(0.1, false) || changed
		}
		return changed
	}
	require.False(t, calm(calmReadings-1))
	require.False(t, p.one, "a moment is too short")
	require.True(t, p.observe(0.1, false))
	require.True(t, p.one)

	require.False(t, p.observe(0.6, false), "neither calm nor busy: nothing changes")
	require.True(t, p.one)
	require.True(t, p.observe(0.7, false), "busy once is enough")
	require.False(t, p.one)

	require.False(t, calm(calmReadings-1))
	require.False(t, p.observe(0.6, false))
	require.False(t, calm(calmReadings-1), "calm begins anew")
	require.True(t, calm(1))

	require.True(t, p.observe(0.1, true), "something had to wait")
	require.False(t, p.one)
	require.False(t, calm(calmReadings-1))
}

func TestProcessorsFollowWhatIsUsed(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	runtime.GOMAXPROCS(2)
	defer runtime.SetDefaultGOMAXPROCS()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); LimitProcessors(ctx) }()
	require.Eventually(t, func() bool { return runtime.GOMAXPROCS(0) == 1 }, time.Minute, processorInterval,
		"a process at rest stays on one")
	cancel()
	<-ended
	many := runtime.GOMAXPROCS(0)
	runtime.SetDefaultGOMAXPROCS()
	require.Equal(t, runtime.GOMAXPROCS(0), many, "what the runtime takes by default comes back at the end")
}

func TestWaitsForAProcessorAreCounted(t *testing.T) {
	runtime.GOMAXPROCS(1)
	defer runtime.SetDefaultGOMAXPROCS()
	var stop atomic.Bool
	defer stop.Store(true)
	w := newWaits()
	w.long()
	for range 4 { // each has to wait for three others, which the scheduler interrupts after 10 ms
		go func() {
			for !stop.Load() { // it only computes
			}
		}()
	}
	require.Eventually(t, func() bool { return w.long() }, time.Minute, processorInterval)
}

func TestTheOperatorsProcessorsAreLeftAlone(t *testing.T) {
	t.Setenv("GOMAXPROCS", "3")
	LimitProcessors(t.Context()) // returns
}
