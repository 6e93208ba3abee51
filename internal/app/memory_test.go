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

func TestSoftLimit(t *testing.T) {
	const mib = 1 << 20
	require.EqualValues(t, 96*mib, softLimit(0))
	require.EqualValues(t, 96*mib, softLimit(64*mib))
	require.EqualValues(t, 120*mib, softLimit(80*mib))
	require.EqualValues(t, 3000*mib, softLimit(2000*mib))
}

func TestInUseIsWhatIsLive(t *testing.T) {
	// Much more than other tests of the package leave behind, whenever that is collected.
	const much = 128 << 20
	kept := make([]byte, much)
	runtime.GC()
	require.Greater(t, inUse(), uint64(much))
	runtime.KeepAlive(kept)
	runtime.GC()
	require.Less(t, inUse(), uint64(much))
}

func TestOperatorsKnowBetter(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for _, key := range []string{"GOMEMLIMIT", "GOGC"} {
		debug.SetMemoryLimit(math.MaxInt64)
		t.Setenv(key, "100")
		LimitMemory(t.Context())
		require.EqualValues(t, math.MaxInt64, debug.SetMemoryLimit(-1), key)
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
