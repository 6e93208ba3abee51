package app_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/app"
	"sidestep/internal/config"
	"sidestep/internal/proxy"
	simcluster "sidestep/internal/sim/cluster"
)

func TestNewTellsEveryProblem(t *testing.T) {
	cfg := config.Default()
	cfg.Routing.Mode = "on"
	_, err := app.New(cfg, app.Options{})
	require.Regexp(t, `^upstream\.urls: at least one node is needed.*\nrouting\.mode: "on" is not one of.*$`, err.Error())
}

func TestStartNamesTheAddressesThatAreTaken(t *testing.T) {
	cfg := settings("http://127.0.0.1:1")
	var want string
	for _, l := range []struct {
		key     string
		address *string
	}{{"listen", &cfg.Listen}, {"admin.listen", &cfg.Admin.Listen}} {
		taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = taken.Close() })
		*l.address = taken.Addr().String()
		want += l.key + ": cannot listen on " + *l.address + ": bind: address already in use\n"
	}
	a, err := app.New(cfg, app.Options{})
	require.NoError(t, err)
	require.EqualError(t, a.Start(t.Context()), want[:len(want)-1])
	require.Nil(t, a.DataAddr())
}

func TestStopWithoutStart(t *testing.T) {
	a, err := app.New(settings("http://127.0.0.1:1"), app.Options{})
	require.NoError(t, err)
	require.NoError(t, a.Stop(t.Context()))
}

func TestServesBeforeTheUpstreamIsThere(t *testing.T) {
	u := prepareUpstream(t)
	address := u.Listener.Addr().String()
	require.NoError(t, u.Listener.Close())

	s := start(t, settings("http://"+address), nil)
	require.Equal(t, http.StatusOK, s.get(s.adminURL("/-/healthy")).status)
	notReady := s.get(s.adminURL("/-/ready"))
	require.Equal(t, http.StatusServiceUnavailable, notReady.status)
	require.Contains(t, notReady.body, "not ready: ")

	refused := s.get(s.dataURL("/logs/_search"))
	require.Equal(t, http.StatusServiceUnavailable, refused.status)
	require.Contains(t, refused.header.Get("Content-Type"), "application/json")
	var shape struct {
		Error struct {
			Type      string              `json:"type"`
			Reason    string              `json:"reason"`
			RootCause []map[string]string `json:"root_cause"`
		} `json:"error"`
		Status int `json:"status"`
	}
	require.NoError(t, json.Unmarshal([]byte(refused.body), &shape), refused.body)
	require.Equal(t, http.StatusServiceUnavailable, shape.Status)
	require.NotEmpty(t, shape.Error.Type)
	require.NotEmpty(t, shape.Error.RootCause)

	var err error
	u.Listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	u.Start()
	s.awaitReady()
	ready := s.get(s.adminURL("/-/ready"))
	require.Equal(t, []any{http.StatusOK, "ready\n"}, []any{ready.status, ready.body})
	require.Equal(t, http.StatusOK, s.get(s.dataURL("/logs/_search")).status)
}

