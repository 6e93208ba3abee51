package app_test

import (
	"bufio"
	"context"
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

func TestEventsEndWhenSidestepStops(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	s := startReady(t, settings(u.URL), nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.adminURL("/events"), http.NoBody)
	require.NoError(t, err)
	response, err := s.client.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	require.True(t, lines.Scan(), lines.Err())
	require.Equal(t, "event: status", lines.Text())
	require.True(t, lines.Scan())
	require.Contains(t, lines.Text(), `"mode":"route"`)

	require.NoError(t, s.Stop(context.Background()))
	for lines.Scan() {
	}
	require.NoError(t, lines.Err(), "ended, not cut off")
	require.NotContains(t, s.log.String(), "cut off")
}
