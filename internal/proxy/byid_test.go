package proxy

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/es"
	"sidestep/internal/selection"
	"sidestep/internal/selection/account"
)

// idIn returns an id whose document is in this shard of idx, of three nodes.
func idIn(shard int) string {
	layout := es.Routing{Shards: 3, RoutingShards: 3, PartitionSize: 1}
	for i := 0; ; i++ {
		if id := "doc-" + strconv.Itoa(i); layout.Shard(id, "") == shard {
			return id
		}
	}
}

// document is the answer to a read of a document that looks like a partial search.
const document = `{"_index":"idx","_id":"1","found":true,"_shards":{"total":3,"successful":1,"failed":2},"_source":{}}`

// Shard 0 is on a and b, shard 1 on b and c, shard 2 on c and a; b is slow.
func TestReadsByIDPreferTheBestCopy(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.When, o.Affinity.Strings = WhenOutlier, true })
	h.slow(1)
	h.answer = respond(http.StatusOK, document)
	zero, one, two := idIn(0), idIn(1), idIn(2)
	for _, tc := range []struct{ method, uri, body, want string }{
		{"GET", "/idx/_doc/" + zero, "", "/idx/_doc/" + zero + "?preference=_prefer_nodes:id-a"},
		{"GET", "/idx/_doc/" + one + "?realtime=false&refresh=true&version=3", "", "/idx/_doc/" + one + "?realtime=false&refresh=true&version=3&preference=_prefer_nodes:id-c"},
		{"HEAD", "/idx/_doc/" + zero, "", "/idx/_doc/" + zero + "?preference=_prefer_nodes:id-a"},
		{"GET", "/alias/_source/" + one + "?_source_includes=a", "", "/alias/_source/" + one + "?_source_includes=a&preference=_prefer_nodes:id-c"},
		{"GET", "/idx/_doc/x?routing=" + zero, "", "/idx/_doc/x?routing=" + zero + "&preference=_prefer_nodes:id-a"},
		{"GET", "/idx/_doc/" + zero + "?preference=mine", "", "/idx/_doc/" + zero + "?preference=_prefer_nodes:id-a"},
		{"POST", "/idx/_explain/" + one, `{"query":{"match_all":{}}}`, "/idx/_explain/" + one + "?preference=_prefer_nodes:id-c"},
		{"POST", "/idx/_termvectors/" + zero, `{"fields":["f"]}`, "/idx/_termvectors/" + zero + "?preference=_prefer_nodes:id-a"},
		{"POST", "/idx/_mget", `{"ids":["` + zero + `","` + one + `"]}`, "/idx/_mget?preference=_prefer_nodes:id-a,id-c"},
		{"POST", "/_mget", `{"docs":[{"_index":"alias","_id":"` + zero + `"},{"_index":"lone","_id":"1"}]}`, "/_mget?preference=_prefer_nodes:id-a"},
	} {
		t.Run(tc.method+" "+tc.uri, func(t *testing.T) {
			resp, body := h.do(tc.method, tc.uri, tc.body, explainHeader, "1")
			require.Equal(t, http.StatusOK, resp.StatusCode)
			if tc.method != "HEAD" {
				require.Equal(t, document, body)
			}
			seen := h.seen()
			require.Len(t, seen, 1)
			require.Equal(t, tc.want, seen[0].uri)
			require.Equal(t, tc.body, seen[0].body)
			require.Contains(t, resp.Header.Get(decisionHeader), "attempts=1")
		})
	}
	require.Contains(t, []string{"id-a", "id-c"}, preferred(t, h, "/idx/_doc/"+two))
}

// A node that stops answers 503, also to reads of documents that other nodes have. Clients ask another node then, which
// they cannot do through one address.
func TestAReadThatANodeCannotAnswerGoesThroughAnother(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	failing := ""
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if failing == "" || failing == node {
			failing = node
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		respond(http.StatusOK, document)(node, w, r)
	}
	resp, body := h.do("GET", "/idx/_doc/"+idIn(0), "")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, document, body)
	seen := h.seen()
	require.Len(t, seen, 2)
	require.Equal(t, "/idx/_doc/"+idIn(0), seen[1].uri, "as the client wrote it")

	h.answer = respond(http.StatusServiceUnavailable, "none")
	resp, body = h.do("GET", "/idx/_doc/"+idIn(0), "")
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Equal(t, "none", body)
	require.Len(t, h.seen(), 2, "one more attempt, no more")
}

