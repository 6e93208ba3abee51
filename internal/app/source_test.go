package app_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
	simcluster "sidestep/internal/sim/cluster"
)

// service is the one address of relays that come and go, as a Service of Kubernetes.
type service struct {
	*httptest.Server
	relay atomic.Pointer[url.URL] // nil: there is none
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(s.relay.Load()) },
		Transport: transport,
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.relay.Load() == nil {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(func() {
		s.Close()
		transport.CloseIdleConnections()
	})
	return s
}

// use puts a relay behind the address, nil none.
func (s *service) use(relay *sidestep) {
	if relay == nil {
		s.relay.Store(nil)
		return
	}
	s.relay.Store(&url.URL{Scheme: "http", Host: relay.AdminAddr().String()})
}

// fleetOf starts a simulated cluster, and returns a configuration for relays and one
// for sidecars that have the address for their relay.
func fleetOf(t *testing.T, at string) (c *simcluster.Cluster, relays, sidecars config.Config) {
	t.Helper()
	c, err := simcluster.Start(simcluster.Options{
		Nodes: 3, ServiceTime: time.Millisecond,
		Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 1, Replicas: 1, Aliases: []string{"all"}}},
	})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	relays = settings(c.URLs()...)
	relays.Explain.Header = "on" // what a relay tells does not show that the cluster has no security
	relays.Upstream.Discovery = "sniff"
	sidecars = relays
	sidecars.Cluster.Source.URL = at + "/snapshot"
	sidecars.Cluster.Source.Silence = 2 * time.Second
	return c, relays, sidecars
}

// source tells where what s knows comes from.
func (s *sidestep) source() string {
	for _, source := range []string{"relay", "polls"} {
		if strings.Contains(s.get(s.adminURL("/metrics")).body, `sidestep_cluster_source{source="`+source+`"} 1`) {
			return source
		}
	}
	return ""
}