func TestSteersAndExplains(t *testing.T) {
	simulated, err := simcluster.Start(simcluster.Options{
		Nodes: 3, ServiceTime: time.Millisecond,
		Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 2, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(simulated.Stop)
	cfg := settings(simulated.URLs()[0])
	cfg.Upstream.Discovery = "sniff"
	cfg.Routing.When = "always"
	s := startReady(t, cfg, nil)

	found := s.get(s.dataURL("/logs/_search"), "X-Sidestep-Explain", "1")
	require.Equal(t, http.StatusOK, found.status, found.body)
	require.Contains(t, found.header.Get("X-Sidestep-Decision"), "mode=route")

	var nodes []struct{ Name, Address string }
	require.NoError(t, json.Unmarshal([]byte(s.get(s.adminURL("/nodes")).body), &nodes))
	require.Len(t, nodes, 3)
	var explained struct {
		Steered bool
		Shards  []any
	}
	require.NoError(t, json.Unmarshal([]byte(s.get(s.adminURL("/explain?target=logs")).body), &explained))
	require.True(t, explained.Steered)
	require.Len(t, explained.Shards, 2)

	metrics := s.get(s.adminURL("/metrics")).body
	for _, want := range []string{
		`sidestep_build_info{goversion="go`, `revision="0a1b2c3d",version="1.2.3"} 1`,
		`sidestep_requests_total{operation="search"`, `sidestep_node_rank{`,
		`sidestep_config_last_reload_successful 1`, `go_goroutines `, `process_resident_memory_bytes `,
	} {
		require.Contains(t, metrics, want)
	}
	families, err := s.registry.Gather()
	require.NoError(t, err)
	require.NotEmpty(t, families)
}

func TestSwitch(t *testing.T) {
	s := startReady(t, settings(newUpstream(t).URL), nil)
	require.JSONEq(t, `{"mode":"route"}`, s.get(s.adminURL("/-/routing")).body)
	got, err := ask(t, s.client, "PUT "+s.adminURL("/-/routing"), `{"mode":"off"}`)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, proxy.ModeOff, s.Mode())
	require.Contains(t, s.get(s.dataURL("/logs/_search"), "X-Sidestep-Explain", "1").header.Get("X-Sidestep-Decision"), "mode=off")

	got, err = ask(t, s.client, "PUT "+s.adminURL("/-/routing"), `{"mode":"on"}`)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, got.status)
	require.Contains(t, got.body, `"observe"`)
	require.Equal(t, proxy.ModeOff, s.Mode())
}

// held makes a request that the upstream keeps, and returns where its answer
// will come.
func held(t *testing.T, s *sidestep, u *upstream) <-chan answer {
	t.Helper()
	answers := make(chan answer, 1)
	target := s.dataURL("/held")
	go func() {
		got, err := ask(t, s.client, "GET "+target, "")
		if err != nil {
			got.body = err.Error()
		}
		answers <- got
	}()
	<-u.arrived
	return answers
}

func TestStopFinishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.holding = make(chan struct{})
	s := startReady(t, settings(u.URL), nil)
	data := s.dataURL("/")
	answers := held(t, s, u)

	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	require.Eventually(t, func() bool { return s.Ready() != nil }, patience, time.Millisecond)
	ready := s.get(s.adminURL("/-/ready"))
	require.Equal(t, http.StatusServiceUnavailable, ready.status)
	require.Contains(t, ready.body, "stopping")
	require.Eventually(t, func() bool {
		_, err := ask(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "GET "+data, "")
		return err != nil
	}, patience, 5*time.Millisecond, "still takes connections")
	select {
	case err := <-stopped:
		t.Fatalf("stopped before the request was answered: %v", err)
	default:
	}

	close(u.holding)
	require.Equal(t, "released", (<-answers).body)
	require.NoError(t, <-stopped)
	_, err := ask(t, s.client, "GET "+s.adminURL("/-/healthy"), "")
	require.Error(t, err)
}

func TestStopCutsOffAfterTheGrace(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.holding = make(chan struct{})
	defer close(u.holding)
	cfg := settings(u.URL)
	cfg.Limits.ShutdownGrace = 50 * time.Millisecond
	cfg.Logs.Access.Output = filepath.Join(t.TempDir(), "access.log")
	a, err := app.New(cfg, app.Options{})
	require.NoError(t, err)
	require.NoError(t, a.Start(t.Context()))
	s := &sidestep{App: a, t: t, client: &http.Client{Transport: &http.Transport{}}}
	answers := held(t, s, u)

	err = a.Stop(context.Background())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "listen: requests were still in flight")
	require.Equal(t, err, a.Stop(context.Background()), "a second Stop returns the same")
	require.NotEqual(t, "released", (<-answers).body)
	logged := lines(t, cfg.Logs.Access.Output)
	require.Len(t, logged, 1, "what is cut off is logged, too")
	require.Equal(t, "/held", logged[0]["path"])
}

// The engine answers these itself; a ServeMux or the server would not let them
// through.
func TestOddRequestsReachTheUpstream(t *testing.T) {
	u := newUpstream(t)
	s := start(t, settings(u.URL), nil)
	for line, path := range map[string]string{
		"GET //logs//_search": "//logs//_search",
		"GET /a/../logs":      "/a/../logs",
		"OPTIONS *":           "*",
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.DataAddr().String())
		require.NoError(t, err)
		_, err = io.WriteString(conn, line+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		_, err = io.ReadAll(conn)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.Len(t, u.seen(path), 1, line)
	}
}
