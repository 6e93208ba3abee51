package proxy

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/selection"
	"sidestep/internal/testkit"
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

// What is sent through each node is counted: whatever it is, with what comes from clients alone.
func TestWhatNodesCoordinateIsCounted(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	sent := map[string]int64{}
	for _, uri := range []string{"/idx/_search", "/lone/_search", "/lone/_doc/1", "/_search/scroll?scroll_id=x", "/_cat/health", "/idx/_search?scroll=1m"} {
		h.do("GET", uri, "")
	}
	h.do("POST", "/_msearch", twoItems, "Content-Type", ndjson)
	h.answer = respond(http.StatusServiceUnavailable, "{}")
	h.do("GET", "/idx/_search", "")
	for _, r := range h.seen() {
		sent[r.node]++
	}
	require.Greater(t, sent["a"]+sent["b"]+sent["c"], int64(8), "the last one was sent more than once")
	told := map[string]int64{}
	for _, n := range h.proxy.Nodes() {
		if n.Coordinated > 0 {
			told[n.Name] = n.Coordinated
		}
	}
	require.Equal(t, sent, told)
	require.Equal(t, 3, testutil.CollectAndCount(newNodeCollector(h.proxy), "sidestep_node_coordinated_total"))
}

// A name that two nodes have says of neither that it is the one. An id does.
func TestDrainOfANameThatTwoNodesHave(t *testing.T) {
	h := start(t, 3, nil)
	same := *h.snapshot()
	same.Nodes = []*cluster.Node{{ID: "id-1", Name: "x"}, {ID: "id-2", Name: "x"}, {ID: "id-3", Name: "x"}}
	h.proxy.UseSnapshot(&same)
	err := h.proxy.Drain("x", time.Minute)
	require.ErrorIs(t, err, ErrSeveralNodes)
	require.NotErrorIs(t, err, ErrNoNode)
	require.EqualError(t, err, "there are several nodes of this name: x; give an id: id-1, id-2, id-3")
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

// A node that has restarted is drained no longer, also if nobody saw it away.
func TestADrainEndsWithTheProcess(t *testing.T) {
	var log testkit.Log
	h := start(t, 3, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	runs := func(process string) {
		s := *h.snapshot()
		s.Nodes[1].EphemeralID = process
		h.proxy.UseSnapshot(&s)
	}
	leaving := func() string { return h.proxy.Nodes()[1].Leaving }
	runs("one")
	require.NoError(t, h.proxy.Drain("b", time.Hour))
	runs("one")
	require.Equal(t, selection.Drained, leaving())
	runs("two")
	require.Empty(t, leaving())
	require.Contains(t, log.String(), `msg="a node is drained no longer" node=b why="it has restarted"`)
}

// Whatever names the node to go through, as a bulk does the one with the primary copy: one that is about to leave is
// not gone through while another can be.
func TestANodeThatLeavesCoordinatesNothing(t *testing.T) {
	for name, leave := range map[string]func(*bulks){
		"drained": func(b *bulks) { require.NoError(t, b.proxy.Drain("a", time.Hour)) },
		"announced": func(b *bulks) {
			s := *b.snapshot()
			s.Nodes[0].Leaving = cluster.Excluded
			b.proxy.UseSnapshot(&s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := startBulks(t, 3, nil)
			leave(b)
			b.answer = storedOrComplete
			shards := map[int]bool{}
			for range 30 {
				b.do("POST", "/idx/_bulk", five)
				seen := b.seen()
				require.NotEqual(t, "a", seen[0].node)
				shards[b.shardOf(five, seen[0])] = true
				b.forgetPace()
			}
			require.Contains(t, shards, 0, "of which it has the primary copy")
			for range 10 {
				for _, uri := range []string{"/idx/_search", "/lone/_search", "/lone/_doc/1", "/_search/scroll?scroll_id=x", "/_cluster/health"} {
					b.do("GET", uri, "")
					require.NotEqual(t, "a", b.seen()[0].node, uri)
				}
			}
		})
	}
}
