package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/selection"
	"sidestep/internal/selection/account"
)

func partial(failed int, node string) string {
	return fmt.Sprintf(`{"took":3,"timed_out":false,"_shards":{"total":3,"successful":%d,"skipped":0,"failed":%d,"failures":[{"shard":0,"index":"idx","node":%q,"reason":{"type":"node_disconnected_exception"}}]},"hits":{"hits":[]}}`, 3-failed, failed, node)
}

const noNodes = `{"error":{"root_cause":[{"type":"illegal_argument_exception","reason":"no data nodes with criterion [id-a,id-c] found for shard: [idx][1]"}],"type":"illegal_argument_exception","reason":"no data nodes with criterion [id-a,id-c] found for shard: [idx][1]"},"status":400}`

const strictWeights = `{"error":{"type":"preference_based_search_not_allowed_exception","reason":"Preference type based routing not allowed with strict weighted shard routing enabled"},"status":403}`

// badOnce answers the first search badly and the others well.
func badOnce(h *harness, bad func(node string, w http.ResponseWriter, r *http.Request)) {
	first := true
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		now := first
		first = false
		h.mu.Unlock()
		if now {
			bad(node, w, r)
			return
		}
		respond(http.StatusOK, complete)(node, w, r)
	}
}

func TestABadAnswerIsFollowedByTheNextBestCopies(t *testing.T) {
	hijack := func(_ string, w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = c.Close()
		}
	}
	hello := func(_ string, w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n")
			_ = c.Close()
		}
	}
	for name, bad := range map[string]func(string, http.ResponseWriter, *http.Request){
		"99":        hello,
		"429":       respond(http.StatusTooManyRequests, `{"status":429}`),
		"500":       respond(http.StatusInternalServerError, `{"status":500}`),
		"502":       respond(http.StatusBadGateway, `{"status":502}`),
		"503":       respond(http.StatusServiceUnavailable, `{"status":503}`),
		"504":       respond(http.StatusGatewayTimeout, `{"status":504}`),
		"no copy":   respond(http.StatusBadRequest, noNodes),
		"partial":   respond(http.StatusOK, partial(1, "id-a")),
		"missing":   respond(http.StatusOK, missing),
		"reset":     hijack,
		"forbidden": respond(http.StatusForbidden, strictWeights),
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, 3, nil)
			h.slow(1)
			badOnce(h, bad)
			resp, body := h.do("POST", "/idx/_search?q=1", `{"x":1}`, explainHeader, "1")
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, complete, body)
			seen := h.seen()
			require.Len(t, seen, 2)
			require.Equal(t, `{"x":1}`, seen[1].body)
			require.NotEqual(t, seen[0].uri, seen[1].uri)
			require.Contains(t, resp.Header.Get(decisionHeader), "attempts=2")
		})
	}
}

// A list without a copy of some shard is of a placement that has changed. The engine knows where the copies are. A node that
// was left out is not asked in place of the others.
func TestAListWithoutACopyBecomesAPreference(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	badOnce(h, respond(http.StatusBadRequest, noNodes))
	_, body := h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, complete, body)
	seen := h.seen()
	require.Len(t, seen, 2)
	require.Equal(t, "/idx/_search?preference=_only_nodes:id-a,id-c", seen[0].uri)
	require.Equal(t, "/idx/_search?preference=_prefer_nodes:id-a,id-c", seen[1].uri)
	require.NotEqual(t, seen[0].node, seen[1].node)

	h.answer = respond(http.StatusBadRequest, noNodes) // as of another engine
	resp, _ := h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	seen = h.seen()
	require.Len(t, seen, 3)
	require.Equal(t, "/idx/_search", seen[2].uri)
}

