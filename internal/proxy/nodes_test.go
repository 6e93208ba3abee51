package proxy

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
)

// Operators are told which nodes nobody asks for their state.
func TestNodesThatAreNotPolledAreTold(t *testing.T) {
	h := start(t, 2, nil)
	more := *h.snapshot()
	more.Nodes = append(more.Nodes,
		&cluster.Node{ID: "id-m", Name: "manager", Roles: []string{"cluster_manager"}}, &cluster.Node{ID: "id-n", Name: "ingest", Roles: []string{"ingest"}})
	h.proxy.UseSnapshot(&more)
	told := map[string]bool{}
	for _, n := range h.proxy.Nodes() {
		told[n.Name] = n.NotPolled
	}
	require.Equal(t, map[string]bool{"a": false, "b": false, "manager": true, "ingest": false}, told)
	require.Equal(t, 3, testutil.CollectAndCount(newNodeCollector(h.proxy), "sidestep_node_up"))
	figures := []string{"rank", "response_time_seconds", "service_time_seconds", "queue", "http_overhead_seconds"}
	for _, figure := range figures {
		require.Zero(t, testutil.CollectAndCount(newNodeCollector(h.proxy), "sidestep_node_"+figure), "nothing is known")
	}
	h.slow()
	for _, figure := range figures {
		require.Equal(t, 2, testutil.CollectAndCount(newNodeCollector(h.proxy), "sidestep_node_"+figure), "nothing is known of the others")
	}
}

// A name that two nodes have says of neither that it is the one. An id does.
func TestDrainOfANameThatTwoNodesHave(t *testing.T) {
	h := start(t, 2, nil)
	same := *h.snapshot()
	same.Nodes = []*cluster.Node{{ID: "id-1", Name: "x"}, {ID: "id-2", Name: "x"}}
	h.proxy.UseSnapshot(&same)
	err := h.proxy.Drain("x", time.Minute)
	require.ErrorIs(t, err, ErrSeveralNodes)
	require.NotErrorIs(t, err, ErrNoNode)
	require.EqualError(t, err, "there are several nodes of this name: x; give an id: id-1 or id-2")
	require.NoError(t, h.proxy.Drain("id-2", time.Minute))
	require.Empty(t, h.proxy.Nodes()[0].Leaving)
	require.Equal(t, "drained", h.proxy.Nodes()[1].Leaving)
}

// Before anything is known of the cluster there is no node to name.
func TestDrainBeforeNodesAreKnown(t *testing.T) {
	h := start(t, 1, nil)
	none := *h.snapshot()
	none.Nodes = nil
	h.proxy.UseSnapshot(&none)
	require.EqualError(t, h.proxy.Drain("node-3", time.Minute), "there is no such node: node-3; no node is known yet: /-/ready says why")
}
