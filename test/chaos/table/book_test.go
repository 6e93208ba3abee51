package main

import (
	"encoding/csv"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
	"sidestep/test/machine"
)

// testOutcome is a scenario's outcome without a cluster.
func testOutcome(t *testing.T) *outcome {
	t.Helper()
	load := func(d time.Duration, fails bool) loadgen.Result {
		r, err := loadgen.Run(t.Context(), loadgen.Options{
			Targets: []string{"http://127.0.0.1:1"}, Rate: 100, Duration: 50 * time.Millisecond,
			Transport: answers(func(*http.Request) (*http.Response, error) {
				time.Sleep(d)
				if fails {
					return nil, errors.New("no `route`\nat all")
				}
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			}),
		})
		require.NoError(t, err)
		return *r
	}
	zero := time.Unix(1000, 0)
	nodes := []string{"node-1", "bad"}
	o := &outcome{
		bad: []string{"bad"}, badIDs: []string{"b"}, avoid: 300 * time.Millisecond, back: -1,
		began: zero, repaired: zero.Add(time.Minute), nodes: 5,
		counted: map[string]counted{loadSidestep: {attempts: 1.05, ejected: 1, changes: 2}}, changes: map[string][]string{"sidestep": {"bad slow", "bad fine"}},
		tallies: []*tally{
			{load: loadEngine, result: load(100*time.Millisecond, true), queries: counts{"a": 50, "b": 50}},
			{load: loadSidestep, result: load(20*time.Millisecond, false), queries: counts{"a": 90, "b": 10}, usage: machine.Usage{All: 200, Busy: 150, Own: 100}},
			{load: loadOracle, result: load(10*time.Millisecond, false), queries: counts{"a": 100}},
			{load: loadSidestep + ", onset", result: load(10*time.Millisecond, false), blind: true},
			{load: loadSidestep + ", return", result: load(10*time.Millisecond, false), blind: true},
		},
	}
	for _, one := range o.tallies[:3] {
		p99 := one.result.Quantile(0.99)
		one.turns = []turn{{p50: p99, p90: p99, p99: p99 + time.Millisecond, perSecond: 80}, {p50: p99, p90: p99, p99: p99 - time.Millisecond, perSecond: 78}}
	}
	o.tallies[1].keepSlowest([]sample{{
		due: zero, at: zero.Add(time.Millisecond), latency: 1500 * time.Millisecond, status: 200, answered: true,
		decision: "mode=route; nodes=bad", nodes: []string{"bad"},
	}}, 2, zero.Add(-3*time.Second))
	o.onset = newShares(seen(zero, -time.Second, 5, 5, 0), span{zero, -time.Second, 2 * time.Second}, nodes, false)
	o.recovery = newShares(seen(zero, -time.Second, 0, 0, 5), span{zero, -time.Second, 2 * time.Second}, nodes, false)
	return o
}

