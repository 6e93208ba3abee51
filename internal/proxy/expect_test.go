package proxy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
)

// While a node is away searches list those that are known. A list that does not fit into a request is none: the search
// is sent as it came, and is steered all the same.
func TestWhileANodeIsAwaySearchesListTheOthers(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.When = WhenOutlier })
	more := *h.snapshot()
	more.Nodes = append(more.Nodes, &cluster.Node{ID: "id-away", Name: "away", Roles: []string{"data"}})
	h.proxy.UseSnapshot(&more)
	h.proxy.UseSnapshot(h.snapshot())
	h.slow()
	resp, _ := h.do("POST", "/idx/_search", `{}`, explainHeader, "1")
	require.Contains(t, h.seen()[0].uri, "preference=_only_nodes:id-a,id-b,id-c")
	require.Contains(t, resp.Header.Get(decisionHeader), "reason=ranked")

	long := "/idx/_search?q=" + strings.Repeat("a", 4050)
	resp, _ = h.do("POST", long, `{}`, explainHeader, "1")
	require.Equal(t, long, h.seen()[0].uri)
	require.Contains(t, resp.Header.Get(decisionHeader), "reason=no_outlier")
	h.slow(1)
	h.slow(1)
	resp, _ = h.do("POST", long, `{}`, explainHeader, "1")
	require.Equal(t, long, h.seen()[0].uri)
	require.Contains(t, resp.Header.Get(decisionHeader), "reason="+reasonTooLong)
}
