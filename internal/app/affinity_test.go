package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
	simcluster "sidestep/internal/sim/cluster"
)

// inFrontOfFour starts four nodes in two zones, east and west by turns: every
// shard of "items" has a copy in each, and every node has a copy of the one shard
// of "one" and of "two".
func inFrontOfFour(t *testing.T, change func(*config.Config)) (*simcluster.Cluster, *sidestep) {
	t.Helper()
	east, west := map[string]string{"zone": "east"}, map[string]string{"zone": "west"}
	c, err := simcluster.Start(simcluster.Options{
		// Slow enough for a busy machine not to make a node look slow.
		Nodes: 4, ServiceTime: 15 * time.Millisecond, Sigma: -1, Adaptive: true, Seed: 1,
		Attributes: []map[string]string{east, west, east, west},
		Indices: []simcluster.IndexSpec{
			{Name: "items", Shards: 4, Replicas: 1}, {Name: "one", Replicas: 3}, {Name: "two", Replicas: 3},
		},
	})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	return c, inFrontOf(t, c, change)
}

func inFrontOf(t *testing.T, c *simcluster.Cluster, change func(*config.Config)) *sidestep {
	t.Helper()
	cfg := settings(c.URLs()...)
	cfg.Upstream.Discovery = "sniff"
	cfg.Cluster.StatsInterval = 100 * time.Millisecond
	cfg.Cluster.StatsTimeout = 200 * time.Millisecond
	if change != nil {
		change(&cfg)
	}
	return startReady(t, cfg, nil)
}

// servedBy searches and returns the ids of the nodes that served, by shard.
func (s *sidestep) servedBy(pathAndQuery string) map[string]string {
	s.t.Helper()
	got := s.get(s.dataURL(pathAndQuery))
	require.Equal(s.t, http.StatusOK, got.status, got.body)
	return servingNodes(s.t, got.body)
}

// servingNodes returns the ids of the nodes that served, by shard, by an answer with explain=true.
func servingNodes(t *testing.T, body string) map[string]string {
	t.Helper()
	var found struct {
		Hits struct {
			Hits []struct {
				Shard string `json:"_shard"`
				Node  string `json:"_node"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &found))
	require.NotEmpty(t, found.Hits.Hits, body)
	nodes := map[string]string{}
	for _, hit := range found.Hits.Hits {
		nodes[hit.Shard] = hit.Node
	}
	return nodes
}

// reason searches and returns the reason of the decision.
func (s *sidestep) reason(pathAndQuery string) string {
	s.t.Helper()
	decision := s.get(s.dataURL(pathAndQuery), "X-Sidestep-Explain", "1").header.Get("X-Sidestep-Decision")
	_, after, _ := strings.Cut(decision, "reason=")
	reason, _, _ := strings.Cut(after, ";")
	return reason
}

// homes searches "one" with twenty preference strings and returns the node that
// served each.
func (s *sidestep) homes() map[string]string {
	s.t.Helper()
	homes := map[string]string{}
	for i := range 20 {
		user := fmt.Sprintf("user %d", i)
		homes[user] = s.servedBy(fmt.Sprintf("/one/_search?explain=true&preference=user+%d", i))["[one][0]"]
	}
	return homes
}

// settled is homes once they stay the same for five rounds, and no copy is left
// out.
func (s *sidestep) settled() map[string]string {
	s.t.Helper()
	homes, rounds := s.homes(), 1
	s.eventually(func() bool {
		again := s.homes()
		rounds++
		if !maps.Equal(homes, again) {
			homes, rounds = again, 1
		}
		return rounds >= 5 && len(nodesOf(homes)) == 4
	}, "strings keep their copies and spread over all of them")
	return homes
}

func nodesOf(homes map[string]string) []string {
	return slices.Compact(slices.Sorted(maps.Values(homes)))
}

func TestStringsKeepTheirCopies(t *testing.T) {
	t.Parallel()
	c, s := inFrontOfFour(t, nil)
	homes := s.settled()
	require.Equal(t, homes, inFrontOf(t, c, nil).settled(), "another sidestep sends them to the same copies")

	require.Equal(t, "affinity", s.reason("/one/_search?preference=user+1"))
	require.Equal(t, "client_preference", s.reason("/one/_search?preference=_local"))
}

func TestStringsLeaveASlowNodeAndReturn(t *testing.T) {
	t.Parallel()
	c, s := inFrontOfFour(t, nil)
	before := s.settled()
	victim := c.Nodes()[1]
	victim.SetFault(simcluster.Fault{Factor: 20})
	s.eventually(func() bool {
		now := s.homes()
		for user, node := range before {
			if node == victim.ID() && now[user] == node || node != victim.ID() && now[user] != node {
				return false
			}
		}
		return true
	}, "the strings of the slow node, and no others, are served elsewhere")
	victim.SetFault(simcluster.Fault{})
	s.eventually(func() bool { return maps.Equal(before, s.homes()) }, "all strings are back")
}

// eventually is require.Eventually for a condition that uses s, so in this very
// goroutine.
func (s *sidestep) eventually(condition func() bool, message string) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !condition(); {
		require.True(s.t, time.Now().Before(deadline), "%s: not within %s\n%s", message, patience, s.log.String())
	}
}

func TestStringsOfManyShardsAreTheEnginesWhileNobodyStandsOut(t *testing.T) {
	_, s := inFrontOfFour(t, func(cfg *config.Config) { cfg.Routing.When = "outlier" })
	s.eventually(func() bool {
		home := s.servedBy("/items/_search?explain=true&preference=a")
		for range 5 {
			if s.reason("/items/_search?preference=a") != "no_outlier" || !maps.Equal(home, s.servedBy("/items/_search?explain=true&preference=a")) {
				return false
			}
		}
		return true
	}, "all nodes are measured and well, and the engine keeps to the string")
}

func TestIndicesKeepTheirCopies(t *testing.T) {
	_, s := inFrontOfFour(t, func(cfg *config.Config) { cfg.Routing.Affinity.Indices = []string{"on*"} })
	home := s.servedBy("/one/_search?explain=true")
	for range 20 {
		require.Equal(t, home, s.servedBy("/one/_search?explain=true"))
	}
	require.Equal(t, "affinity", s.reason("/one/_search"))
	require.Equal(t, "ranked", s.reason("/two/_search"))
}
