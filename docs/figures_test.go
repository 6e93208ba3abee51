package docs_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFiguresOfReadme holds the figures of the README against the measurements in
// test/bench/results.
func TestFiguresOfReadme(t *testing.T) {
	readme := read(t, "README.md")
	shown := rows(t, readme, "| | healthy |")
	require.Len(t, shown, 3)
	measured := degraded(t)
	scenarios := []string{"healthy", "transport latency 300 ± 50 ms", "CPU quota 5 % of a core", "killed (-9), then back"}
	for i, way := range []string{"engine", "sidestep", "oracle"} {
		for j, scenario := range scenarios {
			require.Equal(t, measured[scenario][way], shown[i][1+j], "%s, %s: test/bench/results/chaos-opensearch.md has another figure", scenario, way)
		}
	}

	overhead := read(t, "test/bench/results/overhead.md")
	cost := rows(t, overhead, "| | p50, µs")[1]
	memory := rows(t, overhead, "| | idle, MiB")[0]
	require.Equal(t, "sidestep", cost[0])
	require.Equal(t, "sidestep", memory[0])
	for _, figure := range []string{
		fmt.Sprintf("%.2f ms more at p50", number(t, cost[2])/1000),
		fmt.Sprintf("%.2f ms a search", number(t, cost[4])/1000),
		fmt.Sprintf("%.0f MiB idle, %.0f MiB under %.0f,000 searches a second", number(t, memory[1]), number(t, memory[2]), number(t, cost[9])/1000),
	} {
		require.Contains(t, readme, figure, "test/bench/results/overhead.md has another figure")
	}
}

// TestCostOfBenchmarks holds the table "Cost" of docs/benchmarks.md against the measurement.
func TestCostOfBenchmarks(t *testing.T) {
	overhead := read(t, "test/bench/results/overhead.md")
	cost, memory := rows(t, overhead, "| | p50, µs")[1:], rows(t, overhead, "| | idle, MiB")
	shown := rows(t, read(t, "docs/benchmarks.md"), "| | added p50 | CPU per search |")
	require.Len(t, shown, len(cost))
	require.Len(t, memory, len(cost))
	for i, c := range cost {
		require.Equal(t, c[0], memory[i][0])
		require.Equal(t, []string{
			c[0], c[2] + " µs", c[4] + " µs",
			fmt.Sprintf("%.0f / %.0f MiB", number(t, memory[i][1]), number(t, memory[i][2])),
		}, shown[i], "test/bench/results/overhead.md has other figures")
	}
}

// degraded returns, by scenario and way, p99 in ms or how many searches failed.
func degraded(t *testing.T) map[string]map[string]string {
	t.Helper()
	measured := map[string]map[string]string{}
	var scenario string
	for _, row := range rows(t, read(t, "test/bench/results/chaos-opensearch.md"), "| scenario | load |") {
		if row[0] != "" {
			scenario = row[0]
			measured[scenario] = map[string]string{}
		}
		figure := fmt.Sprintf("%.0f", number(t, row[5]))
		if failed := number(t, row[8]); failed > 0 {
			figure = fmt.Sprintf("%.0f %% failed", 100*failed/number(t, row[2]))
		}
		measured[scenario][strings.Trim(row[1], "*")] = figure
	}
	return measured
}

// rows returns the cells of the table whose first line begins like this.
func rows(t *testing.T, text, begin string) [][]string {
	t.Helper()
	_, rest, found := strings.Cut(text, "\n"+begin)
	require.True(t, found, begin)
	var table [][]string
	for i, line := range strings.Split(rest, "\n") {
		if i < 2 { // the rest of the head, the rule
			continue
		}
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		table = append(table, cells)
	}
	require.NotEmpty(t, table, begin)
	return table
}

func number(t *testing.T, cell string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(cell, 64)
	require.NoError(t, err)
	return n
}