// Where sidestep has left no copy out, the engine has asked every copy of the shards that failed, as far as it asks at all: not
// for the documents of a shard that has answered the query. So a search is sent again of which shards are missing, if nodes
// beside those that failed have room. Any other would only keep the queues full.
func TestASearchIsNotRepeatedWhereTheQueuesOfAllCopiesAreFull(t *testing.T) {
	const rejected = `{"type":"es_rejected_execution_exception","reason":"rejected execution"}`
	many := strings.Repeat(rejected+",", 1000) // more than what is read of an answer to judge it
	for name, bad := range map[string]struct {
		status int
		body   string
	}{
		"all shards":  {http.StatusTooManyRequests, `{"error":{"root_cause":[` + rejected + `],"type":"search_phase_execution_exception","reason":"all shards failed","failed_shards":[{"shard":0,"reason":` + rejected + `}]},"status":429}`},
		"many shards": {http.StatusTooManyRequests, `{"error":{"root_cause":[` + many + rejected + `],"type":"search_phase_execution_exception","reason":"all shards failed","failed_shards":[]},"status":429}`},
		"pretty":      {http.StatusTooManyRequests, "{\n  \"error\" : {\n    \"failed_shards\" : [\n      {\n        \"reason\" : " + rejected + "\n      }\n    ]\n  }\n}"},
		"some shards": {http.StatusOK, `{"took":3,"timed_out":false,"_shards":{"total":3,"successful":2,"skipped":0,"failed":1,"failures":[{"shard":0,"index":"idx","node":"id-a","reason":` + rejected + `}]},"hits":{"hits":[]}}`},
	} {
		for _, others := range []string{"narrowed", "have room", "reject, too"} {
			t.Run(name+", others "+others, func(t *testing.T) {
				h := start(t, 3, func(o *Options) { o.When = WhenOutlier })
				h.slow()
				switch others {
				case "narrowed":
					h.slow(1)
					h.slow(1)
				case "reject, too":
					h.selector.ObservePoll("id-c", selection.Poll{State: selection.Fine, Rejected: 0.5}, time.Now())
				}
				badOnce(h, respond(bad.status, bad.body))
				resp, body := h.do("POST", "/idx/_search", `{}`)
				if others == "narrowed" || others == "have room" && bad.status == http.StatusOK {
					require.Equal(t, complete, body, "another copy may have room")
					require.Len(t, h.seen(), 2)
					for _, n := range h.proxy.Nodes() {
						require.Zero(t, n.Failures, "a full queue is load, and no fault of %s", n.Name)
					}
					return
				}
				require.Equal(t, bad.status, resp.StatusCode)
				require.Equal(t, bad.body, body)
				require.Len(t, h.seen(), 1)
			})
		}
	}
}

// A node that has failed a search is not what it is sent through next while another one is left: it
// may fail that as well, and the answer to the request as the client wrote it is final.
func TestASearchIsNotRepeatedThroughTheNodeThatFailedIt(t *testing.T) {
	for nodes := 2; nodes <= 6; nodes++ {
		for _, general := range []bool{false, true} { // general: it is repeated as the client wrote it
			t.Run(fmt.Sprintf("%d nodes, failures general=%t", nodes, general), func(t *testing.T) {
				h := start(t, nodes, nil)
				h.slow(1)
				h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
					switch preference := r.URL.Query().Get("preference"); {
					case node == "a":
						respond(http.StatusTooManyRequests, `{"status":429}`)(node, w, r)
					case strings.Contains(preference, "id-a"):
						for general && h.proxy.searchBudget.Allows() {
							h.proxy.searchBudget.Failed()
						}
						respond(http.StatusOK, partial(1, "id-a"))(node, w, r)
					default:
						respond(http.StatusOK, complete)(node, w, r)
					}
				}
				for range 40 {
					resp, body := h.do("POST", "/idx/_search", `{}`)
					require.Equal(t, http.StatusOK, resp.StatusCode)
					require.Equal(t, complete, body)
				}
			})
		}
	}
}

func TestGzippedAnswerIsNotReencoded(t *testing.T) {
	h := start(t, 3, nil)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(complete + strings.Repeat(" ", 100_000)))
	_ = z.Close()
	h.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(b.Bytes())
	}
	resp, body := h.do("POST", "/idx/_search", `{}`, "Accept-Encoding", "gzip")
	require.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
	require.Equal(t, b.String(), body)
}

func TestLastResortIsTheClientsOwnRequest(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.RequestURI, "preference") {
			respond(http.StatusServiceUnavailable, `{"status":503}`)(node, w, r)
			return
		}
		respond(http.StatusOK, complete)(node, w, r)
	}
	resp, body := h.do("POST", "/idx/_search?q=a%%", `{}`)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, complete, body)
	seen := h.seen()
	require.Equal(t, "/idx/_search?q=a%%", seen[len(seen)-1].uri)
	require.LessOrEqual(t, len(seen), 2+1)
}

func TestTheEnginesVerdictOnTheClientsOwnRequestStands(t *testing.T) {
	h := start(t, 3, nil)
	h.answer = respond(http.StatusServiceUnavailable, `{"error":"all shards failed","status":503}`)
	resp, body := h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.JSONEq(t, `{"error":"all shards failed","status":503}`, body)
}

