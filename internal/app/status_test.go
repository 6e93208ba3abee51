package app_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/admin"
)

func TestStatus(t *testing.T) {
	u := newUpstream(t)
	s := startReady(t, settings(u.URL), nil)
	for range 3 {
		require.Equal(t, http.StatusOK, s.get(s.dataURL("/logs/_search?preference=_local")).status)
	}
	got := s.get(s.adminURL("/status"))
	require.Equal(t, http.StatusOK, got.status)
	var status struct {
		admin.Status
		Nodes []struct {
			Node  string     `json:"name"`
			State string     `json:"state"`
			Since *time.Time `json:"since"`
		} `json:"nodes"`
	}
	require.NoError(t, json.Unmarshal([]byte(got.body), &status))
	require.WithinDuration(t, time.Now(), status.At, patience)
	require.Equal(t, "1.2.3", status.Version)
	require.Equal(t, "route", status.Mode)
	require.Equal(t, admin.Readiness{OK: true}, status.Ready)
	require.Equal(t, admin.Engine{Name: "opensearch", Version: "3.6.0"}, status.Engine)
	require.EqualValues(t, 3, status.Requests)
	require.Equal(t, map[string]int64{"client_preference": 3}, status.Decisions)
	require.Equal(t, map[string]int64{"ok": 3}, status.Outcomes)
	require.Len(t, status.Nodes, 2)
	for _, n := range status.Nodes {
		require.NotEmpty(t, n.Node)
		require.Equal(t, "fine", n.State)
		require.NotNil(t, n.Since)
		require.WithinDuration(t, time.Now(), *n.Since, patience)
	}
}