func TestBook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		choose := func(name string) scenario {
			list, err := chooseScenarios(name)
			require.NoError(t, err)
			return list[0]
		}
		b := &book{
			options: options{Measured: harness.Measured{Engine: "opensearch", Out: dir}, trace: filepath.Join(dir, "trace")},
			origin: record{
				"date": "2026-01-02 03:04", "engine": "opensearch 3.6.0", "sidestep": "1.2.3", "machine": "a machine", "command": "bin/chaos",
			},
		}
		o := testOutcome(t)
		require.NoError(t, b.add(choose("transport"), o))
		control := *o.tallies[0]
		control.load = loadControl
		require.NoError(t, b.add(choose("healthy"), &outcome{tallies: append(o.tallies[:3:3], &control)}))
		require.NoError(t, b.add(choose("transport"), o), "measured again")
		require.Len(t, b.records, 9)
		require.Equal(t, "healthy", b.records[0]["scenario"])

		text := b.text()
		require.Contains(t, text, "transport latency 300 ± 50 ms")
		require.Contains(t, text, "first error of transport, engine: GET 127.0.0.1:1: no `route` at all")

		require.Contains(t, text, "sidestep passes in 1 of 2 scenarios; not in transport (p99)\n")
		require.Contains(t, text, "healthy, sidestep: held: 0 searches failed or partial, none asked; "+
			"held: p50 to the engine's 0.20 [0.20, 0.20], at most 1.05 or within the control's 1.00 [1.00, 1.00]; held: p99 to the engine's 0.20 [0.19, 0.21], at most ")
		require.Contains(t, text, "transport, sidestep: held: 0 searches failed or partial, none asked; missed: p99 to the oracle's 2.00 [1.91, 2.11], at most 1.5\n")

		told, err := os.ReadFile(filepath.Join(dir, "trace", "chaos-opensearch-slowest.txt"))
		require.NoError(t, err)
		require.Contains(t, string(told), "== transport: transport latency 300 ± 50 ms; degraded: bad, from "+
			time.Unix(1000, 0).Format(clock)+" to "+time.Unix(1060, 0).Format(clock)+"\n\nsidestep: p99 20.0 ms of 5\n")
		require.Contains(t, string(told), "\n\nsidestep about the nodes:\n  bad slow\n  bad fine\n")
		require.Regexp(t, `\n  2 +3\.000 +1500\.0 +1\.0 +200 +listed +\S+ +mode=route; nodes=bad\n`, string(told))

		page, err := os.ReadFile(filepath.Join(dir, "chaos-opensearch.md"))
		require.NoError(t, err)
		require.Contains(t, string(page),
			"| transport latency 300 ± 50 ms | engine | 5 | 100.0 | 100.0 | 100.0 | 100.0 | 100.0 | 5 | 0 | 0.0 | 10.00 [9.18, 10.99] |  |  | 0.500 | 2.50 |  |  |  |  |  |\n"+
				"|  | **sidestep** | 5 | 20.0 | 20.0 | 20.0 | 20.0 | 20.0 | 0 | 0 | 83.3 | 2.00 [1.91, 2.11] | 0.20 [0.19, 0.21] | no: p99 | 0.100 | 4.50 |  |  | 1.050 | 1 | 0.25 |\n")
		require.Contains(t, string(page), "\n\n- sidestep passes in 1 of 2 scenarios")
		require.Contains(t, string(page), "![transport latency 300 ± 50 ms](chaos-opensearch-transport.svg)")
		require.Contains(t, string(page), "- 2026-01-02 03:04: opensearch 3.6.0, sidestep 1.2.3, a machine, `bin/chaos`: healthy, transport\n")
		require.Len(t, strings.Split(firstRow(string(page)), "|"), len(head())+2)

		drawing, err := os.ReadFile(filepath.Join(dir, "chaos-opensearch-transport.svg"))
		require.NoError(t, err)
		require.Contains(t, string(drawing), "bad (degraded)")

		table, err := os.ReadFile(filepath.Join(dir, "chaos-opensearch.csv"))
		require.NoError(t, err)
		require.Len(t, strings.Split(strings.TrimSpace(string(table)), "\n"), 10)
		require.Contains(t, string(table), `"sidestep, onset",5,10.0`)
	})
}

// firstRow returns the table's line of columns.
func firstRow(page string) string {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "|") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

func TestOpenBookOfAnOlderForm(t *testing.T) {
	o := options{Measured: harness.Measured{Engine: "opensearch", Out: t.TempDir(), Sidestep: "true"}}
	b, err := openBook(t.Context(), o)
	require.NoError(t, err)
	require.Empty(t, b.records)

	file, err := os.Create(b.path(".csv"))
	require.NoError(t, err)
	require.NoError(t, csv.NewWriter(file).WriteAll([][]string{
		{"scenario", "load", "p99_ms"}, {"healthy", "sidestep", "9.1"}, {"healthy", "sidestep, onset", "8.8"},
	}))
	require.NoError(t, file.Close())
	b, err = openBook(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, []record{
		{"scenario": "healthy", "load": "sidestep", "p99_ms": "9.1"}, {"scenario": "healthy", "load": "sidestep, onset", "p99_ms": "8.8"},
	}, b.records)
	require.Equal(t, []string{"sidestep passes in 0 of 0 scenarios"}, verdict(b.records))
}

func TestVerdict(t *testing.T) {
	require.Equal(t, []string{
		"sidestep passes in 2 of 5 scenarios; not in cpu (p99, lost at onset), kill (lost at return), tenants, heavy (p99)",
		"always passes in 1 of 1 scenarios",
	}, verdict([]record{
		{"scenario": "healthy", "load": "engine", "passes": "no: p99"},
		{"scenario": "healthy", "load": "sidestep", "passes": "yes"},
		{"scenario": "healthy", "load": "always", "passes": "yes"},
		{"scenario": "cpu", "load": "sidestep", "passes": "no: p99"},
		{"scenario": "cpu", "load": "sidestep, onset", "passes": "no: lost"},
		{"scenario": "cpu", "load": "sidestep, return"},
		{"scenario": "kill", "load": "sidestep", "passes": "yes"},
		{"scenario": "kill", "load": "control", "passes": "no: p99"},
		{"scenario": "kill", "load": "sidestep, return", "passes": "no: lost"},
		{"scenario": "tenants", "load": "sidestep", "passes": "yes"},
		{"scenario": "tenants", "load": "sidestep, heavy", "passes": "no: p99"},
	}))
}
