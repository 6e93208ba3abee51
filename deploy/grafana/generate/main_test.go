package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDashboardIsWritten keeps the JSON equal to what is generated.
func TestDashboardIsWritten(t *testing.T) {
	written, err := os.ReadFile("../sidestep.json")
	require.NoError(t, err)
	var now bytes.Buffer
	require.NoError(t, write(&now))
	require.Equal(t, now.String(), string(written), "write it with: make dashboard")
}

// TestPanelsGoByWhatAlertsGoBy keeps what the panels select equal to what the recorded rules do.
func TestPanelsGoByWhatAlertsGoBy(t *testing.T) {
	rules, err := os.ReadFile("../../prometheus/recording.yml")
	require.NoError(t, err)
	for _, selected := range []string{steerable, failingOpen, failedOutcomes} {
		require.Contains(t, string(rules), "{"+selected+"}")
	}
}