// polls counts the polls of the cluster that s made.
func (s *sidestep) polls() (n float64) {
	s.t.Helper()
	families, err := s.registry.Gather()
	require.NoError(s.t, err)
	for _, f := range families {
		if f.GetName() != "sidestep_cluster_polls_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() != "relay" {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// steers waits until searches on a target are steered.
func (s *sidestep) steers(target string) {
	s.t.Helper()
	s.eventually(func() bool {
		got := s.get(s.dataURL("/"+target+"/_search"), "X-Sidestep-Explain", "1")
		return got.status == http.StatusOK && strings.Contains(got.header.Get("X-Sidestep-Decision"), "reason=ranked")
	}, "searches on "+target+" are steered")
}

// Sidecars whose relay goes away keep routing, poll for themselves, and return to a
// relay when there is one, and no search fails.
func TestSidecarsOutliveTheirRelay(t *testing.T) {
	t.Parallel()
	at := newService(t)
	cluster, relays, sidecars := fleetOf(t, at.URL)
	relay := startReady(t, relays, nil)
	at.use(relay)
	fleet := []*sidestep{startReady(t, sidecars, nil), startReady(t, sidecars, nil)}
	for _, s := range fleet {
		s.eventually(func() bool { return s.source() == "relay" }, "it follows the relay")
		s.steers("logs")
		s.steers("all")
		require.InDelta(t, 1, s.polls(), 0, "it asked the cluster but who it is")
	}
	finish := []func() (int, []string){traffic(fleet[0]), traffic(fleet[1])}

	at.use(nil)
	require.NoError(t, relay.Stop(t.Context()))
	for _, s := range fleet {
		s.eventually(func() bool { return s.source() == "polls" }, "it polls")
		require.NoError(t, s.Ready())
		require.Contains(t, s.log.String(), "the relay does not answer: the cluster is polled from here")
	}
	require.NoError(t, cluster.CreateIndex(simcluster.IndexSpec{Name: "meanwhile", Shards: 1, Replicas: 1}))
	for _, s := range fleet {
		s.steers("logs")
		s.steers("meanwhile")
	}

	second := startReady(t, relays, nil)
	at.use(second)
	for _, s := range fleet {
		s.eventually(func() bool { return s.source() == "relay" }, "it follows the second relay")
	}
	require.NoError(t, cluster.CreateIndex(simcluster.IndexSpec{Name: "afterwards", Shards: 1, Replicas: 1}))
	for i, s := range fleet {
		s.steers("logs")
		s.steers("afterwards")
		before := s.polls()
		time.Sleep(5 * sidecars.Cluster.StatsInterval)
		require.InDelta(t, before, s.polls(), 0, "it polls no more")
		answered, failures := finish[i]()
		require.Empty(t, failures)
		require.Positive(t, answered)
	}
}

func TestRelayWithTLSAndAToken(t *testing.T) {
	t.Parallel()
	trusted, dir := newAuthority(t), t.TempDir()
	_, relays, sidecars := fleetOf(t, "")
	relays.Admin.TLS.CertFile, relays.Admin.TLS.KeyFile = trusted.files(dir, "relay")
	relays.Admin.SnapshotTokenFile = write(t, dir, "relay-token", []byte("opensesame\n"))
	relays.Upstream.Auth.APIKeyFile = write(t, dir, "key", []byte("topsecret"))
	relay := startReady(t, relays, nil)
	at := "https://" + relay.AdminAddr().String() + "/snapshot"

	sidecars.Cluster.Source.URL = at
	sidecars.Cluster.Source.TLS.CAFile = write(t, dir, "ca.pem", trusted.pem)
	sidecars.Cluster.Source.BearerTokenFile = write(t, dir, "token", []byte("guessed"))
	s := startReady(t, sidecars, nil)
	require.Equal(t, "polls", s.source(), "a token that is not right is refused")
	write(t, dir, "token", []byte("opensesame"))
	s.eventually(func() bool { return s.source() == "relay" }, "a token that is put right is used at once")
	s.steers("logs")

	client := tlsClient(t, trusted)
	for _, header := range []string{"", "Bearer ", "Bearer opensesam", "Basic opensesame", "opensesame"} {
		got, err := ask(t, client, "GET "+at+"?version=1", "", "Authorization", header)
		require.NoError(t, err)
		require.Equal(t, http.StatusUnauthorized, got.status, header)
	}
	got, err := ask(t, client, "GET "+at+"?version=1", "", "Authorization", "Bearer opensesame")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.status)
	require.Contains(t, got.body, `"uuid"`)
	for _, secret := range []string{"topsecret", "opensesame"} {
		require.NotContains(t, got.body, secret)
		require.NotContains(t, relay.log.String(), secret)
		require.NotContains(t, s.log.String(), secret)
	}
	require.NoError(t, os.Remove(relays.Admin.SnapshotTokenFile))
	got, err = ask(t, client, "GET "+at+"?version=1", "", "Authorization", "Bearer opensesame")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.status, "while the file is missing the last token holds")
}

// The token is asked for as soon as a reload names one, and nothing is forgotten for it.
func TestATokenForTheSnapshotForgetsNothing(t *testing.T) {
	cfg := settings(newUpstream(t).URL)
	s := startReady(t, cfg, nil)
	require.Equal(t, http.StatusOK, s.get(s.dataURL("/logs/_search")).status)
	require.Equal(t, http.StatusOK, s.admin("GET /snapshot?version=1", "").status)
	cfg.Admin.SnapshotTokenFile = write(t, t.TempDir(), "token", []byte("opensesame"))
	require.NoError(t, s.Reload(cfg))
	require.Equal(t, http.StatusUnauthorized, s.admin("GET /snapshot?version=1", "").status)
	require.Equal(t, http.StatusOK, s.admin("GET /snapshot?version=1", "", "Authorization", "Bearer opensesame").status)
	require.Regexp(t, `"requests": [1-9]`, s.get(s.adminURL("/status")).body)
}

