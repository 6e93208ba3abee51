// Package prometheus holds deploy/prometheus and deploy/grafana against a real
// Prometheus that scrapes running sidesteps: every rule and every panel has data, and
// every alert fires when what it is for comes about, and not otherwise.
package prometheus

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"sidestep/test/harness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	deployed   = "../../deploy/prometheus"
	recordings = "recording.yml"
	alerts     = "alerts.yml"
)

// program returns the path of prometheus or promtool.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := harness.FindPrometheus("../..", name)
	require.NoError(t, err)
	return path
}

// promtool runs promtool, which must find nothing wrong.
func promtool(t *testing.T, stdin []byte, args ...string) {
	t.Helper()
	tool := program(t, "promtool")
	cmd := exec.CommandContext(t.Context(), tool, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "promtool %v: %s", args, said)
}

func TestRulesAreValid(t *testing.T) {
	promtool(t, nil, "check", "config", filepath.Join(deployed, "prometheus.yml"))
	promtool(t, nil, "check", "rules", "--lint-fatal", filepath.Join(deployed, recordings), filepath.Join(deployed, alerts))
}

// TestRules runs the unit tests of the rules: what fires when, and with which words.
func TestRules(t *testing.T) {
	tests, err := filepath.Glob("testdata/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, tests)
	promtool(t, nil, append([]string{"test", "rules"}, tests...)...)
}
