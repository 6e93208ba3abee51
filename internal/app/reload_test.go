package app_test

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
	"sidestep/internal/proxy"
)

// traffic sends searches from several clients until the function returned is
// called, which tells how many were answered and what went wrong.
func traffic(s *sidestep) func() (answered int, failures []string) {
	var answered atomic.Int64
	finish := trafficOf(s, 4, &answered)
	return func() (int, []string) {
		failures := finish()
		return int(answered.Load()), failures
	}
}

// trafficOf sends searches from so many clients, and counts what is answered, until the function returned is
// called, which tells what went wrong.
func trafficOf(s *sidestep, clients int, answered *atomic.Int64) (finish func() (failures []string)) {
	var group sync.WaitGroup
	var mu sync.Mutex
	var failures []string
	done := make(chan struct{})
	target := "GET " + s.dataURL("/logs/_search")
	for range clients {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				got, err := ask(s.t, s.client, target, "")
				mu.Lock()
				switch {
				case err != nil:
					failures = append(failures, err.Error())
				case got.status != http.StatusOK:
					failures = append(failures, got.body)
				default:
					answered.Add(1)
				}
				mu.Unlock()
			}
		})
	}
	return func() []string {
		close(done)
		group.Wait()
		return failures
	}
}

func TestReloadDropsNothing(t *testing.T) {
	a, b := newUpstream(t), newUpstream(t)
	a.holding = make(chan struct{})
	cfg := settings(a.URL)
	s := startReady(t, cfg, nil)
	answers := held(t, s, a)
	finish := traffic(s)
	for i := range 6 {
		cfg.Upstream.URLs = []string{[]string{b.URL, a.URL}[i%2]}
		require.NoError(t, s.Reload(cfg))
		require.NoError(t, s.Ready(), "a reload keeps it ready")
	}
	before := len(b.seen("/logs"))
	cfg.Upstream.URLs = []string{b.URL}
	require.NoError(t, s.Reload(cfg))
	require.Eventually(t, func() bool { return len(b.seen("/logs")) > before+10 }, patience, time.Millisecond)
	close(a.holding)
	require.Equal(t, "released", (<-answers).body, "a request in flight ends on the pipeline it began on")

	answered, failures := finish()
	require.Empty(t, failures)
	require.Positive(t, answered)
	polls := len(a.seen("/_nodes"))
	time.Sleep(5 * cfg.Cluster.StatsInterval)
	require.Len(t, a.seen("/_nodes"), polls, "the old upstream is polled no more")
	_, err := s.registry.Gather()
	require.NoError(t, err, "metrics of two pipelines must not meet")
}

func TestReloadAppliesTheLogLevel(t *testing.T) {
	cfg := settings(newUpstream(t).URL)
	s := startReady(t, cfg, nil)
	require.Equal(t, slog.LevelInfo, s.level.Level())
	cfg.Log.Level = "warn"
	require.NoError(t, s.Reload(cfg))
	require.Equal(t, slog.LevelWarn, s.level.Level())
}

func TestTheLogLevelHoldsFromTheBeginning(t *testing.T) {
	cfg := settings(newUpstream(t).URL)
	cfg.Log.Level, cfg.Routing.Policy = "error", "c3"
	require.NotContains(t, startReady(t, cfg, nil).log.String(), "level=WARN")
}

func TestRetiredPolicyIsAcceptedWithAWarning(t *testing.T) {
	cfg := settings(newUpstream(t).URL)
	s := startReady(t, cfg, nil)
	require.NotContains(t, s.log.String(), "routing.policy")
	s.get(s.dataURL("/logs/_search"))
	for i, policy := range []string{"adaptive", "ars"} {
		cfg.Routing.Policy = policy
		require.NoError(t, s.Reload(cfg))
		require.Equal(t, i+1, strings.Count(s.log.String(), `level=WARN msg="routing.policy says nothing any more`))
		require.Regexp(t, `"requests": [1-9]`, s.get(s.adminURL("/status")).body, "nothing else changes, so nothing is forgotten")
	}
}

func TestAClassOfReadsByIDIsAcceptedWithAWarning(t *testing.T) {
	cfg := settings(newUpstream(t).URL)
	cfg.Admission.Classes = []config.AdmissionClass{{Name: "reads", Match: config.AdmissionMatch{Operation: "mget"}}}
	require.Regexp(t, `level=WARN msg="reads by id never wait, .*" class=reads`, startReady(t, cfg, nil).log.String())
}

func TestReloadAndTheSwitch(t *testing.T) {
	cfg := settings(newUpstream(t).URL)
	s := startReady(t, cfg, nil)
	require.NoError(t, s.SetMode(proxy.ModeOff))

	cfg.Routing.Policy = "round_robin"
	require.NoError(t, s.Reload(cfg))
	require.Equal(t, proxy.ModeOff, s.Mode(), "what was switched by hand outlives a reload")

	cfg.Routing.Mode = "observe"
	require.NoError(t, s.Reload(cfg))
	require.Equal(t, proxy.ModeObserve, s.Mode(), "unless the configured mode has changed")
	require.Error(t, s.SetMode("on"))
	require.Equal(t, proxy.ModeObserve, s.Mode())
}

