package prometheus

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// rule is a recording or an alerting rule.
type rule struct {
	Record      string            `yaml:"record"`
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// readRules returns the rules of a file.
func readRules(t *testing.T, file string) (all []rule) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployed, file))
	require.NoError(t, err)
	var content struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	require.NoError(t, yaml.Unmarshal(text, &content))
	for _, g := range content.Groups {
		all = append(all, g.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

// faster is by how much shorter the windows of the rules are in the test, so that
// five minutes pass in half a minute. Scrapes and evaluations are as much closer: with
// more a busy machine would not answer them in time.
const faster = 10

var (
	window = regexp.MustCompile(`\[\d[^]]*\]`) // of a range, or of a subquery, with its step
	length = regexp.MustCompile(`\d+[smh]`)
	lasts  = regexp.MustCompile(`(?m)^( +for: )\S+$`)
)

// hurried returns a copy of a file of rules, or of an expression, for the test:
// windows are shorter, and an alert fires after a second.
func hurried(t *testing.T, text string) string {
	t.Helper()
	text = window.ReplaceAllStringFunc(text, func(match string) string {
		require.Regexp(t, `^\[\d+[smh](:\d+[smh])?\]$`, match, "make it shorter, too")
		return length.ReplaceAllStringFunc(match, func(text string) string {
			d, err := time.ParseDuration(text)
			require.NoError(t, err)
			return fmt.Sprintf("%dms", (d / faster).Milliseconds())
		})
	})
	return lasts.ReplaceAllString(text, "${1}1s")
}

// TestAlertsAreComplete: whoever is woken wants to know how bad it is, what it is and
// where to read on.
func TestAlertsAreComplete(t *testing.T) {
	for _, r := range readRules(t, alerts) {
		require.Contains(t, []string{"critical", "warning", "info"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.For, "%s flaps", r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		require.Equal(t, "docs/alerts.md#"+strings.ToLower(r.Alert), r.Annotations["runbook_url"])
	}
}

// TestEveryAlertIsDocumented holds the table of docs/alerts.md against the rules.
func TestEveryAlertIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/alerts.md")
	require.NoError(t, err)
	var written, want []string
	for _, line := range strings.Split(string(page), "\n") {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| <a id=") {
			require.Len(t, cells, 7, "alert, severity, what it means, what to look at, what to do: %s", line)
			for _, cell := range cells[1:6] {
				require.NotEmpty(t, strings.TrimSpace(cell), line)
			}
			written = append(written, strings.TrimSpace(cells[1])+" "+strings.TrimSpace(cells[2]))
		}
	}
	for _, r := range readRules(t, alerts) {
		want = append(want, fmt.Sprintf("<a id=%q></a>`%s` %s", strings.ToLower(r.Alert), r.Alert, r.Labels["severity"]))
	}
	require.Equal(t, want, written, "docs/alerts.md has other alerts, or in another order, than the rules")
}
