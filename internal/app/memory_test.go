package app

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const mib = 1 << 20

func TestSoftLimit(t *testing.T) {
	for inUse, want := range map[usage]int64{
		{}:                                  96 * mib,
		{live: 60 * mib, rest: 4 * mib}:     96 * mib,
		{live: 70 * mib, rest: 10 * mib}:    120 * mib,
		{live: 1990 * mib, rest: 10 * mib}:  3000 * mib,
		{rest: 80 * mib, roots: 1000 * mib}: 120 * mib,
	} {
		require.Equal(t, want, softLimit(inUse), inUse)
	}
}

func TestGCPercent(t *testing.T) {
	const often, rarely = 50 * time.Millisecond, time.Second
	for name, c := range map[string]struct {
		usage    usage
		interval time.Duration
		want     int
	}{
		"nothing known":        {usage{}, often, 400},
		"tiny":                 {usage{live: 1 * mib, rest: 4 * mib}, often, 400},
		"small":                {usage{live: 4 * mib, rest: 8 * mib, roots: 2 * mib}, often, 200}, // at 16 MiB
		"small, idle":          {usage{live: 4 * mib, rest: 8 * mib, roots: 2 * mib}, rarely, 100},
		"half the floor":       {usage{live: 8 * mib, rest: 8 * mib}, often, 100},
		"more than half of it": {usage{live: 9 * mib, rest: 8 * mib}, often, 100},
		"many stacks":          {usage{live: 4 * mib, rest: 30 * mib, roots: 20 * mib}, often, 100},
		"large":                {usage{live: 1000 * mib, rest: 8 * mib}, often, 100},
	} {
		require.Equal(t, c.want, gcPercent(c.usage, c.interval), name)
	}
}

func TestUsageIsWhatIsLive(t *testing.T) {
	// Much more than other tests of the package leave behind, whenever that is collected.
	const much = 128 << 20
	kept := make([]byte, much)
	runtime.GC()
	u := readUsage()
	require.Greater(t, u.live, uint64(much))
	require.Positive(t, u.roots)
	require.Positive(t, u.rest)
	runtime.KeepAlive(kept)
	runtime.GC()
	require.Less(t, readUsage().live, uint64(much))
}

func TestCollectionsAreTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	collected := collections(ctx)
	<-collected // the present state
	for range 3 {
		require.Eventually(t, func() bool {
			runtime.GC()
			select {
			case <-collected:
				return true
			default:
				return false
			}
		}, time.Minute, time.Millisecond)
	}
}

func TestOperatorsKnowBetter(t *testing.T) {
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	t.Cleanup(func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
	for _, key := range []string{"GOMEMLIMIT", "GOGC"} {
		debug.SetMemoryLimit(math.MaxInt64)
		t.Setenv(key, "100")
		LimitMemory(t.Context())
		require.EqualValues(t, math.MaxInt64, debug.SetMemoryLimit(-1), key)
		require.Equal(t, 100, debug.SetGCPercent(100), key)
		t.Setenv(key, "")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		LimitMemory(ctx)
	}()
	require.Eventually(t, func() bool { return debug.SetMemoryLimit(-1) < math.MaxInt64 }, time.Minute, time.Millisecond)
	cancel()
	<-ended
}
