package app_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
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

// A drained node is given no searches, until it is said to stay, or has restarted. The mark that is
// left behind keeps nobody from it.
func TestADrainedNodeIsGivenNoSearches(t *testing.T) {
	var cfg config.Config
	c, s := inFrontOfFour(t, func(c *config.Config) { cfg = *c })
	n := c.Nodes()[1]
	s.eventually(func() bool { return s.reason("/items/_search") == "no_outlier" }, "statistics")

	require.Equal(t, http.StatusOK, s.drain(n.Name(), "10m").status)
	s.eventually(func() bool { return s.spared(n.ID(), n.Name()) }, "the drained node is given nothing")
	require.Contains(t, s.get(s.adminURL("/nodes")).body, `"leaving": "20`)
	require.Contains(t, s.get(s.adminURL("/explain?target=items")).body, `"excluded": "leaving"`)

	cfg.Routing.Policy = "round_robin"
	require.NoError(t, s.Reload(cfg))
	require.Contains(t, s.get(s.adminURL("/nodes")).body, `"leaving": "20`, "a reload keeps the mark")
	s.eventually(func() bool { return s.spared(n.ID(), n.Name()) }, "it is given nothing after a reload")

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
