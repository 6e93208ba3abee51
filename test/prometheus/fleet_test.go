package prometheus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sidestep/internal/app"
	"sidestep/internal/config" //nolint:depguard // the test is a program: it configures sidestep as cmd does
	simcluster "sidestep/internal/sim/cluster"
)

// Jobs under which sidesteps are scraped: one for each cluster, as the nodes of all
// simulated ones have the same names.
const (
	steering  = "sidestep"
	observing = "sidestep-observing"
	blind     = "sidestep-blind"
	stale     = "sidestep-stale"
	strict    = "sidestep-strict"
	failing   = "sidestep-failing"
	unprobed  = "sidestep-unprobed"
	down      = "sidestep-down"
	uneven    = "sidestep-uneven"

	flooded    = "sidestep-flooded"
	overloaded = "sidestep-overloaded"
	unmeasured = "sidestep-unmeasured"
	restarting = "sidestep-restarting"
	forgetful  = "sidestep-forgetful"

	well = "sidestep-well"
)

// fleet is sidesteps in every situation that a rule or a panel is about.
type fleet struct {
	t       *testing.T
	main    *simcluster.Cluster // whose nodes are slow, gone, and come and go
	stale   *simcluster.Cluster // which ends
	front   *app.App            // steers searches on main
	watcher *app.App            // in mode observe; its configuration cannot be read again
	brief   *simcluster.Cluster // of which a node is gone for a moment
	keeper  *app.App            // before it, which cannot keep the record of that
	targets map[string][]string
	clients []*client
}

// startFleet starts it, all nodes well.
func startFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, targets: map[string][]string{}}
	f.startSteering()
	f.startOthers()
	return f
}

// startSteering starts those before the main cluster.
func (f *fleet) startSteering() {
	f.main = startCluster(f.t, 5)

	// Steers, hedges, fails over and sends probes.
	cfg := settings(f.main.URLs()...)
	f.front = f.start(steering, cfg, func() (config.Config, error) { return cfg, nil })
	f.load(f.front, 25*time.Millisecond, everything...)

	// May send next to no second attempts, where one node after the other stalls for too
	// short a time to be found unfit: for those it needs no budget.
	stalling := startCluster(f.t, 5)
	thrifty := settings(stalling.URLs()...)
	thrifty.Routing.HedgeBudget = 1e-3
	f.load(f.start(steering, thrifty, nil), 25*time.Millisecond, "GET /logs/_search")
	f.stallInTurn(stalling)

	// Meets a node that is slow and that another client floods, so that searches wait in its queue.
	queueing := startCluster(f.t, 3)
	f.load(f.start(flooded, settings(queueing.URLs()...), nil), 25*time.Millisecond, "GET /logs/_search")
	target := queueing.Nodes()[0]
	target.SetFault(simcluster.Fault{Factor: 50})
	f.loadAt(target.URL(), 20*time.Second, 5*time.Millisecond, "GET /logs/_search?preference=_local")

	// A relay, one that follows it, and one whose relay is gone.
	relay := cfg
	relay.Routing.Mode = "off"
	follower, orphan := cfg, cfg
	follower.Cluster.Source.URL = "http://" + f.start(steering, relay, nil).AdminAddr().String() + "/snapshot"
	orphan.Cluster.Source.URL = "http://" + freeAddress(f.t) + "/snapshot"
	f.load(f.start(steering, follower, nil), 150*time.Millisecond, "GET /logs/_search", "GET /all/_search")
	f.load(f.start(steering, orphan, nil), 150*time.Millisecond, "GET /logs/_search")
}

