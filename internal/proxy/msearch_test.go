package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sidestep/internal/es"
	"sidestep/internal/selection"
	"sidestep/internal/selection/account"
)

const (
	found    = `{"took":3,"timed_out":false,"_shards":{"total":3,"successful":3,"skipped":0,"failed":0},"hits":{"total":{"value":0,"relation":"eq"},"hits":[]},"status":200}`
	refused  = `{"error":{"root_cause":[{"type":"preference_based_search_not_allowed_exception","reason":"Preference type based routing not allowed with strict weighted shard routing enabled"}],"type":"preference_based_search_not_allowed_exception","reason":"Preference type based routing not allowed with strict weighted shard routing enabled"},"status":403}`
	ndjson   = "application/x-ndjson"
	listed   = `"preference":"_prefer_nodes:id-a,id-c"`
	twoItems = "{\"index\":\"idx\"}\n{\"size\":1}\n{\"index\":\"logs-*\"}\n{\"size\":2}\n"
)

// responses is the answer to a multi-search with these items.
func responses(items ...string) string {
	return `{"took":4,"responses":[` + strings.Join(items, ",") + `]}`
}

// msearch sends a multi-search and returns its answer and the requests that nodes
// got.
func (h *harness) msearch(uri, body string, headers ...string) (resp *http.Response, text string, seen []recorded) {
	h.t.Helper()
	headers = append([]string{"Content-Type", ndjson, explainHeader, "1"}, headers...)
	resp, text = h.do("POST", uri, body, headers...)
	return resp, text, h.seen()
}

// counted returns the items counted, by reason.
func counted(t *testing.T, reg *prometheus.Registry) map[string]int {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	counts := map[string]int{}
	for _, f := range families {
		if f.GetName() != "sidestep_msearch_items_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if n := int(m.GetCounter().GetValue()); n > 0 {
				counts[m.GetLabel()[0].GetValue()] = n
			}
		}
	}
	return counts
}

func TestMultiSearchItemsAreRewritten(t *testing.T) {
	reg := prometheus.NewRegistry()
	h := start(t, 3, func(o *Options) { o.Registerer = reg; o.Affinity.Strings = true })
	h.slow(1)
	answer := responses(found, found)
	h.answer = respond(http.StatusOK, answer)
	for _, tc := range []struct{ name, uri, body, want string }{
		{"headers", "/_msearch", twoItems,
			`{"index":"idx",` + listed + "}\n{\"size\":1}\n" + `{"index":"logs-*",` + listed + "}\n{\"size\":2}\n"},
		{"path", "/idx/_msearch?max_concurrent_searches=3&rest_total_hits_as_int=true&typed_keys", "{}\n{}\n\n{}\n",
			"{" + listed + "}\n{}\n{" + listed + "}\n{}\n"},
		{"mixed", "/idx/_msearch", "{}\n{}\n{\"index\":\"lone\"}\n{}\n{\"index\":\"r:x\"}\n{}\n{\"preference\":\"_local\"}\n{}\n{\"index\":\"new\"}\n{}\n{\"index\":\"idx\"}\n{\"pit\":{}}\n{\"a\":1}\n{}\n",
			"{" + listed + "}\n{}\n{\"index\":\"lone\"}\n{}\n{\"index\":\"r:x\"}\n{}\n{\"preference\":\"_local\"}\n{}\n{\"index\":\"new\"}\n{}\n{\"index\":\"idx\"}\n{\"pit\":{}}\n{\"a\":1}\n{}\n"},
		{"template", "/idx/_msearch/template", "{\"index\":\"idx\"}\n{\"id\":\"t\"}\n", `{"index":"idx",` + listed + "}\n{\"id\":\"t\"}\n"},
		{"crlf", "/_msearch", "{\"index\":\"idx\"}\r\n{\"size\":1}\r\n", `{"index":"idx",` + listed + "}\r\n{\"size\":1}\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, text, seen := h.msearch(tc.uri, tc.body)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, answer, text)
			require.Len(t, seen, 1)
			require.Equal(t, tc.uri, seen[0].uri)
			require.Equal(t, tc.want, seen[0].body)
			require.Equal(t, fmt.Sprint(len(tc.want)), seen[0].header.Get("Content-Length"))
			require.Equal(t, ndjson, seen[0].header.Get("Content-Type"))
			require.NotEqual(t, "b", seen[0].node, "the slow node does not coordinate")
			require.Contains(t, resp.Header.Get(decisionHeader), "reason=ranked; nodes=a,c; attempts=1")
		})
	}
	require.Equal(t, []string{"new|"}, h.learned)
	require.Equal(t, map[string]int{
		"ranked": 7, "no_choice": 1, "remote_target": 1, "client_preference": 1, "unknown_target": 1, "pit": 1, "unreadable_header": 1,
	}, counted(t, reg))
}