func TestTheBestAnswerSeenIsReturned(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.RequestURI, "preference") {
			respond(http.StatusOK, partial(1, "id-a"))(node, w, r)
			return
		}
		respond(http.StatusOK, partial(2, "id-a"))(node, w, r)
	}
	_, body := h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, partial(1, "id-a"), body)
}

func TestClientErrorsAreFinal(t *testing.T) {
	for status, body := range map[int]string{404: `{"status":404}`, 403: `{"status":403}`} {
		h := start(t, 3, nil)
		h.answer = respond(status, body)
		resp, text := h.do("POST", "/idx/_search", `{}`)
		require.Equal(t, status, resp.StatusCode)
		require.Equal(t, body, text)
		require.Len(t, h.seen(), 1)
	}
}

// The engines quote the request line to a client without credentials.
func TestAClientWithoutCredentialsReadsOfItsOwnRequest(t *testing.T) {
	h := start(t, 3, nil)
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		respond(http.StatusUnauthorized, `{"error":"missing authentication credentials for REST request [`+r.RequestURI+`]"}`)(node, w, r)
	}
	for _, uri := range []string{"/idx/_search", "/idx/_doc/1", "/idx/_pit?keep_alive=1m"} {
		resp, body := h.do("GET", uri, "")
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
		require.Contains(t, body, "["+uri+"]")
	}
}

func TestDeadNodesAreSteppedOver(t *testing.T) {
	h := start(t, 3, nil)
	h.end(0, 1)
	for range 4 {
		resp, _ := h.do("POST", "/idx/_search", `{}`)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		resp, _ = h.do("PUT", "/idx/_doc/1", `{"a":1}`)
		require.Equal(t, http.StatusOK, resp.StatusCode, "a connection refused is tried elsewhere, writes too")
	}
	h.end(2)
	resp, body := h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Contains(t, body, `"type":"no_upstream_exception"`)
	require.Contains(t, body, `"status":503`)
}

// A machine without a processor to spare makes no connection in time, to any node, and a process without a descriptor
// none at all: no client is told so that would have waited.
func TestConnectionsThatAreLateAreAwaited(t *testing.T) {
	t.Parallel()
	for why, often := range map[error]int64{os.ErrDeadlineExceeded: 9, os.NewSyscallError("socket", syscall.EMFILE): 3} {
		t.Run(why.Error(), func(t *testing.T) {
			t.Parallel()
			testConnectionsAreAwaited(t, why, often)
		})
	}
}

func testConnectionsAreAwaited(t *testing.T, why error, often int64) {
	t.Helper()
	var late atomic.Int64
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if late.Add(-1) >= 0 {
			return nil, &net.OpError{Op: "dial", Err: why}
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	h := start(t, 3, func(o *Options) { o.Leg.Dial, o.Leg.MaxIdle = dial, 0 })
	for _, request := range [][2]string{{"POST", "/idx/_search"}, {"GET", "/_cat/nodes"}, {"PUT", "/idx/_doc/1"}} {
		late.Store(often)
		resp, _ := h.do(request[0], request[1], `{}`)
		require.Equal(t, http.StatusOK, resp.StatusCode, request)
		require.Negative(t, late.Load())
		require.Len(t, h.seen(), 1, "it is sent once")
		h.proxy.UseSnapshot(h.snapshot())
	}
	late.Store(math.MaxInt32)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.front.URL+"/_cat/nodes", http.NoBody)
	require.NoError(t, err)
	time.AfterFunc(10*time.Millisecond, cancel)
	_, err = http.DefaultTransport.RoundTrip(req)
	require.ErrorIs(t, err, context.Canceled, "a client that leaves ends it")
}

func TestAWriteThatMayHaveArrivedIsNotRepeated(t *testing.T) {
	h := start(t, 3, nil)
	h.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = c.Close()
		}
	}
	resp, body := h.do("POST", "/idx/_doc", `{"a":1}`)
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	require.Contains(t, body, "upstream_connection_exception")
	require.Len(t, h.seen(), 1)
	for _, n := range h.proxy.Nodes() {
		require.NotEqual(t, selection.Unreachable.String(), n.State, "the engine may have hung up on the request")
	}
}

