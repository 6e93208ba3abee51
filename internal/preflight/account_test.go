package preflight_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/preflight"
	simcluster "sidestep/internal/sim/cluster"
)

func TestAccountIsUnknown(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 2})
	s.instead = func(string) (int, string) { return http.StatusUnauthorized, "" }
	f := s.finding(s.run(), "demands an account and refuses sidestep's: status 401")
	require.Equal(t, preflight.Problem, f.Level)
	require.Equal(t, "give sidestep an account of its own: upstream.auth", f.Advice)
	s.options.Account = true
	f = s.finding(s.run(), "refuses sidestep's")
	require.Contains(t, f.Advice, "is not known there")
}

// An account without any rights: no engine is recognised, and all that is told is what to grant.
func TestAccountWithoutRights(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 2})
	told := ""
	s.instead = func(path string) (int, string) {
		if path == "/_security/user/_has_privileges" && told != "" {
			return http.StatusOK, told
		}
		return http.StatusForbidden, `{"error":{"reason":"no permissions for [cluster:monitor/main] and User [name=kim]"},"status":403}`
	}
	report := s.run() // as OpenSearch
	f := s.finding(report, "of the kind info, cluster:monitor/main: nodes are not found")
	require.Equal(t, preflight.Problem, f.Level)
	require.Equal(t, "grant its role cluster_monitor", f.Advice)
	s.finding(report, "of the kind stats, ")

	told = `{"has_all_requested":false,"cluster":{"monitor":false},"index":{"*":{"read":false,"monitor":false,"view_index_metadata":false}}}`
	report = s.run() // as Elasticsearch
	f = s.finding(report, "lacks monitor of the cluster")
	require.Equal(t, "grant its role the privilege monitor of the cluster", f.Advice)
	require.NotContains(t, strings.Join(lines(report), "\n"), "of the kind")
}

// What is refused everywhere is told once, and what is no engine is no matter of the account.
func TestNothingIsSaidOfTheAccountInVain(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 2})
	s.instead = func(string) (int, string) { return http.StatusUnauthorized, "" }
	told := strings.Join(lines(s.run()), "\n")
	require.Equal(t, 1, strings.Count(told, "account:"))
	require.NotContains(t, told, "could not be read", "nothing else could")
	s.instead = func(string) (int, string) { return http.StatusNotFound, "" }
	require.NotContains(t, strings.Join(lines(s.run()), "\n"), "account:")
}

func TestElasticsearchTellsPrivileges(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 2, Engine: simcluster.Elasticsearch}).discover()
	s.options.Static = true
	told := ""
	s.instead = func(path string) (int, string) {
		if path == "/_security/user/_has_privileges" && told != "" {
			return http.StatusOK, told
		}
		return 0, ""
	}
	s.finding(s.run(), "all 13 kinds of requests that sidestep makes are answered") // without security

	told = `{"has_all_requested":true,"cluster":{"monitor":true},"index":{"*":{"read":true,"monitor":true,"view_index_metadata":true}}}`
	s.finding(s.run(), "has all the privileges that it needs")

	told = `{"has_all_requested":false,"cluster":{"monitor":false},"index":{"*":{"read":false,"monitor":true,"view_index_metadata":false}}}`
	report := s.run()
	require.Equal(t, preflight.Problem, s.finding(report, "lacks monitor of the cluster").Level)
	require.Equal(t, preflight.Problem, s.finding(report, "lacks view_index_metadata on all indices").Level)
	require.Equal(t, preflight.Note, s.finding(report, "lacks read on all indices").Level)
	require.NotContains(t, strings.Join(lines(report), "\n"), "lacks monitor on all")

	told = `{"has_all_requested":false,"cluster":{"monitor":true},"index":{"*":{"read":true,"monitor":false,"view_index_metadata":true}}}`
	require.NotContains(t, strings.Join(lines(s.run()), "\n"), "lacks monitor on all", "nothing is to be counted")
	s.options.Counts = true
	require.Equal(t, preflight.Note, s.finding(s.run(), "lacks monitor on all indices: the documents of bulk.single_shard are not counted").Level)
}

// The engines open their own indices to few accounts, and nobody may read what is blocked: that says nothing of the account.
func TestWhatNobodyMayReadSaysNothingOfTheAccount(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 1}).discover()
	s.options.Static = true
	holds := func(index, node string) cluster.Index {
		return cluster.Index{Name: index, Shards: []cluster.Shard{{Copies: []cluster.Copy{{Node: node, Kind: 'p', State: cluster.Started}}}}}
	}
	known := cluster.Contents{
		Engine: s.facts.Snapshot.Engine, Nodes: []*cluster.Node{{ID: "new", Roles: []string{"data"}}, {ID: "old", Roles: []string{"data"}}},
		Indices: []cluster.Index{holds(".opendistro_security", "new"), holds("logs", "old")},
	}
	s.facts.Snapshot = cluster.NewSnapshot(known)
	s.instead = func(path string) (int, string) {
		switch {
		case strings.Contains(path, ".opendistro_security"):
			return http.StatusForbidden, `{"error":{"reason":"no permissions for [] and User [name=sidestep]"},"status":403}`
		case path == "/logs/_search":
			return http.StatusForbidden, `{"error":{"type":"cluster_block_exception","reason":"index [logs] blocked by: [FORBIDDEN/7/index read (api)];"},"status":403}`
		}
		return 0, ""
	}
	s.finding(s.run(), `^all 13 kinds of requests that sidestep makes are answered$`)
	known.Indices = known.Indices[:1]
	s.facts.Snapshot = cluster.NewSnapshot(known)
	s.finding(s.run(), `^all 8 kinds of requests that sidestep makes are answered; those about an index could not be tried, as none is known that clients search$`)
}