func TestReloadChangesTheSource(t *testing.T) {
	t.Parallel()
	at := newService(t)
	_, relays, sidecars := fleetOf(t, at.URL)
	relay := startReady(t, relays, nil)
	at.use(relay)
	s := startReady(t, relays, nil)
	require.Equal(t, "polls", s.source())
	s.steers("logs")
	cfg := relays
	cfg.Cluster.Source = sidecars.Cluster.Source
	finish := traffic(s)
	for _, c := range []struct {
		cfg  config.Config
		want string
	}{{cfg, "relay"}, {relays, "polls"}, {cfg, "relay"}} {
		require.NoError(t, s.Reload(c.cfg))
		require.Equal(t, c.want, s.source())
		s.steers("logs")
	}
	answered, failures := finish()
	require.Empty(t, failures)
	require.Positive(t, answered)
}

// That a relay is silent is no reason to refuse a reload: the cluster is polled in its place.
func TestReloadWhileTheRelayIsSilent(t *testing.T) {
	t.Parallel()
	_, relays, sidecars := fleetOf(t, "http://127.0.0.1:1")
	s := startReady(t, relays, nil)
	sidecars.Cluster.PollTimeout, sidecars.Cluster.Source.Silence = 2*time.Second, 5*time.Second
	require.NoError(t, s.Reload(sidecars))
	require.Equal(t, "polls", s.source())
}

// A relay probes for its sidecars: one that searches now and then ejects a slow node because of what
// the relay's probes found, and lets it in again, and hardly probes itself.
func TestARelayProbesForItsSidecars(t *testing.T) {
	t.Parallel()
	at := newService(t)
	_, relays, sidecars := fleetOf(t, at.URL)
	cluster, err := simcluster.Start(simcluster.Options{
		Nodes: 5, ServiceTime: time.Millisecond, Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 5, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(cluster.Stop)
	relays.Upstream.URLs, sidecars.Upstream.URLs = cluster.URLs(), cluster.URLs()
	for _, cfg := range []*config.Config{&relays, &sidecars} {
		cfg.Routing.When = "outlier"
	}
	relays.Routing.Mode = "observe"
	relay := startReady(t, relays, nil)
	at.use(relay)
	sidecar := startReady(t, sidecars, nil)
	sidecar.eventually(func() bool { return sidecar.source() == "relay" }, "it follows the relay")
	bad := cluster.Nodes()[2]
	all := func(want string) func() bool {
		return func() bool {
			require.Equal(t, http.StatusOK, sidecar.get(sidecar.dataURL("/logs/_search")).status)
			time.Sleep(100 * time.Millisecond)
			return relay.stateOf(bad.Name()) == want && sidecar.stateOf(bad.Name()) == want
		}
	}
	sidecar.eventually(all("fine"), "nothing is wrong")
	bad.SetFault(simcluster.Fault{Extra: 400 * time.Millisecond})
	sidecar.eventually(all("slow"), "both find the node slow, though nothing is searched through the relay")
	require.NotContains(t, relay.log.String(), "sent by another sidestep", "it probes itself")
	bad.SetFault(simcluster.Fault{})
	sidecar.eventually(all("fine"), "both use it again")
}

func TestRotatedRelayAuthoritiesAreUsedAtOnce(t *testing.T) {
	t.Parallel()
	trusted, dir := newAuthority(t), t.TempDir()
	_, relays, sidecars := fleetOf(t, "")
	relays.Admin.TLS.CertFile, relays.Admin.TLS.KeyFile = trusted.files(dir, "relay")
	relay := start(t, relays, nil)
	sidecars.Cluster.Source.URL = "https://" + relay.AdminAddr().String() + "/snapshot"
	sidecars.Cluster.Source.TLS.CAFile = write(t, dir, "ca.pem", newAuthority(t).pem)
	s := startReady(t, sidecars, nil)
	require.Equal(t, "polls", s.source())
	write(t, dir, "ca.pem", trusted.pem)
	s.eventually(func() bool { return s.source() == "relay" }, "it follows the relay")
}
