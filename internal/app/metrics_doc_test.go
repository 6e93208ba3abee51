package app

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
	"sidestep/internal/proxy"
	simcluster "sidestep/internal/sim/cluster"
	"sidestep/internal/testkit"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

// TestMetricsPage keeps the table of docs/metrics.md equal to what is
// registered.
func TestMetricsPage(t *testing.T) {
	t.Parallel()
	a := running(t)
	testkit.Page{
		File: "metrics.md", Update: *update, HowTo: "go test ./internal/app -run MetricsPage -update",
	}.Holds(t, metricsTable(t, a))
}

// running returns an App that has steered, observed and learned, so that every
// metric has a series: only a series tells its type.
func running(t *testing.T) *App {
	t.Helper()
	simulated, err := simcluster.Start(simcluster.Options{
		Nodes: 2, ServiceTime: time.Millisecond,
		Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 2, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(simulated.Stop)
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Upstream.URLs = simulated.URLs()
	cfg.Limits.DrainDelay = 0
	cfg.Cluster.StatsInterval = 20 * time.Millisecond
	cfg.Bulk.SingleShard = []config.SingleShard{{Index: "logs"}}
	cfg.Admission.Writes.Mode = "observe"
	a, err := New(cfg, Options{Version: "1.2.3"})
	require.NoError(t, err)
	require.NoError(t, a.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, a.Stop(context.Background())) })

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		for _, mode := range []proxy.Mode{proxy.ModeObserve, proxy.ModeRoute} {
			require.NoError(t, a.SetMode(mode))
			search(t, client, "http://"+a.DataAddr().String()+"/logs/_search")
			search(t, client, "http://"+a.DataAddr().String()+"/lo*/_search")
			send(t, client, http.MethodPost, "http://"+a.DataAddr().String()+"/logs/_bulk", "{\"index\":{}}\n{}\n")
		}
		missing := untyped(t, a)
		if len(missing) == 0 {
			return a
		}
		require.True(t, time.Now().Before(end), "metrics without a series: %v", missing)
	}
}

func search(t *testing.T, client *http.Client, url string) {
	t.Helper()
	send(t, client, http.MethodGet, url, "")
}

// send sends a request and reads its answer.
func send(t *testing.T, client *http.Client, method, url, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := client.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
}

// described is one metric as it was registered.
type described struct{ name, help, labels string }

var descPattern = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "([^"]*)",.* constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// registered returns sidestep's own metrics, by name.
func registered(t *testing.T, a *App) []described {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		a.options.Registry.Describe(descs)
		a.current.Load().metrics.Describe(descs)
		a.current.Load().registry.Describe(descs)
	}()
	var all []described
	for desc := range descs {
		parts := descPattern.FindStringSubmatch(desc.String())
		require.NotNil(t, parts, "%s", desc)
		if !strings.HasPrefix(parts[1], "sidestep_") {
			continue
		}
		labels := regexp.MustCompile(`\w+`).FindAllString(parts[4], -1)
		for _, constant := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(parts[3], -1) {
			labels = append(labels, constant[1])
		}
		slices.Sort(labels)
		all = append(all, described{parts[1], parts[2], strings.Join(labels, ", ")})
	}
	slices.SortFunc(all, func(a, b described) int { return cmp.Compare(a.name, b.name) })
	return slices.Compact(all)
}

// types returns the type of every metric that has a series.
func types(t *testing.T, a *App) map[string]string {
	t.Helper()
	families, err := a.options.Registry.Gather()
	require.NoError(t, err)
	kinds := map[string]string{}
	for _, f := range families {
		kinds[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	return kinds
}

func untyped(t *testing.T, a *App) []string {
	t.Helper()
	kinds := types(t, a)
	var names []string
	for _, m := range registered(t, a) {
		if kinds[m.name] == "" {
			names = append(names, m.name)
		}
	}
	return names
}

func metricsTable(t *testing.T, a *App) string {
	t.Helper()
	kinds := types(t, a)
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range registered(t, a) {
		labels := ""
		if m.labels != "" {
			labels = "`" + strings.ReplaceAll(m.labels, ", ", "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, kinds[m.name], labels, m.help)
	}
	return b.String()
}
