package proxy

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/selection"
)

func TestOperationsAreRewritten(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	for _, tc := range []struct{ method, uri, body, want string }{
		{"GET", "/idx/_count?q=x", "", "/idx/_count?q=x&preference=_only_nodes:id-a,id-c"},
		{"POST", "/_count", `{"query":{}}`, "/_count?preference=_only_nodes:id-a,id-c"},
		{"POST", "/logs-*/_search/template", `{"id":"t"}`, "/logs-*/_search/template?preference=_only_nodes:id-a,id-c"},
		{"POST", "/idx/_search/template?scroll=1m", `{"id":"t"}`, "/idx/_search/template?scroll=1m&preference=_prefer_nodes:id-a,id-c"},
		{"POST", "/idx/_async_search", `{}`, "/idx/_async_search?preference=_prefer_nodes:id-a,id-c"},
		{"POST", "/_async_search", `{}`, "/_async_search?preference=_prefer_nodes:id-a,id-c"},
		{"POST", "/_plugins/_asynchronous_search?index=idx", `{}`, "/_plugins/_asynchronous_search?index=idx&preference=_prefer_nodes:id-a,id-c"},
		{"POST", "/idx/_pit?keep_alive=1m", "", "/idx/_pit?keep_alive=1m&preference=_prefer_nodes:id-a,id-c"},
		{"POST", "/idx/_search/point_in_time?keep_alive=1m", "", "/idx/_search/point_in_time?keep_alive=1m&preference=_prefer_nodes:id-a,id-c"},
	} {
		t.Run(tc.uri, func(t *testing.T) {
			resp, body := h.do(tc.method, tc.uri, tc.body, explainHeader, "1")
			require.Equal(t, complete, body)
			seen := h.seen()
			require.Len(t, seen, 1)
			require.Equal(t, tc.want, seen[0].uri)
			require.Equal(t, tc.body, seen[0].body)
			require.Contains(t, resp.Header.Get(decisionHeader), "reason=ranked; nodes=a,c; attempts=1")
		})
	}
}

func TestOperationsThatPass(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.MaxHeldBody, o.Affinity.Strings = 1000, true })
	h.slow(1)
	large := `{"query":"` + strings.Repeat("x", 1000) + `"}`
	for _, tc := range []struct{ method, uri, body, reason string }{
		{"POST", "/_search/template", `{"id":"t"}`, "unreadable_body"},
		{"POST", "/_async_search", `{"pit":{"id":"x"}}`, "pit"},
		{"POST", "/idx/_pit?preference=session", "", "client_preference"},
		{"POST", "/idx/_count", large, "body_too_large"},
		{"GET", "/_async_search/x", "", "not_steerable"},
		{"DELETE", "/_pit", `{"id":"x"}`, "not_steerable"},
	} {
		t.Run(tc.uri, func(t *testing.T) {
			resp, _ := h.do(tc.method, tc.uri, tc.body, explainHeader, "1")
			seen := h.seen()
			require.Len(t, seen, 1)
			require.Equal(t, tc.uri, seen[0].uri)
			require.Equal(t, tc.body, seen[0].body)
			require.Contains(t, resp.Header.Get(decisionHeader), "reason="+tc.reason+";")
		})
	}
}

func TestOperationsThatAreOffPass(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.Off = []string{"count", "async_search", "msearch", "mget"} })
	h.slow(1)
	for uri, want := range map[string]struct{ uri, reason string }{
		"/idx/_count":    {"/idx/_count", "operation_off"},
		"/_async_search": {"/_async_search", "operation_off"},
		"/idx/_msearch":  {"/idx/_msearch", "operation_off"},
		"/idx/_mget":     {"/idx/_mget", "operation_off"},
		"/idx/_search":   {"/idx/_search?preference=_only_nodes:id-a,id-c", "ranked"},
	} {
		resp, body := h.do("POST", uri, `{"x":1}`, explainHeader, "1")
		require.Equal(t, complete, body)
		seen := h.seen()
		require.Len(t, seen, 1)
		require.Equal(t, want.uri, seen[0].uri)
		require.Equal(t, `{"x":1}`, seen[0].body)
		require.Contains(t, resp.Header.Get(decisionHeader), "reason="+want.reason+";")
	}
	require.True(t, h.explain(Question{Target: "idx"}).Steered)

	h = start(t, 3, func(o *Options) { o.Off = []string{"search"} })
	e := h.explain(Question{Target: "idx"})
	require.False(t, e.Steered)
	require.Equal(t, "operation_off", e.Reason)
	o := h.proxy.o
	o.Off = []string{"write"}
	_, err := New(o)
	require.EqualError(t, err, `operation "write" is not steered: it cannot be switched off`)
}

// A partial count is as wrong as a partial search.
func TestAPartialCountIsSentAgain(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	badOnce(h, respond(http.StatusOK, `{"count":7,"_shards":{"total":3,"successful":2,"skipped":0,"failed":1,"failures":[{"shard":0,"index":"idx","node":"id-a"}]}}`))
	_, body := h.do("POST", "/idx/_count", `{}`)
	require.Equal(t, complete, body)
	require.Len(t, h.seen(), 2)
}

