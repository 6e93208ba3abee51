// Package prometheus holds deploy/prometheus and deploy/grafana against a real
// Prometheus that scrapes running sidesteps: every rule and every panel has data, and
// every alert fires when what it is for comes about, and not otherwise.
package prometheus

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

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

// TestJobsForKubernetesAreValid reads those that stand in comments. Pods that have ended are listed by Kubernetes for as
// long as nobody deletes them: they are not to be taken for sidesteps that are down.
func TestJobsForKubernetesAreValid(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(deployed, "prometheus.yml"))
	require.NoError(t, err)
	_, jobs, found := strings.Cut(string(text), "\n  # - job_name:")
	require.True(t, found)
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	jobs = strings.ReplaceAll("  # - job_name:"+jobs, "\n  # ", "\n  ")
	jobs = strings.Replace(jobs, "  # -", "  -", 1)
	// promtool looks for files of certificates, and Debian's knows nothing of Kubernetes.
	jobs = strings.ReplaceAll(jobs, "ca_file: /etc/prometheus/sidestep-relay/ca.crt, ", "")
	require.Equal(t, 2, strings.Count(jobs, "kubernetes_sd_configs: [{role: pod}]"))
	jobs = strings.ReplaceAll(jobs, "kubernetes_sd_configs: [{role: pod}]", "static_configs: [{targets: [a]}]")
	require.NoError(t, os.WriteFile(file, []byte("scrape_configs:\n"+jobs), 0o600))
	promtool(t, nil, "check", "config", file)
	var config struct {
		Jobs []struct {
			Name  string `yaml:"job_name"`
			Rules []struct {
				Labels []string `yaml:"source_labels"`
				Regex  string   `yaml:"regex"`
				Action string   `yaml:"action"`
			} `yaml:"relabel_configs"`
		} `yaml:"scrape_configs"`
	}
	text, err = os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &config))
	require.Len(t, config.Jobs, 2)
	for _, job := range config.Jobs {
		require.Regexp(t, "sidestep", job.Name)
		dropped := false
		for _, r := range job.Rules {
			dropped = dropped || r.Action == "drop" && r.Labels[0] == "__meta_kubernetes_pod_phase" && r.Regex == "Succeeded|Failed"
		}
		require.True(t, dropped, "%s takes pods that have ended for sidesteps that are down", job.Name)
	}
}

// TestRules runs the unit tests of the rules: what fires when, and with which words.
func TestRules(t *testing.T) {
	tests, err := filepath.Glob("testdata/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, tests)
	promtool(t, nil, append([]string{"test", "rules"}, tests...)...)
}
