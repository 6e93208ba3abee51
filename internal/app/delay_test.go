package app

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// Requests on open connections are still answered when there is no delay: only a stop that skips it does without.
func TestADelayOfNothingIsNotSkipped(t *testing.T) {
	d := delay{ended: make(chan struct{})}
	require.True(t, d.wait(t.Context(), 0))
	require.False(t, d.skip(), "it has passed")

	skipped := delay{ended: make(chan struct{})}
	require.True(t, skipped.skip())
	require.False(t, skipped.wait(t.Context(), 0))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := delay{ended: make(chan struct{})}
	require.False(t, ended.wait(ctx, 0))
}
