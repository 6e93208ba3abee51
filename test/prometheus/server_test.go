package prometheus

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// patience is how long a test waits for what must come about.
const patience = 6 * time.Minute

// evaluations is between two of the rules, and between two scrapes.
const evaluations = 15 * time.Second / faster

// server is a running Prometheus.
type server struct {
	*harness.Prometheus
	t     *testing.T
	began time.Time
}

// startServer starts a Prometheus that scrapes targets, by job, and evaluates the
// rules that are deployed, in a hurry.
func startServer(t *testing.T, targets map[string][]string) *server {
	t.Helper()
	files := map[string]string{}
	for _, file := range []string{recordings, alerts} {
		text, err := os.ReadFile(filepath.Join(deployed, file))
		require.NoError(t, err)
		files[file] = hurried(t, string(text))
	}
	every := fmt.Sprintf("%dms", evaluations.Milliseconds())
	text := fmt.Sprintf("global: {scrape_interval: %s, scrape_timeout: %s, evaluation_interval: %s}\nrule_files: [%s, %s]\nscrape_configs:\n",
		every, every, every, recordings, alerts)
	for job, addresses := range targets {
		list, err := json.Marshal(addresses)
		require.NoError(t, err)
		text += fmt.Sprintf("  - {job_name: %s, static_configs: [{targets: %s}]}\n", job, list)
	}
	s := &server{t: t, began: time.Now()}
	var err error
	s.Prometheus, err = harness.StartPrometheus(t.Context(), "../..", text, files)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("prometheus said:", s.Said())
		}
		require.NoError(t, s.Stop())
	})
	return s
}

// freeAddress returns an address on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	return address
}

// ask reads one answer of the HTTP API into data. A query that is refused fails the
// test.
func (s *server) ask(path string, parameters url.Values, data any) {
	s.t.Helper()
	require.NoError(s.t, s.Ask(s.t.Context(), path, parameters, data))
}

// queried returns what a query says of the time since the test began.
func (s *server) queried(expr string) model.Matrix {
	s.t.Helper()
	found, err := s.Range(s.t.Context(), expr, s.began, time.Second)
	require.NoError(s.t, err, expr)
	return found
}

// labelled returns the values of a label of the series that a selector matches.
func (s *server) labelled(label, selector string) (values []string) {
	s.t.Helper()
	s.ask("/api/v1/label/"+label+"/values", url.Values{"match[]": {selector}}, &values)
	return values
}

// alert is one that is pending or firing.
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	State       string            `json:"state"`
}

// firing returns the alerts that are.
func (s *server) firing() (now []alert) {
	s.t.Helper()
	var data struct {
		Alerts []alert `json:"alerts"`
	}
	s.ask("/api/v1/alerts", nil, &data)
	for _, a := range data.Alerts {
		if a.State == "firing" {
			now = append(now, a)
		}
	}
	return now
}
