package app_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
	simcluster "sidestep/internal/sim/cluster"
)

// bulk sends a bulk and returns the reason of the decision.
func (s *sidestep) bulk(path, body string) (reason string, got answer) {
	s.t.Helper()
	got, err := ask(s.t, s.client, "POST "+s.dataURL(path), body, "Content-Type", "application/x-ndjson", "X-Sidestep-Explain", "1")
	require.NoError(s.t, err)
	_, rest, _ := strings.Cut(got.header.Get("X-Sidestep-Decision"), "reason=")
	reason, _, _ = strings.Cut(rest, ";")
	return reason, got
}

// Documents are written with routings of the clients' by one sidestep in several slots, and
// a search by routing through another visits all of them from its first.
func TestLogicalShards(t *testing.T) {
	c, err := simcluster.Start(simcluster.Options{
		Nodes: 3, ServiceTime: time.Millisecond,
		Indices: []simcluster.IndexSpec{{Name: "orders", Shards: 6, RoutingNumShards: 768, Replicas: 1, Aliases: []string{"all-orders"}}},
	})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	sized := func(cfg *config.Config) { cfg.Bulk.RoutingSize = []config.RoutingSize{{Index: "orders*", Size: 2}} }
	s := inFrontOf(t, c, sized)
	body := strings.Repeat("{\"index\":{\"routing\":\"customer\"}}\n{\"a\":1}\n", 3)
	require.Eventually(t, func() bool {
		reason, _ := s.bulk("/orders/_bulk", body)
		return reason == "one_slot"
	}, patience, 5*time.Millisecond)
	for range 40 {
		reason, _ := s.bulk("/orders/_bulk", body)
		require.Equal(t, "one_slot", reason)
	}
	written := map[int]bool{}
	for shard, n := range c.Written("orders") {
		if n > 0 {
			written[shard] = true
		}
	}
	require.Len(t, written, 3)

	fresh := inFrontOf(t, c, sized)
	for _, path := range []string{"/orders/_search_shards?routing=customer", "/all-orders/_search_shards?routing=customer", "/_search_shards?routing=customer"} {
		got, err := ask(t, fresh.client, "GET "+fresh.dataURL(path), "")
		require.NoError(t, err)
		var found struct{ Shards [][]struct{ Shard int } }
		require.NoError(t, json.Unmarshal([]byte(got.body), &found), got.body)
		visited := map[int]bool{}
		for _, copies := range found.Shards {
			visited[copies[0].Shard] = true
		}
		require.Equal(t, written, visited, path)
	}
	got, err := ask(t, fresh.client, "POST "+fresh.dataURL("/orders/_count?routing=customer"), "")
	require.NoError(t, err)
	require.Contains(t, got.body, `"total":3`)
}

// The first bulk passes while its index is looked up; those after it are each on one
// shard, and the admin listener tells.
func TestBulksGoToOneShard(t *testing.T) {
	c, err := simcluster.Start(simcluster.Options{
		Nodes: 3, ServiceTime: time.Millisecond,
		Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 3, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	s := inFrontOf(t, c, func(cfg *config.Config) { cfg.Bulk.SingleShard = []config.SingleShard{{Index: "lo*"}} })
	body := strings.Repeat("{\"index\":{}}\n{\"a\":1}\n", 7)
	reason, got := s.bulk("/logs/_bulk", body)
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "not_steerable", reason)
	require.Eventually(t, func() bool {
		reason, _ = s.bulk("/logs/_bulk", body)
		return reason == "one_shard"
	}, patience, 5*time.Millisecond)

	for range 30 {
		before := c.Written("logs")
		reason, got = s.bulk("/logs/_bulk", body)
		require.Equal(t, "one_shard", reason)
		require.Equal(t, 7, strings.Count(got.body, `"status":201`))
		grown := 0
		for shard, n := range c.Written("logs") {
			if n > before[shard] {
				grown++
			}
		}
		require.Equal(t, 1, grown)
	}
	require.NotContains(t, c.Written("logs"), 0, "the shards take turns")

	var e struct {
		Planned bool
		Shards  []struct{ Documents int }
	}
	require.Eventually(t, func() bool { // the books are closed after the answer
		require.NoError(t, json.Unmarshal([]byte(s.get(s.adminURL("/explain?bulk=logs")).body), &e))
		sum := 0
		for _, shard := range e.Shards {
			sum += shard.Documents
		}
		return e.Planned && sum >= 77
	}, patience, 5*time.Millisecond)
	require.Contains(t, s.get(s.adminURL("/explain?bulk=other")).body, "does not name")
	status := s.get(s.adminURL("/status")).body
	require.Contains(t, status, `"bulks": {`)
	require.Contains(t, status, `"index": "logs"`)
	var seen struct {
		Bulks struct {
			Operations map[string]int
			Indices    []struct {
				Index   string
				Bulks   int
				Shards  int
				Avoided []int
				Skew    *float64
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(status), &seen))
	require.Len(t, seen.Bulks.Indices, 1)
	logs := seen.Bulks.Indices[0]
	require.Equal(t, "logs", logs.Index)
	require.GreaterOrEqual(t, logs.Bulks, 31)
	require.Equal(t, 7*logs.Bulks, seen.Bulks.Operations["planned"])
	require.Equal(t, 3, logs.Shards)
	require.NotNil(t, logs.Avoided)
	require.NotNil(t, logs.Skew)
	require.Contains(t, s.get(s.adminURL("/metrics")).body, `sidestep_bulk_skew{index="logs"}`)
}
