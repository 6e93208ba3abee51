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

// drain asks for a node to be drained.
func (s *sidestep) drain(node, length string) answer {
	s.t.Helper()
	got, err := ask(s.t, s.client, "PUT "+s.adminURL("/-/drain"), fmt.Sprintf(`{"node":%q,"for":%q}`, node, length))
	require.NoError(s.t, err)
	return got
}

// spared reports whether twenty searches, all of which are answered, leave out a node.
func (s *sidestep) spared(id, name string) bool {
	s.t.Helper()
	for range 20 {
		if slices.Contains(slices.Collect(maps.Values(s.servedBy("/items/_search?explain=true"))), id) {
			return false
		}
		if s.throughWhom("GET "+s.dataURL("/items/_search")) == name {
			return false
		}
	}
	return true
}

// allFine reports whether nothing is wrong with any node.
func (s *sidestep) allFine() bool {
	s.t.Helper()
	var nodes []struct{ State string }
	require.NoError(s.t, json.Unmarshal([]byte(s.get(s.adminURL("/nodes")).body), &nodes))
	for _, n := range nodes {
		if n.State != "fine" {
			return false
		}
	}
	return len(nodes) > 0
}

// sparesAtOnce requires that a node serves none of the searches that begin from now on, and that none is sent through it.
// Those count that all nodes were well for: where another one is out, the last copy of a shard may be on this one.
func (s *sidestep) sparesAtOnce(id, name string) {
	s.t.Helper()
	counted := 0
	s.eventually(func() bool {
		before := s.allFine()
		serving := slices.Collect(maps.Values(s.servedBy("/items/_search?explain=true")))
		through := s.throughWhom("GET " + s.dataURL("/items/_search"))
		if before && s.allFine() {
			require.NotContains(s.t, serving, id)
			require.NotEqual(s.t, name, through)
			counted++
		}
		return counted == 50
	}, "searches that all nodes were well for")
}

// A drained node is given no searches, until it is said to stay, or has restarted. The mark that is
// left behind keeps nobody from it.
func TestADrainedNodeIsGivenNoSearches(t *testing.T) {
	t.Parallel()
	var cfg config.Config
	c, s := inFrontOfFour(t, func(c *config.Config) {
		c.Routing.HedgeBudget = 0 // a hedge of a search that a busy machine delays goes to the last other copy
		cfg = *c
	})
	n := c.Nodes()[1]
	s.eventually(func() bool { return s.reason("/items/_search") == "no_outlier" }, "statistics")

	require.Equal(t, http.StatusOK, s.drain(n.Name(), "10m").status)
	s.sparesAtOnce(n.ID(), n.Name())
	require.Contains(t, s.get(s.adminURL("/nodes")).body, `"leaving": "drained"`)
	require.Contains(t, s.get(s.adminURL("/nodes")).body, `"leaving_until": "20`)
	require.Contains(t, s.get(s.adminURL("/explain?target=items")).body, `"excluded": "leaving"`)

	cfg.Routing.Operations.Count = false
	require.NoError(t, s.Reload(cfg))
	require.Contains(t, s.get(s.adminURL("/nodes")).body, `"leaving_until": "20`, "a reload keeps the mark")
	s.sparesAtOnce(n.ID(), n.Name())

	require.Equal(t, http.StatusOK, s.drain(n.ID(), "0s").status)
	require.NotContains(t, s.get(s.adminURL("/nodes")).body, `"leaving"`)
	s.eventually(func() bool { return !s.spared(n.ID(), n.Name()) }, "it stays")

	require.Equal(t, http.StatusOK, s.drain(n.Name(), "10m").status)
	n.Kill()
	s.eventually(func() bool {
		s.reason("/items/_search")
		return !contains(s, "/nodes", `"`+n.Name()+`"`) || contains(s, "/nodes", `"unreachable"`)
	}, "it has left")
	require.NoError(t, n.Return())
	s.eventually(func() bool { return !contains(s, "/nodes", `"leaving"`) && !s.spared(n.ID(), n.Name()) }, "it is back")
	require.Contains(t, s.log.String(), `"a node is drained no longer" node=`+n.Name()+" why=")
}

// contains reports whether a page of the admin listener has a text.
func contains(s *sidestep, page, text string) bool {
	s.t.Helper()
	return strings.Contains(s.get(s.adminURL(page)).body, text)
}

func TestAnUnknownNodeIsNotDrained(t *testing.T) {
	_, s := inFrontOfFour(t, nil)
	got := s.drain("node-9", "10m")
	require.Equal(t, http.StatusNotFound, got.status)
	require.Contains(t, got.body, "there is no such node: node-9; there are node-1, node-2")
}

// exclude has the cluster exclude nodes of these names from allocation.
func exclude(t *testing.T, c *simcluster.Cluster, names any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"persistent": map[string]any{"cluster.routing.allocation.exclude._name": names}})
	require.NoError(t, err)
	got, err := ask(t, http.DefaultClient, "PUT "+c.URLs()[0]+"/_cluster/settings", string(body))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.status)
}