func TestForbiddenPreferencesSuspendRewriting(t *testing.T) {
	h := start(t, 3, nil)
	badOnce(h, respond(http.StatusForbidden, strictWeights))
	h.do("POST", "/idx/_search", `{}`)
	h.seen()
	resp, _ := h.do("POST", "/idx/_search", `{}`, explainHeader, "1")
	require.Equal(t, "/idx/_search", h.seen()[0].uri)
	require.Contains(t, resp.Header.Get(decisionHeader), "reason=preference_forbidden")

	// Without probes a search tries again after a while, and is the last to know.
	h.proxy.suspended.until.Store(new(time.Time))
	h.do("POST", "/idx/_search", `{}`)
	require.Contains(t, h.seen()[0].uri, "preference=_only_nodes")
	require.Nil(t, h.proxy.suspended.until.Load())
}

func TestClientCancelClosesTheUpstreamRequest(t *testing.T) {
	h := start(t, 3, nil)
	arrived, closed := make(chan struct{}, 8), make(chan struct{}, 8)
	h.answer = func(_ string, _ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
		closed <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.front.URL+"/idx/_search", strings.NewReader(`{}`))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		done <- err
	}()
	<-arrived
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	select {
	case <-closed:
	case <-time.After(patience):
		require.Fail(t, "the upstream request was not closed")
	}
	require.Len(t, h.seen(), 1, "a search nobody waits for is not repeated")
	require.Eventually(t, func() bool {
		for _, v := range h.proxy.Nodes() {
			if v.Outstanding != 0 || v.Failures != 0 || v.State == selection.Unreachable.String() {
				return false
			}
		}
		return true
	}, patience, 10*time.Millisecond, "it is nobody's fault")
}

// TestAnswerBeforeTheBodyIsRead: an engine may answer (413, 429) while a large
// body is still being sent; the answer must arrive whole and the connection must
// survive or be closed cleanly (golang/go#40747, golang/go#68560).
func TestAnswerBeforeTheBodyIsRead(t *testing.T) {
	h := start(t, 1, nil)
	answer := strings.Repeat("x", 32<<10)
	h.answer = respond(http.StatusOK, answer)
	for range 50 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.front.URL+"/_bulk", io.LimitReader(endless{}, 512<<10))
		require.NoError(t, err)
		req.Header.Set("X-Stream", "1")
		resp, err := http.DefaultTransport.RoundTrip(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, answer, string(body))
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// A cluster that loses a node while another is still coming back may fail a search
// on every copy, and the client's own request, for a moment.
func TestASearchThatFailsEverywhereIsSentOnceMore(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.HedgeBudget = 1 })
	h.slow()
	var left atomic.Int64
	left.Store(3)
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if left.Add(-1) >= 0 {
			respond(http.StatusInternalServerError, `{"status":500}`)(node, w, r)
			return
		}
		respond(http.StatusOK, complete)(node, w, r)
	}
	resp, body := h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, complete, body)

	left.Store(100)
	resp, _ = h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, http.StatusInternalServerError, resp.StatusCode, "the engine's verdict stands")
}

func TestClusterThatIsDownDoesNotFillTheLog(t *testing.T) {
	var log bytes.Buffer
	seed := &url.URL{Scheme: "http", Host: "127.0.0.1:1"} // a port on which nobody listens
	selector := selection.New(selection.Options{Epoch: time.Now()})
	o := options(selector, seed)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	p, err := New(o)
	require.NoError(t, err)
	for range 20 {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/logs/_search", http.NoBody))
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
	}
	require.Equal(t, 1, strings.Count(log.String(), "no upstream answered"))
}

// A search that fails wherever it goes, however often it is repeated, costs no node
// its place.
func TestWhatFailsEverywhereIsNoNodesFault(t *testing.T) {
	for name, answer := range map[string]func(string, http.ResponseWriter, *http.Request){
		"partial": func(node string, w http.ResponseWriter, r *http.Request) {
			respond(http.StatusOK, partial(1, "id-"+node))(node, w, r)
		},
		"500": respond(http.StatusInternalServerError, `{"status":500}`),
		"429": respond(http.StatusTooManyRequests, `{"status":429}`),
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, 3, nil)
			h.answer = answer
			for range 5 {
				resp, _ := h.do("POST", "/idx/_search?q=1", `{"x":1}`)
				require.NotNil(t, resp)
			}
			for _, n := range account.Nodes(h.selector, h.proxy.view.Load().nodes, time.Now()) {
				require.Nil(t, n.LastError, n.Name)
			}
		})
	}
}
