package proxy

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/testkit"
)

// Pauses do not last longer when the system's clock is set back.
func TestPausesEndThoughTheClockIsSetBack(t *testing.T) {
	now := time.Now()
	later := testkit.SetBack(now.Add(2*time.Minute), time.Hour)
	h := start(t, 1, nil)
	h.proxy.suspend()
	require.True(t, h.proxy.suspended.holds(now))
	require.False(t, h.proxy.suspended.holds(later))

	var last atomic.Pointer[time.Time]
	require.True(t, isDue(now, &last, time.Minute))
	require.False(t, isDue(now.Add(time.Second), &last, time.Minute))
	require.True(t, isDue(later, &last, time.Minute))
}
