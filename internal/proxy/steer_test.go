package proxy

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/selection"
)

func stringBody(s string) io.Reader {
	if s == "" {
		return nil
	}
	return strings.NewReader(s)
}

// slow has the nodes given ejected for being slow, by probes.
func (h *harness) slow(nodes ...int) {
	h.measured(nodes...)
	all := h.proxy.view.Load().nodes
	now := time.Now().Add(-2 * time.Second)
	unproved := func(i int) bool { return all[i].State() != selection.Slow }
	for rounds := 0; slices.ContainsFunc(nodes, unproved); rounds++ {
		require.Less(h.t, rounds, 10)
		h.selector.Suspect(&selection.Decision{Nodes: all}, now)
		probes := h.selector.Probes(nil, now)
		for _, bad := range []bool{false, true} {
			took := 2 * time.Millisecond
			if bad {
				took = 100 * time.Millisecond
			}
			for _, p := range probes {
				if slices.ContainsFunc(nodes, func(i int) bool { return all[i] == p.Node }) == bad {
					h.selector.ObserveProbe(p, selection.ProbeOutcome{Took: took}, now.Add(took))
				}
			}
		}
		now = now.Add(150 * time.Millisecond)
	}
}

// measured has the response times of the nodes given far above the others', which is no
// proof.
func (h *harness) measured(nodes ...int) {
	seen := map[string]selection.Seen{}
	for i := range h.nodes {
		seen[id(i)] = selection.Seen{Now: 5 * time.Millisecond}
	}
	for _, i := range nodes {
		seen[id(i)] = selection.Seen{Now: 500 * time.Millisecond}
	}
	for i := range h.nodes {
		h.selector.ObservePoll(id(i), selection.Poll{State: selection.Fine, ServiceTime: 3 * time.Millisecond, Coordinated: seen}, time.Now())
	}
}

func TestSearchesAreRewritten(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	for _, tc := range []struct{ name, method, uri, body, want string }{
		{"post", "POST", "/idx/_search", `{"size":1}`, "/idx/_search?preference=_only_nodes:id-a,id-c"},
		{"get with body", "GET", "/idx/_search", `{"size":1}`, "/idx/_search?preference=_only_nodes:id-a,id-c"},
		{"uri search", "GET", "/idx/_search?q=x", "", "/idx/_search?q=x&preference=_only_nodes:id-a,id-c"},
		{"no target", "POST", "/_search", `{"size":1}`, "/_search?preference=_only_nodes:id-a,id-c"},
		{"wildcard", "POST", "/logs-*/_search?q=x", "", "/logs-*/_search?q=x&preference=_only_nodes:id-a,id-c"},
		{"escaped", "POST", "/logs-%2A/_search", "", "/logs-%2A/_search?preference=_only_nodes:id-a,id-c"},
		{"odd query", "POST", "/idx/_search?q=a%%;size=3&&x", "", "/idx/_search?q=a%%;size=3&&x&preference=_only_nodes:id-a,id-c"},
		{"routing", "POST", "/idx/_search?routing=u1", "", "/idx/_search?routing=u1&preference=_only_nodes:id-a,id-c"},
		{"cannot be verified", "POST", "/idx/_search?filter_path=hits", "", "/idx/_search?filter_path=hits&preference=_prefer_nodes:id-a,id-c"},
		{"scroll", "POST", "/idx/_search?scroll=1m", "", "/idx/_search?scroll=1m&preference=_prefer_nodes:id-a,id-c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, body := h.do(tc.method, tc.uri, tc.body, explainHeader, "1")
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, complete, body)
			seen := h.seen()
			require.Len(t, seen, 1)
			require.Equal(t, tc.want, seen[0].uri)
			require.Equal(t, tc.body, seen[0].body)
			require.Equal(t, tc.method, seen[0].method)
			require.NotEqual(t, "b", seen[0].node, "the slow node does not coordinate")
			require.NotContains(t, seen[0].header, explainHeader)
			require.Equal(t, "mode=route; reason=ranked; nodes=a,c; attempts=1; coordinator="+seen[0].node, resp.Header.Get(decisionHeader))
		})
	}
	require.Contains(t, h.learned, "idx|u1", "a routing is learned")
}