// What is known of the nodes and counted so far is worth more than a new mode.
func TestReloadOfAModeForgetsNothing(t *testing.T) {
	cfg := settings(newUpstream(t).URL)
	s := startReady(t, cfg, nil)
	s.get(s.dataURL("/logs/_search"))
	for _, change := range []func(){
		func() { cfg.Routing.Mode = "observe" }, func() { cfg.Bulk.Mode = "observe" }, func() { cfg.Admission.Mode = "observe" },
	} {
		change()
		require.NoError(t, s.Reload(cfg))
		require.Regexp(t, `"requests": [1-9]`, s.get(s.adminURL("/status")).body)
	}
	require.JSONEq(t, `{"mode":"observe"}`, s.get(s.adminURL("/-/bulk")).body)
	require.JSONEq(t, `{"mode":"observe"}`, s.get(s.adminURL("/-/admission")).body)
	require.Equal(t, http.StatusOK, s.admin("PUT /-/bulk", off).status)
	cfg.Log.Level = "warn"
	require.NoError(t, s.Reload(cfg))
	require.JSONEq(t, off, s.admin("GET /-/bulk", "").body, "the configured mode has not changed")
}

func TestReloadRefusesWhatNeedsARestart(t *testing.T) {
	cfg := settings(newUpstream(t).URL)
	s := startReady(t, cfg, nil)
	changed := cfg
	changed.Listen = "127.0.0.1:9299"
	changed.Admin.Listen = "127.0.0.1:9298"
	changed.Limits.ReadHeaderTimeout = time.Minute
	changed.Limits.ConcurrentStreams = 0
	changed.Log.Format = "json"
	changed.Routing.Mode = "off"
	err := s.Reload(changed)
	const why = ": cannot change while running: restart sidestep, or restore the old value"
	paths := []string{"listen", "admin.listen", "limits.read_header_timeout", "limits.concurrent_streams", "log.format"}
	require.EqualError(t, err, strings.Join(paths, why+"\n")+why)
	require.Equal(t, proxy.ModeRoute, s.Mode(), "nothing was applied")
}

func TestBadReloadKeepsTheOld(t *testing.T) {
	u := newUpstream(t)
	cfg := settings(u.URL)
	next, loadErr := cfg, error(nil)
	s := startReady(t, cfg, func() (config.Config, error) { return next, loadErr })
	finish := traffic(s)
	reload := func() answer {
		got, err := ask(t, s.client, "POST "+s.adminURL("/-/reload"), "")
		require.NoError(t, err)
		return got
	}
	metrics := func() string { return s.get(s.adminURL("/metrics")).body }

	loadErr = errors.New("sidestep.yaml:3: listen: no")
	got := reload()
	require.Equal(t, http.StatusUnprocessableEntity, got.status)
	require.JSONEq(t, `{"error":"not reloaded: the old configuration stays","problems":["sidestep.yaml:3: listen: no"]}`, got.body)
	require.Contains(t, metrics(), "sidestep_config_last_reload_successful 0")

	loadErr = nil
	next.Upstream.URLs = nil
	require.Contains(t, reload().body, "upstream.urls: at least one node is needed")

	next = cfg
	next.Upstream.URLs = []string{"http://127.0.0.1:1"}
	next.Cluster.PollTimeout = 20 * time.Millisecond
	require.Contains(t, reload().body, "the cluster does not answer with the new configuration, so the old one is kept")

	next = cfg
	got = reload()
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Contains(t, metrics(), "sidestep_config_last_reload_successful 1")
	answered, failures := finish()
	assert.Empty(t, failures)
	require.Positive(t, answered)
}

// An upstream that does not work is no reason to refuse another that does not
// work yet.
func TestReloadFromOneDeadUpstreamToAnother(t *testing.T) {
	cfg := settings("http://127.0.0.1:1")
	s := start(t, cfg, nil)
	cfg.Upstream.URLs = []string{"http://127.0.0.1:2"}
	require.NoError(t, s.Reload(cfg))
	cfg.Upstream.URLs = []string{newUpstream(t).URL}
	require.NoError(t, s.Reload(cfg))
	s.awaitReady()
}

// While the cluster is away another view of it would tell nothing: the old one stays, with what it knows. Settings that have
// nothing to do with that are in force at once.
func TestReloadWhileTheClusterIsAway(t *testing.T) {
	u := newUpstream(t)
	cfg := settings(u.URL)
	cfg.Cluster.PollTimeout = 20 * time.Millisecond
	s := startReady(t, cfg, nil)
	u.Close()
	changed := cfg
	changed.Cluster.StatsTimeout *= 2
	require.ErrorContains(t, s.Reload(changed), "the cluster does not answer")
	require.NoError(t, s.Ready())
	cfg.Admission.Mode, cfg.Admission.Max = "observe", 5
	require.NoError(t, s.Reload(cfg))
	require.NoError(t, s.Ready())
	require.JSONEq(t, `{"mode":"observe"}`, s.get(s.adminURL("/-/admission")).body)
}

func TestReloadWithoutASource(t *testing.T) {
	t.Parallel()
	s := start(t, settings("http://127.0.0.1:1"), nil)
	require.EqualError(t, s.ReloadConfig(), "there is no configuration to read again")
	require.NoError(t, s.Stop(t.Context()))
	require.EqualError(t, s.Reload(settings("http://127.0.0.1:2")), "sidestep is stopping")
}
