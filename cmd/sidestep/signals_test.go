package main

import (
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Nobody takes the signals yet: sidestep is being started.
func TestASignalToStopIsNotLostBehindOthers(t *testing.T) {
	reloads, stops := reloadSignals(), stopSignals()
	defer signal.Stop(reloads)
	defer signal.Stop(stops)
	for _, sent := range []syscall.Signal{syscall.SIGHUP, syscall.SIGHUP, syscall.SIGTERM} {
		require.NoError(t, syscall.Kill(syscall.Getpid(), sent))
	}
	require.Equal(t, syscall.SIGTERM, <-stops)
	require.Equal(t, syscall.SIGHUP, <-reloads)
}
