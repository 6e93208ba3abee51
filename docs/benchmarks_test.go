package docs_test

import (
	"encoding/csv"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// degradedRows are the scenarios of the rows of the tables of degraded nodes.
var degradedRows = []string{
	"transport", "http", "both", "cpu", "pauses", "flapping", "blackhole", "refused", "rejects", "kill", "two", "three", "rolling", "announced", "closed-cpu",
}

// wellRows are the scenarios, tenants and figures of the rows of the tables of nodes of which none is degraded.
var wellRows = []struct{ scenario, tenant, figure, ratio string }{
	{"healthy", "", "p99_ms", "p99_to_engine"},
	{"healthy", "", "p50_ms", "p50_to_engine"},
	{"closed", "", "p99_ms", "p99_to_engine"},
	{"closed", "", "searches_per_s", "searches_to_engine"},
	{"tenants", "", "p99_ms", "p99_to_engine"},
	{"tenants", ", heavy", "p99_ms", "p99_to_engine"},
	{"statistics", "", "p99_ms", "p99_to_engine"},
	{"managers", "", "p99_ms", "p99_to_engine"},
	{"managers", "", "searches_per_s", "searches_to_engine"},
	{"collections", "", "p99_ms", "p99_to_engine"},
}

// bestFixed finds the name of the best fixed way in a sentence of the results of full clusters.
var bestFixed = regexp.MustCompile(`\(off, ([^)]+)\)`)

// TestHealthyClustersOfBenchmarks holds the tables "Healthy clusters" of docs/benchmarks.md against the measurements.
func TestHealthyClustersOfBenchmarks(t *testing.T) {
	var full, half [][]string
	for _, engine := range []string{"OpenSearch", "Elasticsearch"} {
		results := strings.Split(read(t, "test/bench/results/full-"+strings.ToLower(engine)+".md"), "\n## ")[1:]
		require.Len(t, results, 4, engine)
		for i, section := range results {
			where := engine + [2]string{", cores shared by all", ", a third of a core each"}[i%2]
			ways := map[string][]string{}
			for _, row := range rows(t, section, "| way |") {
				ways[row[0]] = row
			}
			ours := ways["sidestep"]
			if i < 2 {
				best := bestFixed.FindStringSubmatch(section)
				require.NotNil(t, best, section)
				full = append(full, []string{where, strings.Replace(best[1], "_local", "`_local`", 1), ours[2], ours[6]})
				continue
			}
			ten, control := ways["ten sidesteps"], ways["control: off, round robin"]
			half = append(half, []string{where, ours[4], ours[6], ten[4], ten[6], control[4], control[6]})
		}
	}
	text := read(t, "docs/benchmarks.md")
	require.Equal(t, full, rows(t, text, "| full, 40 connections"))
	require.Equal(t, half, rows(t, text, "| half full |"))
}

// TestDegradedNodesOfBenchmarks holds the tables "Degraded nodes" of docs/benchmarks.md against the measurements.
func TestDegradedNodesOfBenchmarks(t *testing.T) {
	_, text, _ := strings.Cut(read(t, "docs/benchmarks.md"), "\n## Degraded nodes\n")
	openSearch, elasticsearch, _ := strings.Cut(text, "The same on Elasticsearch")
	for engine, part := range map[string]string{"opensearch": openSearch, "elasticsearch": elasticsearch} {
		results := "test/bench/results/chaos-" + engine + ".csv"
		measured := chaos(t, results)
		shown := rows(t, part, "| | engine | sidestep | oracle | sidestep / oracle |")
		require.Len(t, shown, len(degradedRows))
		for i, scenario := range degradedRows {
			ways, row := measured[scenario], shown[i]
			holds, _, _ := strings.Cut(ways["sidestep"]["passes"], ":")
			want := []string{row[0], ways["engine"].p99(t, row[1]), ways["sidestep"].p99(t, row[2]), ways["oracle"].p99(t, row[3]), ways["sidestep"]["p99_to_oracle"]}
			if engine == "opensearch" {
				want = append(want, ways["sidestep, onset"]["avoid_s"])
			}
			require.Equal(t, append(want, holds), row, "%s of %s has other figures", scenario, results)
		}
		shown = rows(t, part, "| nothing wrong |")
		require.Len(t, shown, len(wellRows))
		for i, r := range wellRows {
			digits := 0
			if r.figure == "p50_ms" {
				digits = 1
			}
			want := []string{shown[i][0]}
			for j, way := range []string{"engine", "sidestep", "control"} {
				want = append(want, rounded(shown[i][1+j], number(t, measured[r.scenario][way+r.tenant][r.figure]), digits))
			}
			want = append(want, measured[r.scenario]["sidestep"+r.tenant][r.ratio], measured[r.scenario]["control"+r.tenant][r.ratio])
			require.Equal(t, want, shown[i], "%s of %s has other figures", r.scenario, results)
		}
	}
}

// figures are those of a way to send in one scenario, by column.
type figures map[string]string

// p99 is how a cell of the tables shows it.
func (f figures) p99(t *testing.T, cell string) string {
	t.Helper()
	cell, _, _ = strings.Cut(cell, ",")
	shown := rounded(cell, number(t, f["p99_ms"]), 0)
	if failed := number(t, f["failed"]); failed > 0 {
		shown += fmt.Sprintf(", %.0f %% failed", 100*failed/number(t, f["sent"]))
	}
	return shown
}

// rounded is how a cell shows a figure. In the middle of two numbers it may be either.
func rounded(cell string, figure float64, digits int) string {
	if shown, err := strconv.ParseFloat(cell, 64); err == nil && math.Abs(shown-figure) <= 0.5001*math.Pow10(-digits) {
		return cell
	}
	return fmt.Sprintf("%.*f", digits, figure)
}

// chaos returns what was measured, by scenario and way.
func chaos(t *testing.T, results string) map[string]map[string]figures {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(read(t, results))).ReadAll()
	require.NoError(t, err)
	measured := map[string]map[string]figures{}
	for _, line := range lines[1:] {
		f := figures{}
		for i, column := range lines[0] {
			f[column] = line[i]
		}
		if measured[f["scenario"]] == nil {
			measured[f["scenario"]] = map[string]figures{}
		}
		measured[f["scenario"]][f["load"]] = f
	}
	return measured
}

