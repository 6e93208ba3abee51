package lab

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"
)

// own is the production policy that is held to account.
const own = ownPrefix + "adaptive"

// run plays a scenario with one policy.
func run(t *testing.T, sc Scenario, name string, seed uint64) (*measure, Numbers) {
	t.Helper()
	list, err := pick([]string{name})
	require.NoError(t, err)
	m := simulate(&sc, list[0], seed)
	return m, m.numbers()
}

func scenario(t *testing.T, name string) Scenario {
	t.Helper()
	list, err := choose([]string{name})
	require.NoError(t, err)
	return list[0]
}

// short makes a scenario with a fault last 20 s.
func short(sc Scenario) Scenario {
	sc.warmup, sc.length = 3*time.Second, 20*time.Second
	sc.faults = slices.Clone(sc.faults)
	for i := range sc.faults {
		sc.faults[i].from, sc.faults[i].to = 5*time.Second, 16*time.Second
	}
	return sc
}

func TestRunsRepeatExactly(t *testing.T) {
	sc := short(scenario(t, "pauses"))
	sc.sidecars = 3
	for _, name := range []string{"ars", "prequal", "peak_ewma", own} {
		a, _ := run(t, sc, name, 7)
		b, _ := run(t, sc, name, 7)
		require.Equal(t, a.load, b.load, name)
		require.True(t, a.latency.Equals(b.latency), name)
	}
	a, _ := run(t, sc, "ars", 7)
	b, _ := run(t, sc, "ars", 8)
	require.NotEqual(t, a.load, b.load)
}

// Every policy of an open loop meets the same searches, and each is accounted for.
func TestEverySearchIsAccountedFor(t *testing.T) {
	for _, name := range []string{"fails_fast_503", "flapping_3s"} {
		sc := short(scenario(t, name))
		sc.load = 0.2
		var searches int64
		for _, p := range policies() {
			m, _ := run(t, sc, p.name, 1)
			if searches == 0 {
				searches = m.latency.TotalCount() + m.failed
			}
			require.Equal(t, searches, m.latency.TotalCount()+m.failed, "%s, %s", name, p.name)
		}
	}
}

// 100 connections that never wait: searches in flight = rate × mean time.
func TestLittlesLawOfTheClosedLoop(t *testing.T) {
	sc := scenario(t, "blog_1_unloaded")
	sc.length = 60 * time.Second
	for _, name := range []string{"round_robin", "ars", own} {
		m, n := run(t, sc, name, 1)
		require.InEpsilon(t, 100, n.Throughput*m.latency.Mean()/1e6, 0.02, name)
	}
}

// The model brings Elastic's published throughputs, which were used to fit it, and about their p99, which was not. The
// formula is that of the engine of then, which OpenSearch has yet. Their p50 of 412 ms with a p90 of 5215 it does not
// bring.
func TestPublishedTable(t *testing.T) {
	sc := scenario(t, "blog_2_stressed")
	sc.length = 100 * time.Second
	_, off := run(t, sc, "round_robin", 1)
	_, ars := run(t, sc, "ars_opensearch", 1)
	require.InEpsilon(t, sc.published.off[0], off.Throughput, 0.05)
	require.InEpsilon(t, sc.published.ars[0], ars.Throughput, 0.05)
	require.InEpsilon(t, sc.published.off[3], off.P99, 0.15)
	require.InEpsilon(t, sc.published.ars[3], ars.P99, 0.2)
}

func TestOracleNeverTouchesABadNode(t *testing.T) {
	for _, name := range []string{"slow_10x", "pauses", "fails_fast_503"} {
		_, n := run(t, short(scenario(t, name)), oracleName, 1)
		require.Zero(t, n.BadShare, name)
		require.Zero(t, n.Failed, name)
	}
}

// The bound is that of the product: p99 within one and a half times the oracle's.
func TestSlowNodeIsKeptOut(t *testing.T) {
	sc := scenario(t, "slow_10x")
	list, err := pick([]string{own, oracleName})
	require.NoError(t, err)
	rows, err := play(t.Context(), &sc, list, 5, 0)
	require.NoError(t, err)
	ours, oracle := rows[0].Median, rows[1].Median
	require.LessOrEqual(t, ours.P99, 1.5*oracle.P99)
	require.LessOrEqual(t, ours.Avoid, 1000.0)
	require.LessOrEqual(t, ours.Return, 10000.0)
	require.Less(t, ours.BadShare, 0.03)
}

