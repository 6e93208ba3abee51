package app_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
	simcluster "sidestep/internal/sim/cluster"
)

// Documents are read from a good copy, also while the engine decides about searches,
// and not from the node that is slow; what comes is what comes directly.
func TestReadsByIDLeaveTheSlowNode(t *testing.T) {
	t.Parallel()
	c, s := inFrontOfFour(t, func(cfg *config.Config) { cfg.Routing.When = "outlier" })
	for _, path := range []string{"/one/_doc/1", "/items/_doc/1"} {
		s.eventually(func() bool { return s.reason(path) == "ranked" }, "the layout is learned")
	}
	require.Equal(t, "not_one_index", s.reason("/o*/_doc/1"))

	slow := c.Nodes()[2]
	slow.SetFault(simcluster.Fault{Extra: 300 * time.Millisecond})
	noticed := func() bool {
		s.get(s.dataURL("/items/_search"))
		s.get(s.dataURL("/one/_search"))
		return s.aloneSlow(slow.Name())
	}
	s.eventually(noticed, "the slow node is noticed")
	got := map[[2]string]answer{}
	// On a busy machine the others' probes may take a third of its own: then it is let in again.
	read := func(request [2]string, body string) {
		s.eventually(func() bool {
			before, known := slow.Gets(), s.aloneSlow(slow.Name()) || noticed()
			a, err := ask(t, s.client, request[0]+" "+s.dataURL(request[1]), body, "X-Sidestep-Explain", "1")
			require.NoError(t, err)
			got[request] = a
			if !known || !s.aloneSlow(slow.Name()) {
				return false
			}
			decision := a.header.Get("X-Sidestep-Decision")
			require.Contains(t, decision, "reason=ranked; nodes=node-")
			require.Equal(t, before, slow.Gets(), "read from the slow node: %s", decision)
			return true
		}, "the node is known to be slow while it is read")
	}
	for i := range 30 {
		id := 40 * i // some do not exist
		for _, request := range [][2]string{
			{"GET", fmt.Sprintf("/one/_doc/%d", id)}, {"HEAD", fmt.Sprintf("/items/_source/%d", id)},
			{"GET", fmt.Sprintf("/items/_explain/%d?q=x", id)}, {"GET", fmt.Sprintf("/items/_doc/x?routing=%d", id)},
		} {
			read(request, "")
		}
	}
	many := [2]string{"POST", "/items/_mget"}
	const ids = `{"ids":["1","2","3","4","5","6","2000"]}`
	read(many, ids)
	slow.SetFault(simcluster.Fault{})
	for request, a := range got {
		body := ""
		if request == many {
			body = ids
		}
		want, err := ask(t, s.client, request[0]+" "+c.URLs()[0]+request[1], body)
		require.NoError(t, err)
		require.Equal(t, want.status, a.status)
		require.Equal(t, want.body, a.body)
	}
}

// An index that was deleted and created again is read by its new layout, and left
// alone if that forbids a preference.
func TestReadsByIDFollowTheIndex(t *testing.T) {
	t.Parallel()
	c, s := inFrontOfFour(t, nil)
	s.eventually(func() bool { return s.reason("/one/_doc/1") == "ranked" }, "the layout is learned")
	for _, tc := range []struct {
		spec   simcluster.IndexSpec
		reason string
	}{
		{simcluster.IndexSpec{Name: "one", Shards: 3, Replicas: 1, RoutingNumShards: 6}, "ranked"},
		{simcluster.IndexSpec{Name: "one", Shards: 3, Replicas: 1, SegmentReplication: true}, "segment_replication"},
		{simcluster.IndexSpec{Name: "one"}, "no_choice"},
	} {
		require.NoError(t, c.DeleteIndex("one"))
		require.NoError(t, c.CreateIndex(tc.spec))
		s.eventually(func() bool {
			require.Equal(t, 200, s.get(s.dataURL("/one/_doc/1")).status)
			return s.reason("/one/_doc/1") == tc.reason
		}, tc.reason)
	}
}

// aloneSlow reports whether a node is known to be slow, and all others are known to be well.
func (s *sidestep) aloneSlow(name string) bool {
	s.t.Helper()
	var nodes []struct{ Name, State string }
	require.NoError(s.t, json.Unmarshal([]byte(s.get(s.adminURL("/nodes")).body), &nodes))
	return len(nodes) > 1 && !slices.ContainsFunc(nodes, func(n struct{ Name, State string }) bool {
		return n.State != map[bool]string{true: "slow", false: "fine"}[n.Name == name]
	})
}

// stateOf returns what the admin listener says of a node.
func (s *sidestep) stateOf(name string) string {
	s.t.Helper()
	var nodes []struct{ Name, State string }
	require.NoError(s.t, json.Unmarshal([]byte(s.get(s.adminURL("/nodes")).body), &nodes))
	for _, n := range nodes {
		if n.Name == name {
			return n.State
		}
	}
	return "unknown"
}
