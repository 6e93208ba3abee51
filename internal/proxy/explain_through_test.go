package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// An operator is told the node that a request goes through. Where it may be any, none is named: there is always a
// request that goes through another one.
func TestExplainNamesTheNodeThatTheRequestGoesThrough(t *testing.T) {
	search := Question{Target: "idx"}
	lone := Question{Target: "lone"}
	three := Question{Target: "three"} // of three shards without replicas
	read := Question{Operation: es.Get, Target: "alias", ID: "7"}
	observe := func(h *harness) { require.NoError(h.t, h.proxy.SetMode(ModeObserve)) }
	poll := func(p selection.Poll) func(*harness) {
		return func(h *harness) { h.selector.ObservePoll("id-a", p, time.Now()) }
	}
	for _, c := range []struct {
		name      string
		begin     func(*harness)
		q         Question
		uri, body string
		why       selection.Via
		through   []string // nil: any
		says      string
	}{
		{"listed", nil, search, "/idx/_search", "", selection.ViaTurns, []string{"a", "b", "c", "d"}, "to one of a, b, c, d, which coordinates: nodes with"},
		{"one shard", nil, read, "/alias/_doc/7", "", selection.ViaCopy, nil, " itself, so that nothing travels between nodes."},
		{"lone copy", nil, lone, "/lone/_search", "", selection.ViaCopy, []string{"a"}, "to a itself, so that nothing travels between nodes."},
		{"ejected", func(h *harness) { h.slow(0) }, lone, "/lone/_search", "", selection.ViaEjected, []string{"b", "c", "d"}, "to one of b, c, d, in place of a, which is ejected"},
		{"leaving", func(h *harness) { require.NoError(h.t, h.proxy.Drain("a", time.Hour)) }, lone, "/lone/_search", "", selection.ViaLeaving, []string{"b", "c", "d"}, "in place of a, which is about to leave."},
		{"no poll", poll(selection.Poll{State: selection.Unresponsive, Took: time.Second}), lone, "/lone/_search", "", selection.ViaNotFine, []string{"b", "c", "d"}, "in place of a, which answers no polls"},
		{"slow HTTP", poll(selection.Poll{State: selection.Fine, ServiceTime: 3 * time.Millisecond, Took: 3 * time.Second}), lone, "/lone/_search", "", selection.ViaSlowHTTP, []string{"b", "c", "d"}, "in place of a, which is slow to coordinate."},
		{"unreachable", func(h *harness) { h.selector.MarkUnreachable(h.proxy.view.Load().nodes[0], "refused", time.Now()) }, lone, "/lone/_search", "", selection.ViaUnreachable, []string{"b", "c", "d"}, "in place of a, which cannot be reached."},
		{"full", poll(selection.Poll{State: selection.Fine, ServiceTime: 3 * time.Millisecond, Used: 4}), lone, "/lone/_search", "", viaAny, nil, "through one of all nodes, in turn."},
		{"several lone copies", nil, three, "/three/_search", "", viaAny, nil, "through one of all nodes, in turn."},
		{"observe", observe, search, "/idx/_search", "", viaAny, nil, "as the client wrote it all the same."},
		{"observe, lone copy", observe, lone, "/lone/_search", "", viaAny, nil, "as the client wrote it all the same."},
		{"passes", nil, Question{Target: "idx", Preference: "_local"}, "/idx/_search?preference=_local", "", viaAny, nil, "The client chose"},
		{"forbidden", func(h *harness) { h.proxy.suspend() }, search, "/idx/_search", "", viaAny, nil, "The cluster forbids"},
		{"an item on a lone copy", nil, Question{Operation: es.MSearch, Target: "lone"}, "/lone/_msearch", "{}\n{}\n", viaAny, nil, "through one of all nodes, in turn."},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := start(t, 4, nil)
			h.useThreeWithoutReplicas()
			h.slow()
			if c.begin != nil {
				c.begin(h)
			}
			h.answer = respond(http.StatusOK, strings.Replace(complete, `"took":3,`, `"took":60000,`, 1)) // no overhead, however busy this machine is
			seen := map[string]bool{}
			for range 12 {
				e := h.explain(c.q)
				require.Equal(t, c.why, e.Why)
				require.Contains(t, e.Summary, c.says)
				method, headers := http.MethodGet, []string(nil)
				if c.body != "" {
					method, headers = http.MethodPost, []string{"Content-Type", ndjson}
				}
				h.do(method, c.uri, c.body, headers...)
				node := h.seen()[0].node
				seen[node] = true
				named := e.Coordinators
				if e.Coordinator != "" {
					named = []string{e.Coordinator}
				}
				if c.why == viaAny {
					require.Empty(t, named)
					continue
				}
				require.Contains(t, named, node)
				if c.through != nil {
					require.Equal(t, c.through, named)
				}
			}
			if c.why == viaAny {
				require.Greater(t, len(seen), 1)
			} else if c.through != nil {
				require.Len(t, seen, len(c.through), "all of them take turns")
			}
		})
	}
}

// useThreeWithoutReplicas has an index of three shards with a copy each, and nodes of which the processors are known.
func (h *harness) useThreeWithoutReplicas() {
	c := h.contents()
	for _, n := range c.Nodes {
		n.Processors = 4
	}
	three := cluster.Index{Name: "three"}
	for i := range 3 {
		three.Shards = append(three.Shards, cluster.Shard{Number: i, Copies: []cluster.Copy{{Node: id(i), Kind: 'p', State: cluster.Started}}})
	}
	c.Indices = append(c.Indices, three)
	h.proxy.UseSnapshot(cluster.NewSnapshot(c))
}

// Every reason has words, and many nodes that take turns are not all named in them.
func TestEveryReasonOfACoordinatingNodeHasWords(t *testing.T) {
	for _, why := range append(selection.Vias(), viaAny, viaAddresses) {
		require.NotEmpty(t, viaTexts[why], why)
	}
	many := Through{Why: selection.ViaTurns}
	for i := range 8 {
		many.Coordinators = append(many.Coordinators, fmt.Sprint("n", i))
	}
	require.Contains(t, many.text(), " to one of n0, n1, n2, n3, n4 and 3 more, which coordinates")
}
