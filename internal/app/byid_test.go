package app_test

import (
	"encoding/json"
	"fmt"
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
	c, s := inFrontOfFour(t, func(cfg *config.Config) { cfg.Routing.Policy, cfg.Routing.When = "adaptive", "outlier" })
	for _, path := range []string{"/one/_doc/1", "/items/_doc/1"} {
		s.eventually(func() bool { return s.reason(path) == "ranked" }, "the layout is learned")
	}
	require.Equal(t, "not_one_index", s.reason("/o*/_doc/1"))

	slow := c.Nodes()[2]
	slow.SetFault(simcluster.Fault{Extra: 300 * time.Millisecond})
	s.eventually(func() bool {
		s.get(s.dataURL("/items/_search"))
		s.get(s.dataURL("/one/_search"))
		return s.stateOf(slow.Name()) == "slow"
	}, "the slow node is noticed")
	before, got := slow.Gets(), map[[2]string]answer{}
	for i := range 30 {
		id := 40 * i // some do not exist
		for _, read := range [][2]string{
			{"GET", fmt.Sprintf("/one/_doc/%d", id)}, {"HEAD", fmt.Sprintf("/items/_source/%d", id)},
			{"GET", fmt.Sprintf("/items/_explain/%d?q=x", id)}, {"GET", fmt.Sprintf("/items/_doc/x?routing=%d", id)},
		} {
			a, err := ask(t, s.client, read[0]+" "+s.dataURL(read[1]), "", "X-Sidestep-Explain", "1")
			require.NoError(t, err)
			require.Contains(t, a.header.Get("X-Sidestep-Decision"), "reason=ranked; nodes=node-")
			got[read] = a
		}
	}
	many, err := ask(t, s.client, "POST "+s.dataURL("/items/_mget"), `{"ids":["1","2","3","4","5","6","2000"]}`)
	require.NoError(t, err)
	require.Equal(t, before, slow.Gets(), "documents read from the slow node")
	slow.SetFault(simcluster.Fault{})
	for read, a := range got {
		want, err := ask(t, s.client, read[0]+" "+c.URLs()[0]+read[1], "")
		require.NoError(t, err)
		require.Equal(t, want.status, a.status)
		require.Equal(t, want.body, a.body)
	}
	want, err := ask(t, s.client, "POST "+c.URLs()[0]+"/items/_mget", `{"ids":["1","2","3","4","5","6","2000"]}`)
	require.NoError(t, err)
	require.Equal(t, want.body, many.body)
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
