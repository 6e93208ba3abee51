package app_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// timeline is what a reader of /history needs.
type timeline struct {
	Interval float64     `json:"interval_s"`
	At       []time.Time `json:"at"`
	Nodes    []struct {
		Name     string     `json:"node"`
		Response []*float64 `json:"response_ms"`
		Poll     []*float64 `json:"poll_ms"`
		State    []*string  `json:"state"`
	} `json:"nodes"`
}

func TestHistoryShowsTheNodes(t *testing.T) {
	t.Parallel()
	_, s := inFrontOfFive(t)
	found := load(t, s, 50, 500*time.Millisecond)
	require.Zero(t, found.Failed, "%v", found.FirstErrors)
	require.Eventually(t, func() bool {
		var got timeline
		page := s.get(s.adminURL("/history?seconds=60"))
		require.Equal(t, 200, page.status)
		require.NoError(t, json.Unmarshal([]byte(page.body), &got))
		if len(got.At) < 2 || len(got.Nodes) != 5 {
			return false
		}
		last := len(got.At) - 1
		for _, n := range got.Nodes {
			require.Len(t, n.Response, len(got.At))
			if n.Response[last] == nil || n.Poll[last] == nil || n.State[last] == nil || *n.State[last] != "fine" {
				return false
			}
		}
		return true
	}, patience, 100*time.Millisecond)
}