func TestMultiSearchesThatPass(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.MaxHeldBody = 2000 })
	h.slow(1)
	large := "{\"index\":\"idx\"}\n{\"query\":\"" + strings.Repeat("x", 2000) + "\"}\n"
	for _, tc := range []struct{ name, uri, body, reason, header, value string }{
		{"nothing to steer", "/lone/_msearch", "{}\n{}\n", "no_choice", "", ""},
		{"first item's reason", "/remote:a/_msearch", "{}\n{}\n{\"index\":\"lone\"}\n{}\n", "remote_target", "", ""},
		{"no final newline", "/_msearch", "{\"index\":\"idx\"}\n{}", "unreadable_body", "", ""},
		{"leading newline", "/_msearch", "\n" + twoItems, "unreadable_body", "", ""},
		{"no body line", "/_msearch", "{\"index\":\"idx\"}\n", "unreadable_body", "", ""},
		{"empty", "/_msearch", "", "unreadable_body", "", ""},
		{"too large", "/_msearch", large, "body_too_large", "", ""},
		{"cbor", "/_msearch", twoItems, "unreadable_body", "Content-Type", "application/cbor"},
		{"encoded", "/_msearch", twoItems, "unreadable_body", "Content-Encoding", "gzip"},
		{"answer in cbor", "/_msearch", twoItems, "unverifiable", "Accept", "application/cbor"},
		{"answer cannot be decoded", "/_msearch", twoItems, "unverifiable", "Accept-Encoding", "br"},
		{"answer would be in snappy", "/_msearch", twoItems, "unverifiable", "Accept-Encoding", "gzip, snappy"},
		{"filtered", "/_msearch?filter_path=responses.hits", twoItems, "unverifiable", "", ""},
		{"in the URL", "/_msearch?preference=x", twoItems, "ambiguous_query", "", ""},
		{"source parameter", "/_msearch?source=x", twoItems, "unreadable_body", "", ""},
		{"typed", "/idx/doc/_msearch", twoItems, "typed_path", "", ""},
		{"template without target", "/_msearch/template", "{}\n{\"id\":\"t\"}\n", "unreadable_body", "", ""},
		{"session string", "/_msearch", "{\"index\":\"idx\",\"preference\":\"s\"}\n{}\n", "client_preference", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var headers []string
			if tc.header != "" {
				headers = []string{tc.header, tc.value}
			}
			resp, _, seen := h.msearch(tc.uri, tc.body, headers...)
			require.Len(t, seen, 1)
			require.Equal(t, tc.uri, seen[0].uri)
			require.Equal(t, tc.body, seen[0].body)
			require.Contains(t, resp.Header.Get(decisionHeader), "reason="+tc.reason+"; nodes=; attempts=1")
		})
	}
}

// Only OpenSearch forbids preferences: elsewhere nothing need be seen.
func TestMultiSearchNeedsNoVerdictFromElasticsearch(t *testing.T) {
	h := start(t, 3, nil)
	h.useElasticsearch()
	h.slow(1)
	h.answer = respond(http.StatusOK, responses(found, found))
	_, _, seen := h.msearch("/_msearch?filter_path=responses.hits", twoItems, "Accept-Encoding", "br")
	require.Contains(t, seen[0].body, listed)
}

func TestMultiSearchIsLeftToTheEngineWhileNobodyStandsOut(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.When = WhenOutlier })
	h.answer = respond(http.StatusOK, responses(found, found))
	h.slow()
	resp, _, seen := h.msearch("/_msearch", twoItems)
	require.Equal(t, twoItems, seen[0].body)
	require.Contains(t, resp.Header.Get(decisionHeader), "reason=no_outlier")
	h.slow(1)
	h.slow(1)
	_, _, seen = h.msearch("/_msearch", twoItems)
	require.Equal(t, 2, strings.Count(seen[0].body, listed))
}

func TestMultiSearchModes(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	for mode, reason := range map[Mode]string{ModeObserve: "observe", ModeOff: "mode_off"} {
		require.NoError(t, h.proxy.SetMode(mode))
		resp, _, seen := h.msearch("/_msearch", twoItems)
		require.Equal(t, twoItems, seen[0].body)
		require.Contains(t, resp.Header.Get(decisionHeader), "mode="+string(mode)+"; reason="+reason+"; nodes=;")
	}
}

