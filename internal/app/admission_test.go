package app_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
	simcluster "sidestep/internal/sim/cluster"
)

// Admission from end to end: it is configured, shown by /nodes and /metrics, and a switch
// at run time stays over a reload that does not change it.
func TestAdmissionIsConfiguredShownAndSwitched(t *testing.T) {
	simulated, err := simcluster.Start(simcluster.Options{
		Nodes: 2, Threads: 2, QueueSize: 7, ServiceTime: time.Millisecond,
		Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 2, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(simulated.Stop)
	cfg := settings(simulated.URLs()...)
	cfg.Admission.Mode, cfg.Admission.Max = "auto", 5
	cfg.Admission.Classes = []config.AdmissionClass{{Name: "vip", Match: config.AdmissionMatch{OpaqueIDPrefix: "vip"}, Weight: 3}}
	s := startReady(t, cfg, nil)
	require.Equal(t, http.StatusOK, s.get(s.dataURL("/logs/_search")).status)
	require.JSONEq(t, `{"mode":"auto"}`, s.get(s.adminURL("/-/admission")).body)
	require.Eventually(t, func() bool {
		var nodes []struct {
			Limit *float64 `json:"limit"`
		}
		require.NoError(t, json.Unmarshal([]byte(s.get(s.adminURL("/nodes")).body), &nodes))
		return len(nodes) == 2 && nodes[0].Limit != nil && *nodes[0].Limit == 5
	}, time.Minute, 10*time.Millisecond)
	require.Contains(t, s.get(s.adminURL("/metrics")).body, `sidestep_admission_admitted_total{class="vip"} 0`)
	refused := s.admin("PUT /-/admission", `{"mode":"target"}`)
	require.Equal(t, http.StatusConflict, refused.status)
	require.Contains(t, refused.body, "admission.target_response_time")
	const observe = `{"mode":"observe"}`
	require.Equal(t, http.StatusOK, s.admin("PUT /-/admission", observe).status)
	cfg.Admission.Min = 2
	require.NoError(t, s.Reload(cfg))
	require.JSONEq(t, observe, s.admin("GET /-/admission", "").body)
	cfg.Admission.Mode = "off"
	require.NoError(t, s.Reload(cfg))
	require.JSONEq(t, off, s.admin("GET /-/admission", "").body)
}

// Writes are shown while searches are not admitted by it.
func TestAdmissionOfWritesAloneIsShown(t *testing.T) {
	simulated, err := simcluster.Start(simcluster.Options{Nodes: 1})
	require.NoError(t, err)
	t.Cleanup(simulated.Stop)
	cfg := settings(simulated.URLs()...)
	s := startReady(t, cfg, nil)
	require.NotContains(t, s.get(s.adminURL("/status")).body, `"admission"`)
	cfg.Admission.Writes.Mode = "auto"
	require.NoError(t, s.Reload(cfg))
	require.Regexp(t, `"admission": *\{\s*"mode": *"off",\s*"writes": *"auto"`, s.get(s.adminURL("/status")).body)
	require.Contains(t, s.get(s.adminURL("/status")).body, `"class": "writes"`)
}