// What leaves something behind is never sent twice.
func TestWhatLeavesSomethingBehindIsSentOnce(t *testing.T) {
	const pit = `{"pit_id":"x","_shards":{"total":3,"successful":2,"skipped":0,"failed":1}}`
	for name, tc := range map[string]struct {
		status int
		body   string
	}{
		"rejected": {http.StatusTooManyRequests, `{"status":429}`},
		"failed":   {http.StatusServiceUnavailable, `{"status":503}`},
		"partial":  {http.StatusOK, pit},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, 3, nil)
			h.slow(1)
			h.answer = respond(tc.status, tc.body)
			resp, body := h.do("POST", "/idx/_search/point_in_time?keep_alive=1m", "")
			require.Equal(t, tc.status, resp.StatusCode)
			require.Equal(t, tc.body, body)
			require.Len(t, h.seen(), 1)
		})
	}
	t.Run("reset", func(t *testing.T) {
		h := start(t, 3, nil)
		h.slow(1)
		h.answer = func(_ string, _ http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }
		resp, body := h.do("POST", "/idx/_async_search", `{}`)
		require.Equal(t, http.StatusBadGateway, resp.StatusCode)
		require.Contains(t, body, "upstream_connection_exception")
		require.Len(t, h.seen(), 1)
	})
}

func TestWhatWasNeverReceivedIsSentElsewhere(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	h.end(0, 2)
	resp, body := h.do("POST", "/idx/_pit?keep_alive=1m", "")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, complete, body)
	seen := h.seen()
	require.Len(t, seen, 1)
	require.Equal(t, "b", seen[0].node)
	require.Equal(t, "/idx/_pit?keep_alive=1m&preference=_prefer_nodes:id-a,id-b,id-c", seen[0].uri, "nothing was sent: it is steered all the same")
}

// An error that quotes what was added, or refuses it, is not the client's.
func TestAnErrorAboutThePreferenceIsNotShown(t *testing.T) {
	for _, uri := range []string{"/idx/_search", "/idx/_search/template", "/idx/_pit?keep_alive=1m", "/idx/_async_search"} {
		t.Run(uri, func(t *testing.T) {
			h := start(t, 3, nil)
			h.slow(1)
			h.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"error":"no handler found for uri [`+r.RequestURI+`] and method [POST]"}`)
			}
			resp, body := h.do("POST", uri, `{"x":1}`)
			require.Equal(t, http.StatusBadRequest, resp.StatusCode)
			require.Equal(t, `{"error":"no handler found for uri [`+uri+`] and method [POST]"}`, body)
			seen := h.seen()
			require.Len(t, seen, 2)
			require.Equal(t, `{"x":1}`, seen[1].body)
			for _, n := range h.proxy.Nodes() {
				require.Zero(t, n.Failures, "nobody's fault")
			}
		})
	}
}

// What cannot be read may be about the preference.
func TestAnErrorInAnUnreadableCodingIsNotShown(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusForbidden} {
		h := start(t, 3, nil)
		h.slow(1)
		h.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "snappy")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "snappy: "+r.RequestURI)
		}
		resp, body := h.do("POST", "/idx/_search", `{"pit":{"id":"x"}}`, "Accept-Encoding", "snappy")
		require.Equal(t, status, resp.StatusCode)
		require.Equal(t, "snappy: /idx/_search", body)
		require.Len(t, h.seen(), 2)
	}
}

func TestForbiddenPreferenceIsSentAsItCame(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	badOnce(h, respond(http.StatusForbidden, strictWeights))
	resp, body := h.do("POST", "/idx/_pit?keep_alive=1m", "", explainHeader, "1")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, complete, body)
	require.Equal(t, "/idx/_pit?keep_alive=1m", h.seen()[1].uri)
	require.Contains(t, resp.Header.Get(decisionHeader), "reason=preference_forbidden;")
}

// How long an asynchronous search waits for its result says nothing of a node.
func TestWhatIsSentOnceDoesNotCountForSearches(t *testing.T) {
	h := start(t, 3, nil)
	h.slow()
	before := h.proxy.Nodes()
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		for _, n := range h.proxy.view.Load().nodes {
			if n.Outstanding() != 0 {
				t.Errorf("%d searches count as outstanding", n.Outstanding())
			}
		}
		time.Sleep(20 * time.Millisecond) // longer than the averages
		respond(http.StatusOK, `{"id":"x","is_running":true,"response":{"took":20}}`)(node, w, r)
	}
	for range 5 {
		h.do("POST", "/idx/_async_search", `{}`)
	}
	for i, n := range h.proxy.Nodes() {
		require.Equal(t, before[i].Parts.ResponseTime, n.Parts.ResponseTime)
		require.Equal(t, selection.Fine.String(), n.State)
	}
}

// What is sent through a node counts there as long as it is under way, whatever becomes of it on others.
func TestWhatIsUnderWayCountsAtItsCoordinatingNode(t *testing.T) {
	h := start(t, 3, nil)
	var counted atomic.Int64
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		for _, n := range h.proxy.Nodes() {
			counted.Add(n.Coordinating)
		}
		respond(http.StatusOK, complete)(node, w, r)
	}
	for _, uri := range []string{
		"/idx/_search", "/idx/_explain/1", "/idx/_async_search", "/idx/_pit?keep_alive=1m", "/idx/_search?scroll=1m", "/idx/_refresh",
	} {
		counted.Store(0)
		h.do("POST", uri, `{}`)
		require.EqualValues(t, 1, counted.Load(), uri)
	}
}
