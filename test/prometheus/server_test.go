package prometheus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
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
	t      *testing.T
	url    string
	client *http.Client
	began  time.Time
}

// startServer starts a Prometheus that scrapes targets, by job, and evaluates the
// rules that are deployed, in a hurry.
func startServer(t *testing.T, targets map[string][]string) *server {
	t.Helper()
	dir := t.TempDir()
	for _, file := range []string{recordings, alerts} {
		text, err := os.ReadFile(filepath.Join(deployed, file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(hurried(t, string(text))), 0o600))
	}
	every := fmt.Sprintf("%dms", evaluations.Milliseconds())
	text := fmt.Sprintf("global: {scrape_interval: %s, scrape_timeout: %s, evaluation_interval: %s}\nrule_files: [%s, %s]\nscrape_configs:\n",
		every, every, every, recordings, alerts)
	for job, addresses := range targets {
		list, err := json.Marshal(addresses)
		require.NoError(t, err)
		text += fmt.Sprintf("  - {job_name: %s, static_configs: [{targets: %s}]}\n", job, list)
	}
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))

	address := freeAddress(t)
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program(t, "prometheus"), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // what it says is shown
	}()
	s := &server{t: t, url: "http://" + address, client: &http.Client{Transport: &http.Transport{}}, began: time.Now()}
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if t.Failed() {
			t.Log("prometheus said:", said.String())
		}
	})
	eventually(t, patience, func() bool {
		select {
		case <-ended:
			require.Fail(t, "prometheus ended", said.String())
		default:
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/-/ready", http.NoBody)
		require.NoError(t, err)
		response, err := s.client.Do(r)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, "prometheus does not start")
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
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path+"?"+parameters.Encode(), http.NoBody)
	require.NoError(s.t, err)
	response, err := s.client.Do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	answer := struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   any    `json:"data"`
	}{Data: data}
	require.NoError(s.t, json.NewDecoder(response.Body).Decode(&answer))
	require.Equal(s.t, "success", answer.Status, "%s %s: %s", path, parameters, answer.Error)
}

// queried returns what a query says of the time since the test began.
func (s *server) queried(expr string) model.Matrix {
	s.t.Helper()
	var data struct {
		Result model.Matrix `json:"result"`
	}
	stamp := func(at time.Time) string { return fmt.Sprintf("%.3f", float64(at.UnixMilli())/1000) }
	s.ask("/api/v1/query_range", url.Values{
		"query": {expr}, "start": {stamp(s.began)}, "end": {stamp(time.Now())}, "step": {"1"},
	}, &data)
	return data.Result
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