func TestMultiSearchBounds(t *testing.T) {
	reg := prometheus.NewRegistry()
	h := start(t, 3, func(o *Options) { o.Registerer = reg; o.MaxHeldBody = 1 << 16 })
	h.slow(1)
	h.answer = respond(http.StatusOK, responses(found))
	var body strings.Builder
	for i := range maxItemTargets + 5 {
		fmt.Fprintf(&body, "{\"index\":\"new-%d\"}\n{}\n", i)
	}
	h.msearch("/_msearch", body.String())
	require.Len(t, h.learned, maxItemTargets)
	require.Equal(t, map[string]int{"unknown_target": maxItemTargets, reasonTooMany: 5}, counted(t, reg))

	many := strings.Repeat("\n{}\n", 5000)
	_, _, seen := h.msearch("/idx/_msearch", "{}\n{}\n"+many)
	require.LessOrEqual(t, len(seen[0].body), len(many)+1<<16+100, "a body grows within a bound")
	require.Greater(t, counted(t, reg)["ranked"], 1000)
	require.Greater(t, counted(t, reg)[reasonTooMany], 1000)
}

func TestMultiSearchWithoutAnAnswerIsSentAsTheClientWroteIt(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	h.answer = respond(http.StatusOK, responses(found, found))
	badOnce(h, func(_ string, w http.ResponseWriter, _ *http.Request) {
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = c.Close()
		}
	})
	resp, _, seen := h.msearch("/_msearch", twoItems)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, seen, 2)
	require.Contains(t, seen[0].body, listed)
	require.Equal(t, twoItems, seen[1].body)
	require.NotEqual(t, seen[0].node, seen[1].node)
}

// What the engine says of the request, or of one item, is the answer.
func TestMultiSearchIsNotRepeatedForABadAnswer(t *testing.T) {
	h := start(t, 3, nil)
	for status, body := range map[int]string{
		200: responses(found, `{"error":{"type":"index_not_found_exception","reason":"no such index [x]"},"status":404}`),
		429: `{"status":429}`,
		500: `{"status":500}`,
		503: `{"status":503}`,
	} {
		h.slow(1)
		h.answer = respond(status, body)
		resp, text, seen := h.msearch("/_msearch", twoItems)
		require.Equal(t, status, resp.StatusCode)
		require.Equal(t, body, text)
		require.Len(t, seen, 1)
	}
	failures := int64(0)
	for _, v := range h.proxy.Nodes() {
		failures += v.Failures
	}
	require.EqualValues(t, 2, failures, "429 and 503 are held against the coordinating node")
}

func TestMultiSearchUnderStrictWeightedRouting(t *testing.T) {
	long := `{"took":1,"hits":{"hits":["` + strings.Repeat("x", 100_000) + `"]}}`
	passed := "{\"index\":\"lone\"}\n{}\n"
	for name, tc := range map[string]struct {
		first  func(string, http.ResponseWriter, *http.Request)
		before string // items before those that are steered
	}{
		"plain":            {respond(http.StatusOK, responses(refused, refused)), ""},
		"gzip":             {encoded("gzip", responses(refused, refused)), ""},
		"deflate":          {encoded("deflate", responses(refused, refused)), ""},
		"not the first":    {respond(http.StatusOK, responses(found, refused, refused)), passed},
		"behind long ones": {respond(http.StatusOK, responses(long, long, refused, refused)), passed + passed},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, 3, nil)
			h.slow(1)
			badOnce(h, tc.first)
			body := tc.before + twoItems
			resp, text, seen := h.msearch("/_msearch", body, "Accept-Encoding", "gzip, deflate")
			require.Equal(t, complete, text)
			require.Len(t, seen, 2)
			require.Contains(t, seen[0].body, listed)
			require.Equal(t, body, seen[1].body)
			require.Contains(t, resp.Header.Get(decisionHeader), "reason=preference_forbidden; nodes=; attempts=2")
			_, _, seen = h.msearch("/_msearch", body)
			require.Equal(t, body, seen[0].body, "rewriting is suspended")
			h.do("POST", "/idx/_search", `{}`)
			require.Equal(t, "/idx/_search", h.seen()[0].uri, "for searches, too")
		})
	}
}

// What cannot be read may tell that preferences are refused.
func TestAMultiSearchWithAnAnswerInAnUnreadableCoding(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	badOnce(h, func(_ string, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "snappy")
		_, _ = io.WriteString(w, responses(refused, refused))
	})
	_, text, seen := h.msearch("/_msearch", twoItems, "Accept-Encoding", "gzip")
	require.Equal(t, complete, text)
	require.Len(t, seen, 2)
	require.Equal(t, twoItems, seen[1].body)
}

