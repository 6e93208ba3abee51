package main

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/bootstrap"
	"sidestep/test/harness"
)

// turnsOf makes turns with such a p99 in ms, and half of it as p50.
func turnsOf(p99 ...float64) []turn {
	var turns []turn
	for _, v := range p99 {
		turns = append(turns, turn{p50: time.Duration(v / 2 * 1e6), p90: time.Duration(v * 1e6), p99: time.Duration(v * 1e6), perSecond: 1000 / v})
	}
	return turns
}

func TestAGainHoldsIfTheWholeIntervalDoes(t *testing.T) {
	for _, tc := range []struct {
		e           bootstrap.Estimate
		holds, open bool
	}{
		{bootstrap.Estimate{Value: 0.4, Low: 0.3, High: 0.5}, true, false},
		{bootstrap.Estimate{Value: 0.4, Low: 0.3, High: 0.51}, false, true},
		{bootstrap.Estimate{Value: 0.6, Low: 0.51, High: 0.7}, false, false},
		{bootstrap.Estimate{}, false, false}, // not measured
	} {
		v := atMost("p99", tc.e, 0.5)
		require.Equal(t, tc.holds, v.Holds, v.About)
		require.Equal(t, tc.open, v.Open, v.About)
	}
}

func TestJudge(t *testing.T) {
	o := &outcome{avoid: 1200 * time.Millisecond, tallies: []*tally{
		{load: loadEngine, turns: turnsOf(100, 110, 90, 100, 105)},
		{load: loadSidestep, turns: turnsOf(40, 45, 42, 41, 200)},
		{load: loadOracle, turns: turnsOf(30, 31, 32, 30, 31)},
		{load: loadControl, turns: turnsOf(95, 105, 98, 110, 100)},
	}}
	missed := func(a asks, c counted) []string {
		o.counted = map[string]counted{loadSidestep: c}
		return misses(judge(scenario{asks: a}, o, o.of(loadSidestep)))
	}
	require.Empty(t, missed(nothingWrong(), counted{}))
	require.Equal(t, []string{"p99"}, missed(nearOracle(), counted{}), "one bad turn of five: the interval reaches beyond the limit")
	require.Equal(t, []string{"p99"}, missed(asks{gain: 0.5}, counted{}))
	require.Empty(t, missed(asks{gain: 2.5}, counted{}))
	require.Empty(t, missed(asks{attempts: 1.1}, counted{attempts: 1.1}))
	require.Equal(t, []string{"attempts"}, missed(asks{attempts: 1.1}, counted{attempts: 1.11}))
	require.Equal(t, []string{"attempts"}, missed(asks{attempts: 1.1}, counted{}), "no search, no answer")
	require.Empty(t, missed(asks{noEjection: true}, counted{changes: 3}))
	require.Equal(t, []string{"ejected"}, missed(asks{noEjection: true}, counted{ejected: 1}))
	require.Equal(t, []string{"avoided"}, missed(asks{avoid: time.Second}, counted{}))
	require.Empty(t, missed(asks{avoid: 1200 * time.Millisecond}, counted{}))
	o.avoid = -1
	require.Equal(t, []string{"avoided"}, missed(asks{avoid: time.Minute}, counted{}), "never avoided")
	require.Equal(t, []string{"managers"}, missed(asks{noManager: true}, counted{}), "nothing was seen")
	o.of(loadSidestep).seen = make([]sample, 1)
	require.Empty(t, missed(asks{noManager: true}, counted{}))
	require.Equal(t, []string{"managers"}, missed(asks{noManager: true}, counted{through: 1}))
	require.Equal(t, []string{"managers"}, missed(asks{noManager: true}, counted{untold: 1}))
	for _, lost := range []loadgen.Result{{Failed: 1}, {Partial: 1}, {Failed: 1, Partial: 1}} {
		o.of(loadSidestep).result = lost
		require.Equal(t, []string{"lost"}, missed(asks{}, counted{}))
	}
}

func TestASecondTenantIsComparedWithItself(t *testing.T) {
	o := &outcome{counted: map[string]counted{loadSidestep: {ejected: 2}}, tallies: []*tally{
		{load: loadEngine, turns: turnsOf(10, 10)}, {load: loadEngine + ", heavy", turns: turnsOf(100, 100)},
		{load: loadSidestep, turns: turnsOf(10, 10)}, {load: loadSidestep + ", heavy", turns: turnsOf(200, 200)},
		{load: loadControl, turns: turnsOf(10, 10)}, {load: loadControl + ", heavy", turns: turnsOf(100, 100)},
	}}
	sc := scenario{second: heavy(), asks: nothingWrong()}
	require.Equal(t, []string{"ejected"}, misses(judge(sc, o, o.of(loadSidestep))))
	require.Equal(t, []string{"p50", "p99"}, misses(judge(sc, o, o.of(loadSidestep+", heavy"))))
}

func TestWhatIsNotInEveryTurnIsJudgedOverAll(t *testing.T) {
	slowOnce := []turn{{p99: 1e6, latencies: []float64{1, 1}}, {p99: 9e6, latencies: []float64{1, 9}}, {p99: 1e6, latencies: []float64{1, 1}}}
	calmTurns := []turn{{p99: 1e6, latencies: []float64{1, 1}}, {p99: 1e6, latencies: []float64{1, 1}}, {p99: 1e6, latencies: []float64{1, 1}}}
	base := &tally{turns: calmTurns}
	require.Equal(t, 1.0, (&tally{turns: slowOnce}).to(base, 0.99, p99).Value)
	require.Equal(t, 9.0, (&tally{turns: slowOnce, pooled: true}).to(base, 0.99, p99).Value)
}

func TestTurnsAreComparedOfRoundsThatBothHave(t *testing.T) {
	mine := &tally{turns: turnsOf(10, 90, 10, 90)}
	for i := range mine.turns {
		mine.turns[i].round = i + 1
	}
	base := &tally{turns: turnsOf(5, 5)}
	base.turns[0].round, base.turns[1].round = 1, 3
	require.Equal(t, bootstrap.Estimate{Value: 2, Low: 2, High: 2}, mine.to(base, 0.99, p99))
	require.Equal(t, 50.0, mine.p99(), "all rounds count for what stands alone")
	require.Equal(t, bootstrap.Estimate{Value: 0.5, Low: 0.5, High: 0.5}, mine.rate(base))
}

func TestLatencies(t *testing.T) {
	for _, milliseconds := range []int{5, 20, 150, 333, 500, 1000, 1400} {
		synctest.Test(t, func(t *testing.T) {
			var want []float64
			r, err := loadgen.Run(t.Context(), loadgen.Options{
				Targets: []string{"http://127.0.0.1:1"}, Connections: 1, Duration: time.Duration(milliseconds) * time.Millisecond,
				Transport: answers(func(*http.Request) (*http.Response, error) {
					took := time.Duration(1000+len(want)) * time.Microsecond
					want = append(want, harness.Milliseconds(took))
					time.Sleep(took)
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
				}),
			})
			require.NoError(t, err)
			all := latencies(r)
			require.Equal(t, want, all, "each once")
			for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
				require.Equal(t, harness.Milliseconds(r.Quantile(q)), bootstrap.Quantile(all, q), "%g of %d: what is compared is what is shown", q, len(all))
			}
		})
	}
}