func TestWhatMustNotBeRewrittenPasses(t *testing.T) {
	h := start(t, 3, nil)
	for _, tc := range []struct{ method, uri, body, reason string }{
		{"POST", "/idx/_search?preference=_local", `{}`, "client_preference"},
		{"POST", "/idx/_search?preference=session-7", `{}`, "client_preference"},
		{"POST", "/_search", `{"pit":{"id":"x"}}`, "pit"},
		{"POST", "/_search", `not json`, "unreadable_body"},
		{"POST", "/_search/scroll", `{"scroll_id":"x"}`, "not_steerable"},
		{"POST", "/remote:idx/_search", `{}`, "remote_target"},
		{"POST", "/never-seen/_search", `{}`, "unknown_target"},
		{"POST", "/lone/_search", `{}`, "no_choice"},
		{"POST", "/idx/_doc?refresh=true", `{"a":1}`, "not_steerable"},
		{"GET", "/", "", "not_steerable"},
		{"GET", "//idx//_search", "", "not_steerable"},
		{"GET", "/a/../_cat/indices?v&%%;x", "", "not_steerable"},
		{"PUT", "/idx%2Fb/%3Clog-%7Bnow%2Fd%7D%3E", `{}`, "not_steerable"},
		{"HEAD", "/idx", "", "not_steerable"},
	} {
		t.Run(tc.method+" "+tc.uri, func(t *testing.T) {
			resp, _ := h.do(tc.method, tc.uri, tc.body, explainHeader, "1", "Authorization", "Basic abc", "X-Forwarded-For", "1.2.3.4", "User-Agent", "mine")
			require.Equal(t, http.StatusOK, resp.StatusCode)
			seen := h.seen()
			require.Len(t, seen, 1)
			require.Equal(t, tc.method+" "+tc.uri, seen[0].method+" "+seen[0].uri)
			require.Equal(t, tc.body, seen[0].body)
			require.Equal(t, "Basic abc", seen[0].header.Get("Authorization"))
			require.Equal(t, "1.2.3.4", seen[0].header.Get("X-Forwarded-For"))
			require.Equal(t, "mine", seen[0].header.Get("User-Agent"))
			require.Contains(t, resp.Header.Get(decisionHeader), "reason="+tc.reason+";")
		})
	}
	require.Equal(t, []string{"never-seen|"}, h.learned)
}

func TestModes(t *testing.T) {
	h := start(t, 3, nil)
	require.EqualError(t, h.proxy.SetMode("on"), `unknown mode "on", valid are route, observe, off`)
	for mode, reason := range map[Mode]string{ModeObserve: "observe", ModeOff: "mode_off"} {
		require.NoError(t, h.proxy.SetMode(mode))
		resp, _ := h.do("POST", "/idx/_search", `{}`, explainHeader, "1")
		require.Equal(t, "/idx/_search", h.seen()[0].uri)
		require.Contains(t, resp.Header.Get(decisionHeader), "mode="+string(mode)+"; reason="+reason+"; nodes=; attempts=1; coordinator=")
	}
}

func TestNothingIsSteeredByAnOldPlacement(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.MaxPlacementAge = time.Nanosecond })
	resp, _ := h.do("POST", "/idx/_search", `{}`, explainHeader, "1")
	require.Equal(t, "/idx/_search", h.seen()[0].uri)
	require.Contains(t, resp.Header.Get(decisionHeader), "reason=stale_placement")
}

// What streams cannot be sent again without its list of nodes. So it has none where that may be refused, for want of
// credentials, say: the client would read of a request that is not its own.
func TestWhatStreamsPassesWhereAListMayBeRefused(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.MaxHeldBody = 100 })
	h.slow(1)
	resp, _ := h.do("POST", "/idx/_search", `{"query":"`+strings.Repeat("x", 1000)+`"}`, explainHeader, "1")
	require.Equal(t, "/idx/_search", h.seen()[0].uri)
	require.Contains(t, resp.Header.Get(decisionHeader), "reason=body_too_large;")
}