// A node that is excluded from allocation is given no searches, until it is not excluded any more,
// or has restarted. It may be drained beside that.
func TestAnExcludedNodeIsGivenNoSearches(t *testing.T) {
	t.Parallel()
	c, s := inFrontOfFour(t, func(cfg *config.Config) { cfg.Cluster.DiscoveryInterval = 200 * time.Millisecond })
	n := c.Nodes()[1]
	s.eventually(func() bool { return s.reason("/items/_search") == "no_outlier" }, "statistics")

	exclude(t, c, n.Name())
	s.eventually(func() bool { return contains(s, "/nodes", `"leaving": "excluded"`) }, "it is seen")
	s.eventually(func() bool { return s.spared(n.ID(), n.Name()) }, "the excluded node is given nothing")
	explained := s.get(s.adminURL("/explain?target=items")).body
	require.Contains(t, explained, `"excluded": "leaving"`)
	require.Contains(t, explained, "the cluster excludes it from allocation")
	require.Contains(t, s.drain(n.Name(), "0s").body, "that holds until the cluster takes it back")
	require.Contains(t, s.get(s.adminURL("/metrics")).body, fmt.Sprintf(`sidestep_node_leaving{node=%q,node_id=%q} 1`, n.Name(), n.ID()))

	exclude(t, c, nil)
	s.eventually(func() bool { return !contains(s, "/nodes", `"leaving"`) && !s.spared(n.ID(), n.Name()) }, "it stays")

	require.Equal(t, http.StatusOK, s.drain(n.Name(), "10m").status)
	exclude(t, c, n.Name())
	s.eventually(func() bool { return strings.Count(s.log.String(), "a node is about to leave") == 2 }, "both")
	require.Contains(t, s.get(s.adminURL("/nodes")).body, `"leaving": "drained"`)
	exclude(t, c, nil)
	s.eventually(func() bool { return strings.Count(s.log.String(), "a node is not about to leave any more") == 2 }, "the cluster takes it back")
	require.Contains(t, s.get(s.adminURL("/nodes")).body, `"leaving": "drained"`, "the operator does not")
	require.Equal(t, http.StatusOK, s.drain(n.Name(), "0s").status)

	exclude(t, c, n.Name())
	s.eventually(func() bool { return strings.Count(s.log.String(), "a node is about to leave") == 3 }, "again") // /nodes may tell of before
	n.Kill()
	s.eventually(func() bool { return !contains(s, "/nodes", `"`+n.Name()+`"`) }, "it has left")
	require.NoError(t, n.Return())
	s.eventually(func() bool { return contains(s, "/nodes", `"`+n.Name()+`"`) && !s.spared(n.ID(), n.Name()) }, "it is back, and the exclusion was left behind")
	require.NotContains(t, s.get(s.adminURL("/nodes")).body, `"leaving"`)
}

// A node that is drained at a relay is given no searches by the sidecars that follow it, until it is said there to stay, or
// the relay has restarted. What a sidecar was told itself is a mark of its own.
func TestADrainAtARelayReachesItsSidecars(t *testing.T) {
	t.Parallel()
	at := newService(t)
	c, relays, sidecars := fleetOf(t, at.URL)
	relay := startReady(t, relays, nil)
	at.use(relay)
	s, n := startReady(t, sidecars, nil), c.Nodes()[1]
	s.eventually(func() bool { return s.source() == "relay" }, "it follows the relay")
	leaving := func(as string) func() bool {
		return func() bool { return contains(s, "/nodes", `"leaving": "`+as+`"`) }
	}
	spared := func() bool {
		for range 20 {
			if s.throughWhom("GET "+s.dataURL("/logs/_search")) == n.Name() {
				return false
			}
		}
		return true
	}
	require.Equal(t, http.StatusOK, relay.drain(n.Name(), "10m").status)
	s.eventually(leaving("drained_at_relay"), "the sidecar is told")
	s.eventually(spared, "the node is given nothing")
	require.Contains(t, s.get(s.adminURL("/explain?target=logs")).body, "an operator told the relay")

	require.Equal(t, http.StatusOK, s.drain(n.Name(), "10m").status)
	s.eventually(leaving("drained"), "it was told itself")
	require.Contains(t, s.drain(n.Name(), "0s").body, "that holds until the relay is told otherwise")
	s.eventually(leaving("drained_at_relay"), "which takes nothing back at the relay")
	require.Equal(t, http.StatusOK, relay.drain(n.Name(), "0s").status)
	s.eventually(func() bool { return !contains(s, "/nodes", `"leaving"`) && !spared() }, "it stays")

	require.Equal(t, http.StatusOK, relay.drain(n.Name(), "10m").status)
	s.eventually(leaving("drained_at_relay"), "it is told again")
	second := startReady(t, relays, nil)
	at.use(second)
	s.eventually(func() bool { return !contains(s, "/nodes", `"leaving"`) && !spared() }, "another relay was not told")
}