func TestManySidecarsDoNotOscillate(t *testing.T) {
	sc := scenario(t, "healthy_60_20_sidecars")
	sc.length = 40 * time.Second
	_, ours := run(t, sc, own, 1)
	_, turns := run(t, sc, "round_robin", 1)
	require.Less(t, ours.ShareVariation, 2*turns.ShareVariation)
	require.Less(t, ours.MaxShare, 1.2)
	require.Less(t, ours.P99, 1.3*turns.P99)
}

func TestNothingIsLostWhenANodeFails(t *testing.T) {
	for _, name := range []string{"fails_fast_429", "fails_fast_503"} {
		_, n := run(t, short(scenario(t, name)), own, 1)
		require.Zero(t, n.Failed, name)
	}
}

func TestRunWritesTablesAndPlots(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	var out, progress bytes.Buffer
	rows, err := Run(t.Context(), Options{
		Scenarios: []string{"blog_2_stressed", "slow_10x"}, Policies: []string{"ars", "adaptive+always"},
		Seeds: 2, Dir: dir, Out: &out, Progress: &progress,
	})
	require.NoError(t, err)
	require.Len(t, rows, 4)
	for _, r := range rows {
		require.Len(t, r.Runs, 2)
		require.LessOrEqual(t, r.Min.P99, r.Median.P99)
		require.LessOrEqual(t, r.Median.P99, r.Max.P99)
	}
	require.Contains(t, out.String(), "published, adaptive selection")
	require.Contains(t, out.String(), "sidestep/adaptive")
	require.Contains(t, progress.String(), "2/2 slow_10x: 4 runs")
	for file, lines := range map[string]int{"runs.csv": 1 + 8, "summary.csv": 1 + 12} {
		b, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		require.Equal(t, lines, strings.Count(string(b), "\n"))
	}
	for _, file := range []string{"slow_10x-percentiles.svg", "slow_10x-sidestep-adaptive+always-load.svg"} {
		b, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		require.Contains(t, string(b), "<svg")
	}
}

func TestUnknownNamesAreRefused(t *testing.T) {
	for _, o := range []Options{
		{Scenarios: []string{"nope"}, Seeds: 1},
		{Policies: []string{"nope"}, Seeds: 1},
		{Seeds: 0},
		{Seeds: 1, PollInterval: -1},
	} {
		require.Error(t, o.Validate())
		_, err := Run(t.Context(), o)
		require.Error(t, err)
	}
	require.NoError(t, PrintList(io.Discard))
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, Options{Scenarios: []string{"slow_10x"}, Seeds: 1, Out: io.Discard, Progress: io.Discard})
	require.ErrorIs(t, err, context.Canceled)
}

// Who fails answers nobody: a policy must not look fast for failing.
func TestFailedSearchesAreSlowerThanAll(t *testing.T) {
	sc := short(scenario(t, "fails_fast_503"))
	_, engine := run(t, sc, "ars", 1)
	require.Greater(t, engine.Failed, 0.05)
	require.True(t, math.IsInf(engine.P99, 1))
	require.Equal(t, "∞", ms(engine.P99))
	require.Less(t, engine.P50, 1000.0)
	_, ours := run(t, sc, own, 1)
	require.Zero(t, ours.Failed)
	require.Less(t, ours.P99, 1000.0)

	h := hdrhistogram.New(1, 1000, 3)
	for us := range int64(90) {
		require.NoError(t, h.RecordValue(us+1))
	}
	require.InDelta(t, 0.050, percentile(h, 10, 50), 1e-9)
	require.InDelta(t, 0.090, percentile(h, 10, 90), 1e-9)
	require.True(t, math.IsInf(percentile(h, 10, 91), 1))
}

// While one node's transport is slow and another stands still again and again, all
// searches wait for either; no other node is ejected, and the slow one stays out. The other one may be
// merely avoided: as soon as it goes on it works off a queue.
func TestOfTwoInTroubleNoOtherIsBlamed(t *testing.T) {
	sc := scenario(t, "pauses_beside")
	for seed := range uint64(5) {
		m, _ := run(t, sc, own, seed+1)
		require.Equal(t, 1, m.blamed["node-2"])
		delete(m.blamed, "node-2")
		delete(m.blamed, "node-3")
		require.Empty(t, m.blamed)
		require.Less(t, m.numbers().P99, 600.0, "the engine takes 700 ms")
	}
}
