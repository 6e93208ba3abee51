package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// small returns the seed of a scenario that is soon played: few nodes and sidecars, and
// little to do. with is what else is asked of it.
func small(t *testing.T, with func(*Draw) bool) uint64 {
	t.Helper()
	for seed := uint64(1); seed < 10_000; seed++ {
		d := drawCluster(seed)
		if d.DataNodes > 6 || d.Sidecars > 3 {
			continue
		}
		if d = drawScenario(seed); d.Rate*d.Measured < 20_000 && with(d) {
			return seed
		}
	}
	require.FailNow(t, "no small scenario")
	return 0
}

func TestSweepRepeatsFromItsSeeds(t *testing.T) {
	seed := small(t, func(d *Draw) bool { return d.fault() == faultPauses })
	var lines, again, summary bytes.Buffer
	plot := filepath.Join(t.TempDir(), "sweep.svg")
	played, err := Sweep(t.Context(), SweepOptions{Only: seed, Lines: &lines, Out: &summary, Progress: io.Discard, Plot: plot})
	require.NoError(t, err)
	_, err = Sweep(t.Context(), SweepOptions{Only: seed, Lines: &again, Out: io.Discard, Progress: io.Discard, Workers: 1})
	require.NoError(t, err)
	require.Equal(t, lines.String(), again.String())
	require.Len(t, played, 1)

	var line map[string]any
	require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
	require.InDelta(t, float64(seed), line["seed"], 0)
	require.Equal(t, faultPauses, line["fault"])
	for _, figure := range []string{"p50", "p99", "failed", "attempts"} {
		require.Len(t, line[figure], 3, figure)
	}
	require.Contains(t, line, "ejected")
	require.Contains(t, line, "scenario")
	require.Equal(t, played[0].Attempts.Engine, played[0].Attempts.Oracle, "the same searches")
	require.Contains(t, summary.String(), "worst by p99")
	svg, err := os.ReadFile(plot)
	require.NoError(t, err)
	require.Contains(t, string(svg), "<svg")

	summary.Reset()
	require.NoError(t, Summarize(strings.NewReader(lines.String()+again.String()), SweepOptions{Out: &summary}))
	require.Regexp(t, `scenarios +2\n`, summary.String())
	require.Error(t, Summarize(strings.NewReader(""), SweepOptions{Out: io.Discard}))
}

func TestSweepInPiecesHasTheSameSeeds(t *testing.T) {
	whole := (&SweepOptions{N: 10, Seed: 3}).seeds()
	require.Equal(t, whole[4:], (&SweepOptions{N: 10, Seed: 3, Skip: 4}).seeds())
	require.NotEqual(t, whole, (&SweepOptions{N: 10, Seed: 4}).seeds())
	for _, o := range []SweepOptions{{}, {N: 1, Skip: 1}, {N: 1, Skip: -1}, {N: 1, Workers: -1}} {
		require.Error(t, o.Validate())
	}
}

func TestControlPlaysTheEngineTwice(t *testing.T) {
	seed := small(t, func(d *Draw) bool { return d.fault() == faultNone && d.Load < 0.5 })
	var out bytes.Buffer
	played, err := Sweep(t.Context(), SweepOptions{Only: seed, Control: true, Lines: io.Discard, Out: &out, Progress: io.Discard})
	require.NoError(t, err)
	require.Equal(t, played[0].Attempts.Engine, played[0].Attempts.Sidestep)
	require.InDelta(t, 1, played[0].toEngine(), 0.2)
	require.Contains(t, out.String(), "below 90 % load")
}

func TestSweepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Sweep(ctx, SweepOptions{N: 5, Seed: 1, Lines: io.Discard, Out: io.Discard, Progress: io.Discard})
	require.ErrorIs(t, err, context.Canceled)
}

// A client that has waited for too long gives up: its search failed, and taught nothing.
func TestClientsGiveUp(t *testing.T) {
	sc := base("hangs", "")
	sc.patience = 5 * time.Second
	sc.warmup, sc.length = time.Second, 20*time.Second
	sc.faults = []fault{{nodes: []int{2}, from: 2 * time.Second, to: forever, set: pausing}}
	m, n := run(t, sc, "ars", 1)
	require.Greater(t, n.Failed, 0.05)
	require.Zero(t, m.inFlight)
	require.InDelta(t, 5000, m.percentile(99), 1)
}

// A node that is restarted breaks what it coordinates; the data plane sends it again.
func TestRestartLosesNothing(t *testing.T) {
	sc := base("restart", "")
	sc.load = 0.7
	sc.warmup, sc.length = time.Second, 20*time.Second
	sc.faults = []fault{{nodes: []int{2}, from: 5 * time.Second, to: 10 * time.Second, set: missing, avoided: true}}
	_, engine := run(t, sc, "ars", 1)
	require.Positive(t, engine.Failed)
	_, ours := run(t, sc, own, 1)
	require.Zero(t, ours.Failed)
}