// preferred returns what a read is sent with.
func preferred(t *testing.T, h *harness, uri string) string {
	t.Helper()
	h.do("GET", uri, "")
	_, node, ok := strings.Cut(h.seen()[0].uri, "_prefer_nodes:")
	require.True(t, ok)
	return node
}

func TestReadsByIDThatPass(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.MaxHeldBody = 1000 })
	h.slow(1)
	id := idIn(0)
	for _, tc := range []struct{ method, uri, body, reason string }{
		{"GET", "/idx/_doc/" + id + "?preference=_local", "", "client_preference"},
		{"GET", "/idx/_doc/" + id + "?preference=mine", "", "client_preference"},
		{"GET", "/idx/_doc/" + id + "?routing=", "", "ambiguous_query"},
		{"GET", "/seg/_doc/" + id, "", "segment_replication"},
		{"GET", "/id*/_doc/" + id, "", "not_one_index"},
		{"GET", "/lone/_doc/" + id, "", "no_choice"},
		{"GET", "/new/_doc/" + id, "", "unknown_target"},
		{"POST", "/idx/_termvectors/" + id, `{"_id":"other"}`, "unreadable_body"},
		{"POST", "/idx/_mget", `{"ids":"1"}`, "unreadable_body"},
		{"POST", "/idx/_mget", `{"ids":["` + strings.Repeat("x", 1000) + `"]}`, "body_too_large"},
		{"POST", "/idx/_mget", `{"docs":[{"_id":"1"},{"_index":"seg","_id":"1"}]}`, "segment_replication"},
		{"POST", "/idx/_mget?filter_path=docs._source", `{"ids":["1"]}`, "unverifiable"},
		{"GET", "/idx/_mtermvectors?ids=1", "", "not_steerable"},
	} {
		t.Run(tc.uri+tc.reason, func(t *testing.T) {
			resp, _ := h.do(tc.method, tc.uri, tc.body, explainHeader, "1")
			require.Contains(t, resp.Header.Get(decisionHeader), "reason="+tc.reason+";")
			seen := h.seen()
			require.Len(t, seen, 1)
			require.Equal(t, tc.uri, seen[0].uri)
			require.Equal(t, tc.body, seen[0].body)
		})
	}
	require.Equal(t, []string{"layout of new"}, h.learned)
}

// A get that has a body is no other request: the engine refuses it.
func TestAGetWithABody(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	h.answer = respond(http.StatusBadRequest, `{"error":"it takes no body"}`)
	uri := "/idx/_doc/" + idIn(0)
	resp, body := h.do("GET", uri, `{"query":{}}`, explainHeader, "1")
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.Equal(t, `{"error":"it takes no body"}`, body)
	require.Contains(t, resp.Header.Get(decisionHeader), "reason=ranked;")
	last := h.seen()[1]
	require.Equal(t, []string{uri, `{"query":{}}`}, []string{last.uri, last.body})
}

// What the engine says of a read stands: it has tried every copy.
func TestAnswersToReadsByIDStand(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError} {
		h := start(t, 3, nil)
		h.slow(1)
		h.answer = respond(status, `{"error":"on id-a"}`)
		for range 3 {
			resp, body := h.do("GET", "/idx/_doc/"+idIn(0), "")
			require.Equal(t, status, resp.StatusCode)
			require.JSONEq(t, `{"error":"on id-a"}`, body)
			require.Len(t, h.seen(), 1)
		}
		for _, n := range account.Nodes(h.selector, h.proxy.view.Load().nodes, time.Now()) {
			require.Zero(t, n.Failures, "the copy that failed may be any")
		}
	}
}