// policyRows are the scenarios of the rows of the table "Policies".
var policyRows = []string{
	"healthy_80", "slow_10x", "slow_10x_60", "slow_10x_20_sidecars", "transport_300ms", "pauses_beside", "pauses", "fails_fast_429", "fails_fast_503",
	"cold_node", "bimodal_2s", "slow_3x_80", "blog_2_stressed", "one_shard_3_copies", "nodes_1000",
}

// TestPoliciesOfBenchmarks holds the table "Policies" of docs/benchmarks.md against the lab's.
func TestPoliciesOfBenchmarks(t *testing.T) {
	const results = "test/bench/results/lab.txt"
	played := lab(read(t, results))
	shown := rows(t, read(t, "docs/benchmarks.md"), "| | engine | sidestep | `when: always` |")
	require.Len(t, shown, len(policyRows))
	for i, scenario := range policyRows {
		want := []string{shown[i][0]}
		for j, policy := range []string{"ars", "sidestep/adaptive", "sidestep/adaptive+always", "oracle"} {
			of := played[scenario][policy]
			require.NotEmpty(t, of, "%s: %s has no %s", results, scenario, policy)
			if of["p99"] == "∞" {
				want = append(want, fmt.Sprintf("%.0f %% failed", number(t, of["failed"])))
				continue
			}
			want = append(want, rounded(shown[i][1+j], number(t, of["p99"]), 0))
		}
		require.Equal(t, want, shown[i], "%s of %s has other figures", scenario, results)
	}
}

// lab returns what the lab's tables say, by scenario and policy.
func lab(text string) map[string]map[string]figures {
	played := map[string]map[string]figures{}
	for _, block := range strings.Split(text, "\n\n") {
		scenario, table, _ := strings.Cut(strings.TrimSpace(block), ": ")
		var columns []string
		for line := range strings.Lines(table) {
			// Ranges in parentheses are left out.
			cells := strings.Split(columnGap.ReplaceAllString(strings.TrimSpace(rangeOf.ReplaceAllString(line, "")), "\t"), "\t")
			switch {
			case cells[0] == "policy":
				columns, played[scenario] = cells, map[string]figures{}
			case len(columns) == len(cells):
				f := figures{}
				for i, column := range columns {
					f[column] = cells[i]
				}
				played[scenario][cells[0]] = f
			}
		}
	}
	return played
}

var (
	rangeOf   = regexp.MustCompile(` \([^)]*\)`)
	columnGap = regexp.MustCompile(` {2,}`)
)
