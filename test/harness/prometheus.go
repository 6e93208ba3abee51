package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/common/model"
)

// Prometheus is a running one.
type Prometheus struct {
	URL string

	dir     string
	process *Process
	client  *http.Client
}

// StartPrometheus starts one and returns when it answers. root is the folder of the repository; files are
// what its configuration names.
func StartPrometheus(ctx context.Context, root, config string, files map[string]string) (_ *Prometheus, err error) {
	program, err := FindPrometheus(root, "prometheus")
	if err != nil {
		return nil, err
	}
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	p := &Prometheus{URL: "http://" + address, client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}}
	if p.dir, err = os.MkdirTemp("", "sidestep-prometheus-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start Prometheus: %w: %s", err, p.Said()), p.Stop())
		}
	}()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	file := filepath.Join(p.dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	said, err := os.Create(filepath.Join(p.dir, "said"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = said.Close() }() // the child has its own descriptor

	//nolint:noctx // it lives until Stop
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(p.dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = said, said
	if p.process, err = StartProcess(cmd); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	go func() {
		<-p.process.gone // what it has said tells more
		cancel()
	}()
	return p, Await(ctx, 100*time.Millisecond, func() error {
		return p.Ask(ctx, "/api/v1/status/buildinfo", nil, new(any))
	})
}

// Said is what it has said so far.
func (p *Prometheus) Said() string {
	said, _ := os.ReadFile(filepath.Join(p.dir, "said")) // it may have said nothing
	return string(said)
}

// Ask reads an answer of its HTTP API into data. A query that it refuses is an error.
func (p *Prometheus) Ask(ctx context.Context, path string, parameters url.Values, data any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+path+"?"+parameters.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	res, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return fmt.Errorf("ask Prometheus: %w", err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("ask Prometheus for %s %s: %s", path, parameters, answer.Error)
	}
	return nil
}

// Range returns what a query says of the time from a moment on, step by step.
func (p *Prometheus) Range(ctx context.Context, expr string, from time.Time, step time.Duration) (model.Matrix, error) {
	number := func(seconds float64) string { return strconv.FormatFloat(seconds, 'f', -1, 64) }
	stamp := func(at time.Time) string { return number(float64(at.UnixMilli()) / 1000) }
	var data struct{ Result model.Matrix }
	err := p.Ask(ctx, "/api/v1/query_range", url.Values{
		"query": {expr}, "start": {stamp(from)}, "end": {stamp(time.Now())}, "step": {number(step.Seconds())},
	}, &data)
	return data.Result, err
}

// Stop ends it and removes its files.
func (p *Prometheus) Stop() error {
	p.client.CloseIdleConnections()
	if p.process != nil {
		_ = p.process.End(syscall.SIGTERM, 10*time.Second) // what matters is that it has ended
	}
	return os.RemoveAll(p.dir)
}