// A read is repeated after a broken connection, as the client wrote it.
func TestReadsByIDAreRepeated(t *testing.T) {
	for _, tc := range []struct{ method, uri, body string }{
		{"GET", "/idx/_doc/" + idIn(0), ""}, {"POST", "/idx/_mget", `{"ids":["` + idIn(0) + `"]}`},
	} {
		h := start(t, 3, nil)
		h.slow(1)
		h.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.RequestURI, "preference") {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, document)
		}
		resp, body := h.do(tc.method, tc.uri, tc.body)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, document, body)
		seen := h.seen()
		require.NotEqual(t, tc.uri, seen[0].uri)
		require.Equal(t, tc.uri, seen[len(seen)-1].uri)
		require.Equal(t, tc.body, seen[len(seen)-1].body)
	}
}

// Under strict weighted routing OpenSearch refuses node preferences: with 403, with
// 403 and no body, or with 200 and an error for each document.
func TestReadsByIDUnderWeightedRouting(t *testing.T) {
	const refusal = `{"type":"preference_based_search_not_allowed_exception","reason":"Preference type based routing not allowed with strict weighted shard routing enabled"}`
	for name, tc := range map[string]struct {
		method, uri, body string
		status            int
		answer            string
		suspends          bool
	}{
		"get":  {"GET", "/idx/_doc/" + idIn(0), "", http.StatusForbidden, `{"error":` + refusal + `,"status":403}`, true},
		"head": {"HEAD", "/idx/_doc/" + idIn(0), "", http.StatusForbidden, "", false},
		"mget": {"POST", "/idx/_mget", `{"ids":["` + idIn(0) + `"]}`, http.StatusOK, `{"docs":[{"_index":"idx","_id":"1","error":` + refusal + `}]}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, 3, nil)
			h.slow(1)
			h.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
				status, body := http.StatusOK, document
				if strings.Contains(r.RequestURI, "preference") {
					status, body = tc.status, tc.answer
				}
				w.WriteHeader(status)
				if r.Method != http.MethodHead {
					_, _ = io.WriteString(w, body)
				}
			}
			resp, body := h.do(tc.method, tc.uri, tc.body)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			if tc.method != http.MethodHead {
				require.Equal(t, document, body)
			}
			require.Len(t, h.seen(), 2)
			resp, _ = h.do(tc.method, tc.uri, tc.body, explainHeader, "1")
			require.Equal(t, tc.suspends, strings.Contains(resp.Header.Get(decisionHeader), "reason=preference_forbidden"))
		})
	}
}

// Reads are much faster than searches: they do not count for the response time, and a
// node that owes them is not silent. They do count as load.
func TestReadsByIDDoNotCountForSearches(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	nodes := h.proxy.view.Load().nodes
	times := func() (all []float64) {
		for _, n := range account.Nodes(h.selector, nodes, time.Now()) {
			all = append(all, n.Parts.ResponseTime)
		}
		return all
	}
	before := times()
	entered, leave := make(chan struct{}), make(chan struct{})
	h.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
		entered <- struct{}{}
		<-leave
		_, _ = io.WriteString(w, document)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.do("GET", "/idx/_doc/"+idIn(0), "")
	}()
	<-entered
	a := nodes[slices.IndexFunc(nodes, func(n *selection.Node) bool { return n.Name == "a" })]
	require.EqualValues(t, 1, a.Outstanding())
	close(leave)
	<-done
	require.Equal(t, before, times())
}

// A multi get tells for each document that the cluster forbids preferences, in an answer of 200. Where that may not be seen it
// passes, and is sent once.
func TestAMultiGetOfWhichTheAnswerCannotBeReadPasses(t *testing.T) {
	for _, c := range []struct{ header, value, coding string }{
		{"Accept-Encoding", "gzip, snappy", "snappy"},
		{"Accept-Encoding", "br", "br"},
		{"Accept-Encoding", "zstd", "zstd"},
		{"Accept", "application/cbor", ""},
	} {
		h := start(t, 3, nil)
		h.slow(1)
		h.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
			if c.coding != "" {
				w.Header().Set("Content-Encoding", c.coding)
			}
			_, _ = io.WriteString(w, document)
		}
		resp, _ := h.do("POST", "/idx/_mget", `{"ids":["`+idIn(0)+`"]}`, c.header, c.value, explainHeader, "1")
		require.Contains(t, resp.Header.Get(decisionHeader), "reason=unverifiable;", c.value)
		seen := h.seen()
		require.Len(t, seen, 1, c.value)
		require.Equal(t, "/idx/_mget", seen[0].uri)
	}
}
