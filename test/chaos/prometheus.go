package chaos

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
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/common/model"

	"sidestep/test/harness"
)

// scrapeInterval is in a hurry: the default of Prometheus is a minute.
const scrapeInterval = 250 * time.Millisecond

// Prometheus is a running one that scrapes one sidestep.
type Prometheus struct {
	URL string

	cmd    *exec.Cmd
	dir    string
	client *http.Client
}

// StartPrometheus starts one for the admin address of a sidestep. root is the folder of
// the repository.
func StartPrometheus(ctx context.Context, root, admin string) (*Prometheus, error) {
	program, err := harness.FindPrometheus(root, "prometheus")
	if err != nil {
		return nil, err
	}
	p := &Prometheus{client: &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}}
	if p.dir, err = os.MkdirTemp("", "sidestep-prometheus-"); err != nil {
		return nil, err
	}
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, err
	}
	p.URL = "http://" + address
	config := filepath.Join(p.dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: %[1]s, scrape_timeout: %[1]s}\nscrape_configs: [{job_name: sidestep, static_configs: [{targets: [%[2]q]}]}]\n",
		scrapeInterval, strings.TrimPrefix(admin, "http://"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p.cmd = exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(p.dir, "data"), //nolint:noctx // it lives until Stop
		"--web.listen-address="+address, "--log.level=warn")
	said, err := os.Create(p.saidPath())
	if err != nil {
		return nil, err
	}
	defer said.Close()
	p.cmd.Stdout, p.cmd.Stderr = said, said
	p.cmd.SysProcAttr = harness.ProcessAttributes(nil)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start Prometheus: %w", err)
	}
	if err := p.await(ctx); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// saidPath is the file of what Prometheus says.
func (p *Prometheus) saidPath() string { return filepath.Join(p.dir, "said") }

// await waits until something was scraped.
func (p *Prometheus) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := harness.Await(ctx, 100*time.Millisecond, func() error {
		found, err := p.query(ctx, "sidestep_ready", time.Now().Add(-time.Minute))
		if err == nil && len(found) == 0 {
			err = errors.New("nothing is scraped")
		}
		return err
	})
	if err != nil {
		said, _ := os.ReadFile(p.saidPath()) // it may have said nothing
		return fmt.Errorf("wait for Prometheus: %w: %s", err, said)
	}
	return nil
}

// query returns what a query says of the time from a moment on, scrape by scrape.
func (p *Prometheus) query(ctx context.Context, expr string, from time.Time) (model.Matrix, error) {
	stamp := func(at time.Time) string { return strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64) }
	parameters := url.Values{"query": {expr}, "start": {stamp(from)}, "end": {stamp(time.Now())}, "step": {strconv.FormatFloat(scrapeInterval.Seconds(), 'f', -1, 64)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/api/v1/query_range?"+parameters.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result model.Matrix }
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("ask Prometheus: %w", err)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("ask Prometheus for %s: %s", expr, answer.Error)
	}
	return answer.Data.Result, nil
}

// Stop ends it and removes its files.
func (p *Prometheus) Stop() error {
	p.client.CloseIdleConnections()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop Prometheus: %w", err)
	}
	_ = p.cmd.Wait() // it was told to end
	return os.RemoveAll(p.dir)
}