// startOthers starts those that have a cluster, or a trouble, of their own.
func (f *fleet) startOthers() {
	t := f.t
	// Observes, measures rarely, tells clients of the nodes, cannot be reloaded, has no
	// room for its log, and nobody takes its spans.
	observe := settings(startCluster(t, 2).URLs()...)
	observe.Routing.Mode = "observe"
	observe.Cluster.StatsInterval = 3 * time.Second
	observe.Clients.Sniff = "pass"
	observe.Logs.Access.Output = "/dev/full"
	observe.Tracing.Endpoint, observe.Tracing.SampleRatio = "http://"+freeAddress(t), 1
	f.watcher = f.start(observing, observe, func() (config.Config, error) { return config.Config{}, errors.New("no such file") })
	f.load(f.watcher, 150*time.Millisecond, "GET /logs/_search", "GET /_nodes/http")

	// Has no cluster at all.
	f.start(blind, settings("http://"+freeAddress(t)), nil)

	// Has had one: what is known of it grows old.
	f.stale = startCluster(t, 2)
	f.load(f.start(stale, settings(f.stale.URLs()...), nil), 150*time.Millisecond, "GET /logs/_search")

	// Its cluster refuses preferences.
	forbidding := startCluster(t, 3)
	forbidding.SetStrictWeights(true)
	always := settings(forbidding.URLs()...)
	always.Routing.When = "always"
	f.load(f.start(strict, always, nil), 150*time.Millisecond, "GET /logs/_search")

	// Its cluster fails every search, every other second: searches are sent again, and
	// fail again.
	broken := startCluster(t, 3)
	f.failNowAndThen(broken)
	f.load(f.start(failing, settings(broken.URLs()...), nil), 150*time.Millisecond, "GET /logs/_search")

	// May not send probes.
	f.load(f.start(unprobed, withoutProbes(t, startCluster(t, 3)), nil), 150*time.Millisecond, "GET /logs/_search")

	// Keeps bulks on one shard, and may choose but one of three: a node is in trouble.
	lopsided := startCluster(t, 3)
	lopsided.Nodes()[0].SetFault(simcluster.Fault{Refuse: true})
	bulks := settings(lopsided.URLs()...)
	bulks.Bulk.SingleShard, bulks.Bulk.MaxSkew = []config.SingleShard{{Index: "logs"}}, 10
	f.load(f.start(uneven, bulks, nil), 50*time.Millisecond, "POST /logs/_bulk")

	// Gets more searches than it may send.
	limits := settings(startCluster(t, 2).URLs()...)
	limits.Admission.Mode, limits.Admission.Queue.Length = "auto", 1
	limits.Admission.Classes = []config.AdmissionClass{{Name: "default", Rate: 2}}
	busy := f.start(overloaded, limits, nil)
	for range 3 {
		f.load(busy, 50*time.Millisecond, "GET /logs/_search")
	}
	f.loadFor(20*time.Millisecond, busy, 50*time.Millisecond, "GET /logs/_search")

	// Is told nothing of the load of nodes, and admits searches all the same.
	untold := withoutPolls(t, startCluster(t, 3), func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/stats") })
	untold.Admission.Mode = "auto"
	f.load(f.start(unmeasured, untold, nil), 150*time.Millisecond, "GET /logs/_search")

	// Is down.
	f.targets[down] = []string{freeAddress(t)}

	// Will meet a node that is gone for a moment, and cannot keep the record of it: its folder is a link to one that is gone.
	f.brief = startCluster(t, 3)
	unkept := settings(f.brief.URLs()...)
	unkept.Diagnosis.Dir = filepath.Join(t.TempDir(), "records")
	require.NoError(t, os.Symlink(filepath.Join(t.TempDir(), "gone"), unkept.Diagnosis.Dir))
	f.keeper = f.start(forgetful, unkept, nil)
	f.load(f.keeper, 150*time.Millisecond, "GET /logs/_search")

	// Starts anew each second, as far as it tells.
	f.targets[restarting] = []string{restarts(t)}

	// Is well.
	f.load(f.start(well, settings(startCluster(t, 3).URLs()...), nil), 150*time.Millisecond, "GET /logs/_search", "GET /all/_count")
}

// startCluster starts a cluster in which every shard has two copies.
func startCluster(t *testing.T, nodes int) *simcluster.Cluster {
	t.Helper()
	c, err := simcluster.Start(simcluster.Options{
		Nodes: nodes, ServiceTime: 2 * time.Millisecond, Adaptive: true,
		Indices: []simcluster.IndexSpec{
			{Name: "logs", Shards: nodes, Replicas: 1, Aliases: []string{"all"}},
			{Name: "one", Shards: 1, Replicas: 1},
		},
	})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	return c
}

// stallInTurn has the nodes of c stop for a moment, one after the other, until the test
// ends: for less than one time in twenty, so that a search that meets it is overdue.
func (f *fleet) stallInTurn(c *simcluster.Cluster) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for turn := 0; ; turn++ {
			node := c.Nodes()[turn%len(c.Nodes())]
			node.SetFault(simcluster.Fault{Pause: true})
			time.Sleep(200 * time.Millisecond)
			node.SetFault(simcluster.Fault{})
			select {
			case <-f.t.Context().Done():
				return
			case <-time.After(4800 * time.Millisecond):
			}
		}
	}()
	f.t.Cleanup(func() { <-ended })
}