// A client that asks before it sends a body that can be held is told to, and its search is like any other.
func TestASearchWhoseBodyIsAnnouncedIsSteered(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	_, body := h.do("POST", "/idx/_search", `{}`, "Expect", "100-continue")
	require.Equal(t, complete, body)
	seen := h.seen()
	require.Len(t, seen, 1)
	require.Contains(t, seen[0].uri, "preference=_only_nodes:")
	require.Equal(t, `{}`, seen[0].body)
	require.Empty(t, seen[0].header["Expect"])
}

func TestBodyTooLargeToHoldStreamsWithTheEngineFallback(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.MaxHeldBody = 100 })
	h.useElasticsearch()
	body := `{"query":"` + strings.Repeat("x", 1<<20) + `"}`
	resp, text := h.do("POST", "/idx/_search", body)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, complete, text)
	seen := h.seen()[0]
	require.Equal(t, body, seen.body)
	require.Contains(t, seen.uri, "preference=_prefer_nodes:")
	resp, _ = h.do("POST", "/_search", body, explainHeader, "1")
	require.Contains(t, resp.Header.Get(decisionHeader), "reason=unreadable_body", "it may hide a point in time")
	require.Equal(t, body, h.seen()[0].body)
}

func TestExplainAndNodes(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	e := h.explain(Question{Target: "idx"})
	require.True(t, e.Steered)
	require.Equal(t, "ranked", e.Reason)
	require.Equal(t, []string{"a", "c"}, e.Nodes)
	require.Equal(t, "preference=_only_nodes:id-a,id-c", e.Preference)
	require.Len(t, e.Shards, 3)
	require.Equal(t, "idx", e.Shards[0].Index)
	require.True(t, e.Shards[0].Copies[0].Listed)
	require.False(t, e.Shards[0].Copies[1].Listed)
	require.Equal(t, selection.KeptSlow, e.Shards[0].Copies[1].Excluded)

	e = h.explain(Question{Target: "never-seen", Routing: "x"})
	require.False(t, e.Steered)
	require.Equal(t, "unknown_target", e.Reason)

	h.do("POST", "/idx/_search", `{}`)
	nodes := h.proxy.Nodes()
	require.Len(t, nodes, 3)
	require.Equal(t, "a", nodes[0].Name)
	require.Equal(t, h.nodes[0].Listener.Addr().String(), nodes[0].Address)
	require.Positive(t, nodes[0].Share)
	require.Zero(t, nodes[1].Share)
}

func TestNoHeaderIsAddedToTheAnswer(t *testing.T) {
	h := start(t, 1, nil)
	h.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"], w.Header()["Content-Type"] = nil, nil
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		w.Header().Set("Content-Length", "2")
		_, _ = io.WriteString(w, "{}")
	}
	resp, _ := h.do("GET", "/_cluster/health", "")
	require.Equal(t, http.Header{"X-Elastic-Product": {"Elasticsearch"}, "Content-Length": {"2"}}, resp.Header)
}

func TestOnlyWhileThereIsAnOutlier(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.When = WhenOutlier })
	h.slow()
	resp, _ := h.do("POST", "/idx/_search", `{}`, explainHeader, "1")
	require.Equal(t, "/idx/_search", h.seen()[0].uri)
	require.Contains(t, resp.Header.Get(decisionHeader), "reason=no_outlier")
	h.slow(1)
	h.slow(1)
	h.do("POST", "/idx/_search", `{}`)
	require.Contains(t, h.seen()[0].uri, "preference=_only_nodes:id-a,id-c")
}

func TestPreferNodesWherever(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.PreferNodes = true })
	h.slow(1)
	h.do("POST", "/idx/_search", `{}`)
	require.Contains(t, h.seen()[0].uri, "preference=_prefer_nodes:id-a,id-c")
}
