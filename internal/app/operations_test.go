package app_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
	"sidestep/internal/es"
	simcluster "sidestep/internal/sim/cluster"
)

// TestEverySteeredOperationHasASwitch keeps routing.operations equal to what is
// steered.
func TestEverySteeredOperationHasASwitch(t *testing.T) {
	var steered []string
	for _, op := range es.Operations() {
		if op.Steering() != es.SteerNone {
			steered = append(steered, string(op))
		}
	}
	require.ElementsMatch(t, steered, config.Operations{}.Off())
	for i := range reflect.TypeFor[config.Operations]().NumField() {
		require.Equal(t, reflect.Bool, reflect.TypeFor[config.Operations]().Field(i).Type.Kind())
	}
}

// post asks with POST and returns why the request was or was not steered.
func (s *sidestep) post(pathAndQuery, body string) (reason string, got answer) {
	s.t.Helper()
	got, err := ask(s.t, s.client, "POST "+s.dataURL(pathAndQuery), body, "X-Sidestep-Explain", "1")
	require.NoError(s.t, err)
	_, rest, _ := strings.Cut(got.header.Get("X-Sidestep-Decision"), "reason=")
	reason, _, _ = strings.Cut(rest, ";")
	return reason, got
}

func TestOperationsAreSwitchedByAReload(t *testing.T) {
	cfg := settings(newUpstream(t).URL)
	cfg.Routing.When = "always"
	s := startReady(t, cfg, nil)
	is := func(want ...string) {
		t.Helper()
		reason, got := s.post("/logs/_count", "")
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Contains(t, want, reason)
	}
	is("ranked", "no_statistics")
	cfg.Routing.Operations.Count = false
	require.NoError(t, s.Reload(cfg))
	is("operation_off")
	reason, _ := s.post("/logs/_search", "")
	require.NotEqual(t, "operation_off", reason)
	cfg.Routing.Operations.Count = true
	require.NoError(t, s.Reload(cfg))
	is("ranked", "no_statistics")
}

// awaitRanked asks until the answer comes from copies chosen by rank. On a busy
// machine other nodes may look slow for a while, too.
func (s *sidestep) awaitRanked(pathAndQuery, body string) answer {
	s.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		reason, got := s.post(pathAndQuery, body)
		require.Equal(s.t, http.StatusOK, got.status, got.body)
		if reason == "ranked" {
			return got
		}
		require.True(s.t, time.Now().Before(end), "%s: %s", pathAndQuery, reason)
	}
}

// TestOperationsAvoidASlowNode has every operation served without the slow node of a
// simulated cluster.
func TestOperationsAvoidASlowNode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		engine string
		async  string
		pit    string
	}{
		{simcluster.Elasticsearch, "/items/_async_search", "/items/_pit?keep_alive=1m"},
		{simcluster.OpenSearch, "/_plugins/_asynchronous_search?index=items", "/items/_search/point_in_time?keep_alive=1m"},
	} {
		t.Run(tc.engine, func(t *testing.T) {
			c, err := simcluster.Start(simcluster.Options{
				Engine: tc.engine, Nodes: 3, ServiceTime: 15 * time.Millisecond, Sigma: -1, Seed: 1,
				Indices: []simcluster.IndexSpec{{Name: "items", Shards: 3, Replicas: 1}},
			})
			require.NoError(t, err)
			t.Cleanup(c.Stop)
			s := inFrontOf(t, c, nil)
			slow := c.Nodes()[1]
			slow.SetFault(simcluster.Fault{Extra: 500 * time.Millisecond})
			s.awaitRanked("/items/_search", "")
			var open struct {
				ES string `json:"id"`
				OS string `json:"pit_id"`
			}
			for _, r := range []struct{ uri, body string }{
				{"/items/_count", ""}, {"/items/_search/template", `{"source":{"size":3}}`}, {tc.async, `{"size":3}`}, {tc.pit, ""},
			} {
				got := s.awaitRanked(r.uri, r.body)
				// On a busy machine another node may look slower for a moment.
				for range 20 {
					if !strings.Contains(got.header.Get("X-Sidestep-Decision"), slow.Name()) {
						break
					}
					time.Sleep(500 * time.Millisecond)
					got = s.awaitRanked(r.uri, r.body)
				}
				require.NotContains(t, got.header.Get("X-Sidestep-Decision"), slow.Name(), r.uri)
				require.NoError(t, json.Unmarshal([]byte(got.body), &open))
			}
			reason, got := s.post("/_search?explain=true", `{"pit":{"id":"`+open.ES+open.OS+`"}}`)
			require.Equal(t, http.StatusOK, got.status, got.body)
			require.Equal(t, "pit", reason)
			require.NotContains(t, got.body, `"_node":"`+slow.ID()+`"`, "served where it was opened")
		})
	}
}
