package app

import (
	"context"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const mib = 1 << 20

func TestGCPercent(t *testing.T) {
	const often, rarely = 50 * time.Millisecond, time.Second
	for name, c := range map[string]struct {
		usage    usage
		interval time.Duration
		want     int
	}{
		"nothing known":  {usage{}, often, 400},
		"tiny":           {usage{live: 1 * mib, rest: 4 * mib}, often, 400},
		"small":          {usage{live: 4 * mib, rest: 8 * mib, roots: 2 * mib}, often, 200}, // at 16 MiB
		"small, idle":    {usage{live: 4 * mib, rest: 8 * mib, roots: 2 * mib}, rarely, 35},
		"half the floor": {usage{live: 8 * mib, rest: 8 * mib}, often, 100},
		"most of it":     {usage{live: 12 * mib, rest: 8 * mib}, often, 35},
		"many stacks":    {usage{live: 4 * mib, rest: 30 * mib, roots: 20 * mib}, often, 35},
		"large":          {usage{live: 1000 * mib, rest: 8 * mib}, often, 35},
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
	percent := func() int {
		gogc := []runtimemetrics.Sample{{Name: "/gc/gogc:percent"}}
		runtimemetrics.Read(gogc)
		return int(gogc[0].Value.Uint64()) //nolint:gosec // it is small
	}
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	for _, key := range []string{"GOMEMLIMIT", "GOGC"} {
		t.Setenv(key, "100")
		LimitMemory(t.Context())
		require.Equal(t, 100, percent(), key)
		t.Setenv(key, "")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		LimitMemory(ctx)
	}()
	require.Eventually(t, func() bool { return percent() != 100 }, time.Minute, time.Millisecond)
	cancel()
	<-ended
}
