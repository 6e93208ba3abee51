package app_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"sidestep/internal/app"
	"sidestep/internal/config"
	simcluster "sidestep/internal/sim/cluster"
	"sidestep/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 3 * time.Minute

// upstream is a cluster behind one address: a simulated cluster behind a server
// that records what arrives and can demand, hold and redirect.
type upstream struct {
	*httptest.Server
	// account, if set, is the Authorization header without which polls are
	// refused.
	account string
	// holding, if set, keeps requests to /held until it is closed.
	holding chan struct{}
	arrived chan struct{} // receives one value for each request to /held

	mu      sync.Mutex
	headers map[string][]string // Authorization headers seen, by path
}

// newUpstream starts a cluster behind a plain server.
func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := prepareUpstream(t)
	u.Start()
	return u
}

// prepareUpstream returns an upstream whose server is to be started by the test.
func prepareUpstream(t *testing.T) *upstream {
	t.Helper()
	simulated, err := simcluster.Start(simcluster.Options{
		Nodes:       2,
		ServiceTime: time.Millisecond,
		Indices:     []simcluster.IndexSpec{{Name: "logs", Shards: 2, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(simulated.Stop)
	node, err := url.Parse(simulated.URLs()[0])
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	u := &upstream{arrived: make(chan struct{}, 16), headers: make(map[string][]string)}
	u.Server = httptest.NewUnstartedServer(u.handler(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(node) },
		Transport: transport,
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}))
	u.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	u.Config.DisableGeneralOptionsHandler = true
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) handler(cluster http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization := r.Header.Get("Authorization")
		u.mu.Lock()
		u.headers[r.URL.Path] = append(u.headers[r.URL.Path], authorization)
		account := u.account
		u.mu.Unlock()
		switch {
		case r.URL.Path == "/held":
			u.arrived <- struct{}{}
			select {
			case <-u.holding:
			case <-r.Context().Done():
			}
			_, _ = io.WriteString(w, "released")
		case account != "" && isPoll(r.URL.Path) && authorization != account:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			cluster.ServeHTTP(w, r)
		}
	})
}

func isPoll(path string) bool {
	return path == "/" || strings.HasPrefix(path, "/_nodes") || strings.HasPrefix(path, "/_cat") || strings.HasPrefix(path, "/_cluster")
}

func (u *upstream) demand(account string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.account = account
}

// seen returns the Authorization headers of all requests whose path begins so.
func (u *upstream) seen(prefix string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []string
	for path, headers := range u.headers {
		if strings.HasPrefix(path, prefix) {
			all = append(all, headers...)
		}
	}
	return all
}

// settings returns a configuration for tests: free ports, quick polls, and the
// addresses given as the only ones.
func settings(urls ...string) config.Config {
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Upstream.URLs = urls
	cfg.Upstream.Discovery = "static"
	cfg.Cluster.DiscoveryInterval = 50 * time.Millisecond
	cfg.Cluster.PlacementInterval = 50 * time.Millisecond
	cfg.Cluster.StatsInterval = 20 * time.Millisecond
	cfg.Cluster.PollTimeout = time.Second
	cfg.Limits.DrainDelay = 0
	cfg.Limits.ShutdownGrace = patience
	return cfg
}

// sidestep is an App under test with what it logged.
type sidestep struct {
	*app.App
	t        *testing.T
	log      *testkit.Log
	level    *slog.LevelVar
	registry *prometheus.Registry
	client   *http.Client
}

// start starts an App and stops it when the test ends; load may be nil.
func start(t *testing.T, cfg config.Config, load func() (config.Config, error)) *sidestep {
	t.Helper()
	return startOn(t, app.Sockets{}, cfg, load)
}

// startOn is start with inherited sockets.
func startOn(t *testing.T, sockets app.Sockets, cfg config.Config, load func() (config.Config, error)) *sidestep {
	t.Helper()
	s := &sidestep{
		t: t, log: &testkit.Log{}, level: new(slog.LevelVar), registry: prometheus.NewRegistry(),
		client: &http.Client{Transport: &http.Transport{}},
	}
	var err error
	s.App, err = app.New(cfg, app.Options{
		Version:  "1.2.3",
		Commit:   "0a1b2c3d",
		Logger:   slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: s.level})),
		Level:    s.level,
		Registry: s.registry,
		Load:     load,
		Sockets:  sockets,
	})
	require.NoError(t, err)
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		s.SkipDrain()
		require.NoError(t, s.Stop(context.Background()))
	})
	return s
}

// startReady is start followed by waiting until searches can be steered.
func startReady(t *testing.T, cfg config.Config, load func() (config.Config, error)) *sidestep {
	t.Helper()
	s := start(t, cfg, load)
	s.awaitReady()
	return s
}

func (s *sidestep) awaitReady() {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.Ready() == nil }, patience, 5*time.Millisecond, "not ready")
}

func (s *sidestep) dataURL(path string) string  { return "http://" + s.DataAddr().String() + path }
func (s *sidestep) adminURL(path string) string { return "http://" + s.AdminAddr().String() + path }

// answer is a response read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask makes one request with the client given; line is its method and URL.
func ask(t *testing.T, client *http.Client, line, body string, headers ...string) (answer, error) {
	t.Helper()
	method, target, _ := strings.Cut(line, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(read)}, err
}

// get makes one request that must be answered.
func (s *sidestep) get(target string, headers ...string) answer {
	s.t.Helper()
	got, err := ask(s.t, s.client, "GET "+target, "", headers...)
	require.NoError(s.t, err)
	return got
}

// write makes a file in a folder of the test's own and returns its name.
func write(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(file, content, 0o600))
	return file
}

// tlsClient returns a client that trusts the authority given and presents the
// certificates given.
func tlsClient(t *testing.T, trusted *authority, own ...tls.Certificate) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted.pool(), Certificates: own, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
