package app

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOneProcessorWhileLittleIsToBeDone(t *testing.T) {
	var p processors
	calm := func(n int) (changed bool) {
		for range n {
			changed = p.observe(0.1) || changed
		}
		return changed
	}
	require.False(t, calm(calmReadings-1))
	require.False(t, p.one, "a moment is too short")
	require.True(t, p.observe(0.1))
	require.True(t, p.one)

	require.False(t, p.observe(0.6), "neither calm nor busy: nothing changes")
	require.True(t, p.one)
	require.True(t, p.observe(0.7), "busy once is enough")
	require.False(t, p.one)

	require.False(t, calm(calmReadings-1))
	require.False(t, p.observe(0.6))
	require.False(t, calm(calmReadings-1), "calm begins anew")
	require.True(t, calm(1))
}

func TestProcessorsFollowWhatIsUsed(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		runtime.GOMAXPROCS(2)
		defer runtime.SetDefaultGOMAXPROCS()
	}
	many := runtime.GOMAXPROCS(0)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); LimitProcessors(ctx) }()
	require.Eventually(t, func() bool { return runtime.GOMAXPROCS(0) == 1 }, time.Minute, processorInterval,
		"a process at rest stays on one")

	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	require.Eventually(t, func() bool { return runtime.GOMAXPROCS(0) == many }, time.Minute, processorInterval,
		"a process that works gets all")
	cancel()
	<-ended
	require.Equal(t, many, runtime.GOMAXPROCS(0))
}

func TestTheOperatorsProcessorsAreLeftAlone(t *testing.T) {
	t.Setenv("GOMAXPROCS", "3")
	LimitProcessors(t.Context()) // returns
}