// failNowAndThen has c fail every search for a second, and none for the next, until the
// test ends. While failures are general nothing is sent again.
func (f *fleet) failNowAndThen(c *simcluster.Cluster) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for turn := 0; ; turn++ {
			fault := simcluster.Fault{}
			if turn%2 == 0 {
				fault.FailFast = http.StatusServiceUnavailable
			}
			for _, n := range c.Nodes() {
				n.SetFault(fault)
			}
			select {
			case <-f.t.Context().Done():
				return
			case <-time.After(time.Second):
			}
		}
	}()
	f.t.Cleanup(func() { <-ended })
}

// restarts returns the address of what tells Prometheus that it was started less than a second ago.
func restarts(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "process_start_time_seconds %d\nsidestep_build_info{version=\"1.2.3\"} 1\n", time.Now().Unix())
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// settings are the defaults, but for addresses.
func settings(urls ...string) config.Config {
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Upstream.URLs = urls
	cfg.Limits.DrainDelay = 0
	cfg.Clients.Sniff = "rewrite"
	return cfg
}

// withoutProbes puts a server before c that forbids probes, and returns settings for
// it.
func withoutProbes(t *testing.T, c *simcluster.Cluster) config.Config {
	t.Helper()
	return withoutPolls(t, c, func(r *http.Request) bool { return r.Header.Get("X-Opaque-Id") == "sidestep-probe" })
}

// withoutPolls does the same for requests of other kinds.
func withoutPolls(t *testing.T, c *simcluster.Cluster, forbidden func(*http.Request) bool) config.Config {
	t.Helper()
	node, err := url.Parse(c.URLs()[0])
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(node) }, Transport: transport, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if forbidden(r) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	cfg := settings(s.URL)
	cfg.Upstream.Discovery = "static"
	return cfg
}

// start starts a sidestep that is scraped; load may be nil.
func (f *fleet) start(job string, cfg config.Config, load func() (config.Config, error)) *app.App {
	f.t.Helper()
	a, err := app.New(cfg, app.Options{Version: "1.2.3", Registry: prometheus.NewRegistry(), Load: load})
	require.NoError(f.t, err)
	require.NoError(f.t, a.Start(f.t.Context()))
	f.t.Cleanup(func() {
		a.SkipDrain()
		ended, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = a.Stop(ended) // requests to nodes that hang are cut off
	})
	f.targets[job] = append(f.targets[job], a.AdminAddr().String())
	return a
}

// everything is one request of each kind that panels tell apart.
var everything = []string{
	"GET /logs/_search", "GET /all/_search", "GET /one/_search", "GET /logs/_search?preference=_local",
	"POST /all/_count", "GET /logs/_doc/1", "PUT /logs/_doc/1", "GET /missing/_search", "GET /_cluster/health", "GET /_nodes/http",
	"POST /_msearch",
}