// A document may quote the refusal.
func TestMultiSearchAnswersAreNotMistakenForARefusal(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	quoting := responses(`{"took":1,"hits":{"hits":[{"_source":`+refused+`}]},"status":200}`, found)
	h.answer = respond(http.StatusOK, quoting)
	resp, text, seen := h.msearch("/_msearch", twoItems)
	require.Len(t, seen, 1)
	require.Equal(t, quoting, text)
	require.Contains(t, resp.Header.Get(decisionHeader), "reason=ranked")
}

func TestMultiSearchThatQuotesThePreferenceIsSentAsTheClientWroteIt(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	badOnce(h, respond(http.StatusBadRequest, `{"error":{"reason":"[preference] cannot be used with point in time"},"status":400}`))
	_, text, seen := h.msearch("/_msearch", twoItems)
	require.Equal(t, complete, text)
	require.Len(t, seen, 2)
	require.Equal(t, twoItems, seen[1].body)
}

func TestMultiSearchCountsItsItemsWhileTheyAreOutstanding(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	var outstanding atomic.Int64
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		outstanding.Store(h.proxy.view.Load().nodes[0].Outstanding())
		respond(http.StatusOK, responses(found, found, found))(node, w, r)
	}
	before := account.Nodes(h.selector, h.proxy.view.Load().nodes, time.Now())
	h.msearch("/_msearch", twoItems+"{\"index\":\"idx\"}\n{\"size\":3}\n")
	require.EqualValues(t, 3, outstanding.Load())
	require.Zero(t, h.proxy.view.Load().nodes[0].Outstanding())
	after := account.Nodes(h.selector, h.proxy.view.Load().nodes, time.Now())
	require.Equal(t, before[0].Parts.ResponseTime, after[0].Parts.ResponseTime, "it changes no response time")
	require.Equal(t, selection.Fine.String(), after[0].State)
}

// What is known of an item takes more memory than a short one takes on the wire.
func TestWhatNamesTooManyItemsPasses(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	for uri, body := range map[string]string{
		"/idx/_msearch": strings.Repeat("{}\n{}\n", es.MaxItems+1),
		"/idx/_mget":    `{"ids":["1"` + strings.Repeat(`,"1"`, es.MaxItems) + `]}`,
	} {
		resp, _ := h.do("POST", uri, body, explainHeader, "1")
		require.Contains(t, resp.Header.Get(decisionHeader), "reason=too_many_items;", uri)
		seen := h.seen()
		require.Len(t, seen, 1)
		require.Equal(t, uri, seen[0].uri)
		require.Equal(t, body, seen[0].body)
	}
}

// The answer is held until the first search in it that was steered has begun, as far as all that is held has room.
func TestAnswersToMultiSearchesAreHeldWithinBounds(t *testing.T) {
	read := make(chan struct{})
	h := start(t, 3, func(o *Options) { o.MaxHeldBodies = 64 << 10 })
	h.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"took":3,"responses":[{"hits":"`+strings.Repeat("x", 300<<10))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-read:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, `"},`+complete+`]}`)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	body := "{\"index\":\"idx\",\"preference\":\"_local\"}\n{}\n{\"index\":\"idx\"}\n{}\n"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.front.URL+"/_msearch", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err, "all of it is held")
	defer func() { _ = resp.Body.Close() }()
	close(read)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(text), `"},`+complete+`]}`))
	require.Contains(t, h.seen()[0].body, "_prefer_nodes:")
	require.NoError(t, resp.Body.Close())
	require.Eventually(t, func() bool { return h.proxy.o.Held.Load() == 0 }, patience, time.Millisecond)
}

// A gateway before the nodes may use a coding that the engines would not. By the second answer that is known: what has to be
// read passes then.
func TestTheCodingOfAGatewayIsKnownFromTheFirstAnswerOn(t *testing.T) {
	for _, request := range [][3]string{
		{"/_msearch", twoItems, "application/x-ndjson"}, {"/idx/_mget", `{"ids":["` + idIn(0) + `"]}`, "application/json"},
	} {
		h := start(t, 3, nil)
		h.slow(1)
		var coding string
		h.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", coding)
			_, _ = io.WriteString(w, responses(found, found))
		}
		for _, c := range []struct {
			coding, accepts string
			attempts        int
		}{
			{"br", "gzip, deflate, br", 2}, {"br", "gzip, deflate, br", 1}, {"br", "gzip, br, zstd", 1},
			{"zstd", "gzip, zstd", 2}, {"zstd", "gzip, zstd", 1}, // that is another one
		} {
			coding = c.coding
			h.do("POST", request[0], request[1], "Content-Type", request[2], "Accept-Encoding", c.accepts)
			require.Len(t, h.seen(), c.attempts, "%s %v", request[0], c)
		}
	}
}
