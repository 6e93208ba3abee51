package prometheus

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dashboard is what the test reads of the JSON.
type dashboard struct {
	Templating struct {
		List []struct {
			Name  string `json:"name"`
			Type  string `json:"type"`
			Query any    `json:"query"`
		} `json:"list"`
	} `json:"templating"`
	Annotations struct {
		List []annotation `json:"list"`
	} `json:"annotations"`
	Panels []struct {
		ID          int      `json:"id"`
		Type        string   `json:"type"`
		Title       string   `json:"title"`
		Description string   `json:"description"`
		Targets     []target `json:"targets"`
		GridPos     struct{ H, W, X, Y int }
	} `json:"panels"`
}

type annotation struct {
	Name   string `json:"name"`
	Target target `json:"target"`
}

type target struct {
	Expr string `json:"expr"`
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/sidestep.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	require.NotEmpty(t, d.Panels)
	return d
}

// TestPanelsAreComplete: each says what it shows, has a place of its own and a query.
func TestPanelsAreComplete(t *testing.T) {
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range readDashboard(t).Panels {
		require.False(t, ids[p.ID], "id of %s", p.Title)
		ids[p.ID] = true
		require.NotEmpty(t, p.Title)
		if p.Type != "row" {
			require.NotEmpty(t, p.Description, p.Title)
			require.NotEmpty(t, p.Targets, p.Title)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, taken[at], "%s lies on another panel", p.Title)
				require.Less(t, at[0], 24, p.Title)
				taken[at] = p.Title
			}
		}
	}
}

// TestAConfigurationThatIsReadIsMarked also where scrapes are as rare as they may be, and of a sidestep that was not there
// before.
func TestAConfigurationThatIsReadIsMarked(t *testing.T) {
	at := slices.IndexFunc(readDashboard(t).Annotations.List, func(a annotation) bool { return a.Name == "Started or configured" })
	require.GreaterOrEqual(t, at, 0)
	expr := substitute(t, readDashboard(t).Annotations.List[at].Target.Expr, map[string]string{"job": ".+", "instance": ".+"})
	const metric = "sidestep_config_last_reload_success_timestamp_seconds"
	for _, look := range []string{"10m30s", "11m30s"} {
		file := filepath.Join(t.TempDir(), "test.yml")
		require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
tests:
  - interval: 1m
    input_series:
      - {series: '%[1]s{job="j", instance="again"}', values: '1x9 590x9'}
      - {series: '%[1]s{job="j", instance="new"}', values: '_x9 590x9'}
      - {series: '%[1]s{job="j", instance="neither"}', values: '1x19'}
      - {series: '%[1]s{job="j", instance="of a clock that is far ahead"}', values: '5000x19'}
    promql_expr_test:
      - expr: count by (instance) (%[2]s)
        eval_time: %[3]s
        exp_samples: [{labels: '{instance="again"}', value: 1}, {labels: '{instance="new"}', value: 1}]
`, metric, expr, look), 0o600))
		promtool(t, nil, "test", "rules", file)
	}
}

// queries returns every query of the dashboard as Grafana would send it with all
// values of all variables chosen, by where it stands.
func (d dashboard) queries(t *testing.T, s *server) map[string]string {
	t.Helper()
	values := map[string]string{
		"__rate_interval": "6s",
		"__range":         time.Since(s.began).Round(time.Second).String(),
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			values[v.Name] = resolve(t, s, v.Query, values)
		}
	}
	all := map[string]string{}
	for _, p := range d.Panels {
		for i, q := range p.Targets {
			all[p.Title+" "+string(rune('A'+i))] = substitute(t, q.Expr, values)
		}
	}
	for _, a := range d.Annotations.List {
		all["annotation "+a.Name] = substitute(t, a.Target.Expr, values)
	}
	return all
}

var (
	variable    = regexp.MustCompile(`\$(?:\{(\w+)\}|(\w+))`)
	labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
)

// resolve returns all values of a variable as a regular expression.
func resolve(t *testing.T, s *server, query any, values map[string]string) string {
	t.Helper()
	text, ok := query.(map[string]any)["query"].(string)
	require.True(t, ok, "%v", query)
	parts := labelValues.FindStringSubmatch(substitute(t, text, values))
	require.NotNil(t, parts, "%s is no label_values", text)
	found := s.labelled(parts[2], parts[1])
	require.NotEmpty(t, found, "%s has no value", text)
	for i, v := range found {
		found[i] = strings.ReplaceAll(regexp.QuoteMeta(v), `\`, `\\`)
	}
	return "(" + strings.Join(found, "|") + ")"
}

// substitute puts the values of variables into a query.
func substitute(t *testing.T, query string, values map[string]string) string {
	t.Helper()
	return variable.ReplaceAllStringFunc(query, func(match string) string {
		parts := variable.FindStringSubmatch(match)
		value, ok := values[parts[1]+parts[2]]
		require.True(t, ok, "%s of %s is no variable", match, query)
		return value
	})
}

// hasData reports whether a query has a value that is a number, at any time since the
// test began.
func (s *server) hasData(expr string) bool {
	s.t.Helper()
	for _, series := range s.queried(expr) {
		for _, point := range series.Values {
			if v := float64(point.Value); !math.IsNaN(v) && !math.IsInf(v, 0) {
				return true
			}
		}
	}
	return false
}
