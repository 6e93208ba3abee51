package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Build builds the binary and returns its path. Several may do so at once, while others
// run it.
func Build(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sidestep").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	root := strings.TrimSpace(string(output))
	binary := filepath.Join(root, "bin", "sidestep")
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return "", fmt.Errorf("build sidestep: %w", err)
	}
	folder, err := os.MkdirTemp(filepath.Dir(binary), "build-")
	if err != nil {
		return "", fmt.Errorf("build sidestep: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	fresh := filepath.Join(folder, "sidestep")
	// What is there may be it already: then nothing is linked. If not, it is replaced, not written to.
	_ = os.Link(binary, fresh)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "grpcnotrace", "-o", fresh, "./cmd/sidestep")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build sidestep: %w: %s", err, output)
	}
	if err := os.Rename(fresh, binary); err != nil {
		return "", fmt.Errorf("build sidestep: %w", err)
	}
	return binary, nil
}

// Front is a running sidestep.
type Front struct {
	Name     string // on its Stage
	URL      string // where clients are served
	AdminURL string
	LogPath  string

	process *Process
	client  *http.Client
}

// started matches the addresses in the line that says that both listeners are bound.
var started = regexp.MustCompile(`msg="sidestep started".* data=(\S+) admin=(\S+)`)

// StartFront starts binary before the upstreams, with further flags, and returns when
// both listeners are bound: not yet necessarily ready.
func StartFront(ctx context.Context, binary string, upstreams []string, flags ...string) (*Front, error) {
	log, err := os.CreateTemp("", "sidestep-*.log")
	if err != nil {
		return nil, fmt.Errorf("start sidestep: %w", err)
	}
	defer func() { _ = log.Close() }()
	arguments := append([]string{
		"--upstream", strings.Join(upstreams, ","), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
	}, flags...)
	f := &Front{LogPath: log.Name(), client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}}
	cmd := exec.Command(binary, arguments...) //nolint:noctx // it lives until Stop
	cmd.Stdout, cmd.Stderr = log, log
	if f.process, err = StartProcess(cmd); err != nil {
		return nil, errors.Join(err, os.Remove(f.LogPath))
	}
	if err := f.awaitStart(ctx); err != nil { // which has all that is in the log
		return nil, errors.Join(err, f.Stop(), os.Remove(f.LogPath))
	}
	return f, nil
}

func (f *Front) awaitStart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		log, err := os.ReadFile(f.LogPath)
		if err != nil {
			return fmt.Errorf("start sidestep: %w", err)
		}
		if found := started.FindSubmatch(log); found != nil {
			f.URL, f.AdminURL = "http://"+string(found[1]), "http://"+string(found[2])
			return nil
		}
		select {
		case <-f.process.gone:
			return fmt.Errorf("sidestep ended at once: %w: %s", f.process.err, log)
		case <-ctx.Done():
			return fmt.Errorf("start sidestep: %w: %s", ctx.Err(), log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// AwaitReady waits until sidestep says that it can steer searches, at most for [Patience].
func (f *Front) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	err := Await(ctx, 50*time.Millisecond, func() error {
		status, body, err := f.Admin(ctx, http.MethodGet, "/-/ready", "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d %s", status, body)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("sidestep is not ready: %w: see %s", err, f.LogPath)
	}
	return nil
}

// Admin asks the admin listener.
func (f *Front) Admin(ctx context.Context, method, path, body string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, f.AdminURL+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	res, err := f.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// AdminJSON decodes what a page of the admin listener shows into out.
func (f *Front) AdminJSON(ctx context.Context, path string, out any) error {
	status, body, err := f.Admin(ctx, http.MethodGet, path, "")
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s: status %d: %s", path, status, body)
	}
	return json.Unmarshal(body, out)
}

// Sum returns the sum of all series of a counter or gauge whose labels include
// the given ones.
func (f *Front) Sum(ctx context.Context, metric string, labels map[string]string) (float64, error) {
	families, err := f.metrics(ctx)
	if err != nil {
		return 0, err
	}
	var sum float64
	for _, series := range families[metric].GetMetric() {
		if matches(series, labels) {
			sum += series.GetCounter().GetValue() + series.GetGauge().GetValue()
		}
	}
	return sum, nil
}

// SumBy returns the sums of all series of a counter or gauge by the value of a label.
func (f *Front) SumBy(ctx context.Context, metric, label string) (map[string]float64, error) {
	families, err := f.metrics(ctx)
	if err != nil {
		return nil, err
	}
	return sumBy(families[metric].GetMetric(), label, nil), nil
}

// sumBy sums up the series that have the given labels, by the value of another one.
func sumBy(all []*dto.Metric, label string, labels map[string]string) map[string]float64 {
	sums := map[string]float64{}
	for _, series := range all {
		if !matches(series, labels) {
			continue
		}
		for _, pair := range series.GetLabel() {
			if pair.GetName() == label {
				sums[pair.GetValue()] += series.GetCounter().GetValue() + series.GetGauge().GetValue()
			}
		}
	}
	return sums
}

// Within returns how many values of a histogram are within a bound of its buckets, and
// how many there are. Another bound is an error.
func (f *Front) Within(ctx context.Context, metric string, bound float64) (within, all float64, err error) {
	families, err := f.metrics(ctx)
	if err != nil {
		return 0, 0, err
	}
	found := false
	for _, series := range families[metric].GetMetric() {
		all += float64(series.GetHistogram().GetSampleCount())
		for _, bucket := range series.GetHistogram().GetBucket() {
			if bucket.GetUpperBound() == bound {
				within, found = within+float64(bucket.GetCumulativeCount()), true
			}
		}
	}
	if !found {
		return 0, 0, fmt.Errorf("%s has no bucket up to %g", metric, bound)
	}
	return within, all, nil
}

func (f *Front) metrics(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	status, body, err := f.Admin(ctx, http.MethodGet, "/metrics", "")
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("read the metrics: status %d: %w", status, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	return families, nil
}

func matches(series *dto.Metric, labels map[string]string) bool {
	found := 0
	for _, pair := range series.GetLabel() {
		if want, ok := labels[pair.GetName()]; ok && want == pair.GetValue() {
			found++
		}
	}
	return found == len(labels)
}

// Stop ends sidestep as an operator at a terminal would (SIGINT) and waits; after 15 s it is killed.
func (f *Front) Stop() error {
	defer f.client.CloseIdleConnections()
	if err := f.process.End(syscall.SIGINT, 15*time.Second); err != nil {
		return fmt.Errorf("stop sidestep: %w", err)
	}
	return nil
}

// PID returns the number of the process.
func (f *Front) PID() int { return f.process.PID }
