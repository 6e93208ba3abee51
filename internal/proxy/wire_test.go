package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"sidestep/internal/record"
	"sidestep/internal/selection"
)

// raw sends bytes to a server and returns all that comes back, the lines of the
// head sorted, as a list.
func raw(t *testing.T, server, request string) []string {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(server, "http://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, request)
	require.NoError(t, err)
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	head, body, ok := strings.Cut(string(got), "\r\n\r\n")
	require.True(t, ok, "%q", got)
	lines := strings.Split(head, "\r\n")
	slices.Sort(lines[1:])
	return append(lines, body)
}

// A steered search differs in its preference, and its answer in nothing but what
// was asked for.
func TestSteeredSearchOnTheWire(t *testing.T) {
	h := start(t, 3, nil)
	h.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
		for name, value := range map[string]string{
			"Date": "Thu, 01 Jan 1970 00:00:00 GMT", "Content-Type": "application/vnd.elasticsearch+json;compatible-with=8",
			"X-Elastic-Product": "Elasticsearch", "Warning": `299 Elasticsearch-8.19.4 "a"`, "X-Opaque-Id": "a b",
		} {
			w.Header().Set(name, value)
		}
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, complete)
	}
	const rest = " HTTP/1.1\r\nHost: es\r\nConnection: close\r\nX-Opaque-Id: a b\r\ntraceparent: 00-a-b-01\r\nX-Two: 2\r\nX-Two: 1\r\nX-Empty:\r\n" +
		"Content-Type: application/vnd.elasticsearch+json;compatible-with=8\r\nContent-Length: 12\r\n\r\n{\"size\" : 1}"
	const line = "POST /idx/_search?q=a;x=%%41&&y"

	want := raw(t, h.nodes[0].URL, line+rest)
	direct := h.seen()[0]
	require.Equal(t, want, raw(t, h.front.URL, line+rest))
	steered := h.seen()
	require.Len(t, steered, 1)
	before, preference, ok := strings.Cut(steered[0].uri, "preference=_only_nodes:")
	require.True(t, ok, steered[0].uri)
	require.Equal(t, direct.uri+"&", before)
	require.NotContains(t, preference, "&")
	require.Equal(t, "close", direct.header.Get("Connection"))
	direct.header.Del("Connection")
	require.Equal(t, direct.header, steered[0].header)
	require.Equal(t, direct.body, steered[0].body)

	asked := raw(t, h.front.URL, line+strings.Replace(rest, "X-Two: 2", "X-Sidestep-Explain: 1\r\nX-Two: 2", 1))
	require.Equal(t, direct.header, h.seen()[0].header, "the question is not forwarded")
	i := slices.IndexFunc(asked, func(s string) bool { return strings.HasPrefix(s, "X-Sidestep-Decision: mode=route; ") })
	require.Positive(t, i)
	require.Equal(t, want, slices.Delete(asked, i, i+1))
}

// used returns how long the processors have worked for this process: on a busy machine it waits for them.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A head of which half lists headers for one connection, and half are others, costs no time to speak of.
func TestAConnectionHeaderThatListsManyNames(t *testing.T) {
	h := http.Header{"X-Hop": {"1"}, "X-End": {"2"}}
	names := []string{"x-hop"}
	for i := range 60_000 {
		names = append(names, fmt.Sprintf("a%x", i))
		h[fmt.Sprintf("B%x", i)] = []string{""}
	}
	h.Set("Connection", strings.Join(names, ","))
	before := used(t)
	fields := string(appendFields(nil, h, ofConnection(h)))
	require.Less(t, used(t)-before, 2*time.Second, "each name was compared with each header")
	require.Contains(t, fields, "X-End: 2\r\n")
	require.NotContains(t, fields, "X-Hop")
}

// A client that looks for an answer when it has sent everything gets an early one, as it does directly, on a
// connection that stays.
func TestAnEarlyAnswerBreaksNoUpload(t *testing.T) {
	h, l := recording(t, 1, record.Rules{}, nil)
	answered := make(chan time.Time, 1)
	h.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
		require.NoError(t, http.NewResponseController(w).EnableFullDuplex())
		w.Header().Set("Content-Length", "3")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, "big")
		require.NoError(t, http.NewResponseController(w).Flush())
		answered <- time.Now()
		_, _ = io.Copy(io.Discard, r.Body)
	}
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(h.front.URL, "http://"))
	require.NoError(t, err)
	defer c.Close()
	r := bufio.NewReader(c)
	for range 2 {
		began := time.Now()
		_, err = io.WriteString(c, "POST /_bulk HTTP/1.1\r\nHost: es\r\nX-Stream: 1\r\nContent-Length: 67108864\r\n\r\n")
		require.NoError(t, err)
		for range 64 {
			_, err = c.Write(make([]byte, 1<<20))
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
		}
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
		require.Equal(t, "big", string(body))
		early := <-answered
		until := early.Sub(began) + time.Since(early)/2
		require.Less(t, l.one(t).Duration, until.Seconds()*1000, "until the answer, not until the rest was read")
	}
}

// HTTP/2 has methods and paths with spaces. In HTTP/1.1 they would be other parts of the request line.
func TestSpacesInARequestLine(t *testing.T) {
	h := start(t, 1, nil)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/idx", http.NoBody)
	r.Method, r.RequestURI, r.ProtoMajor = "GET /other HTTP/1.1\tX", "/id x?a b", 2
	x := newExchange(h.proxy, httptest.NewRecorder(), r)
	defer x.done()
	x.classify()
	tr := newTry(x)
	defer tr.release()
	tr.upstream, tr.query = h.proxy.seeds[0], "a b"
	line, _, _ := strings.Cut(string(tr.appendHead(nil, nil)), "\r\n")
	require.Equal(t, "GET%20/other%20HTTP/1.1%09X /id%20x?a%20b HTTP/1.1", line)
}

// A request for another protocol arrives with what other proxies have added to it.
func TestAnUpgradeKeepsForwardingHeaders(t *testing.T) {
	h := start(t, 1, nil)
	h.do("GET", "/idx", "", "Connection", "Upgrade", "Upgrade", "other", "X-Forwarded-For", "10.0.0.1", "X-Forwarded-Proto", "https", "Forwarded", "for=a")
	got := h.seen()[0].header
	require.Equal(t, "other", got.Get("Upgrade"))
	require.Equal(t, "10.0.0.1", got.Get("X-Forwarded-For"))
	require.Equal(t, "https", got.Get("X-Forwarded-Proto"))
	require.Equal(t, "for=a", got.Get("Forwarded"))
}

// What is recorded of a request for another protocol is what is recorded of others.
func TestAnUpgradeIsAccountedFor(t *testing.T) {
	h, l := recording(t, 1, record.Rules{}, nil)
	for name, c := range map[string]struct {
		answer  func(string, http.ResponseWriter, *http.Request)
		outcome string
	}{
		"refused": {respond(http.StatusNotFound, "{}"), "client_error"},
		"cut off": {func(_ string, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "{}")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "cut_off"},
	} {
		h.answer = c.answer
		conn := h.dial()
		_, err := io.WriteString(conn, "GET /idx HTTP/1.1\r\nHost: es\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
		require.NoError(t, err)
		r := l.one(t)
		require.Equal(t, c.outcome, r.Outcome, name)
		require.Positive(t, r.Upstream, name)
	}
	unreachable := start(t, 1, nil)
	unreachable.end(0)
	resp, _ := unreachable.do("GET", "/idx", "", "Connection", "Upgrade", "Upgrade", "other")
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.InDelta(t, 1, testutil.ToFloat64(unreachable.proxy.metrics.requests.WithLabelValues("other", "not_steerable", "unreachable")), 0)
}

// Little is kept of a compressed answer that decodes to nothing.
func TestACompressedAnswerOfNothingIsNotKept(t *testing.T) {
	empty := "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + strings.Repeat("\x00\x00\x00\xff\xff", 2<<20)
	a := answer{resp: &http.Response{Header: http.Header{"Content-Encoding": {"gzip"}}, Body: io.NopCloser(strings.NewReader(empty)), ContentLength: -1}}
	require.Empty(t, a.readHead(headLimit, nil))
	require.Less(t, len(a.begin), 256<<10)
	require.NoError(t, a.readErr, "the rest is still to be passed on")
}

// A preference that is given many times makes no request many times as large.
func TestPreferencesThatAreGivenManyTimes(t *testing.T) {
	h := start(t, 1, nil)
	x := newExchange(h.proxy, httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/idx/_search", http.NoBody))
	defer x.done()
	x.query = strings.Repeat("preference&", 50_000)
	tr := newTry(x)
	defer tr.release()
	tr.steered, tr.decision.Reason = true, selection.Ranked
	tr.decision.Nodes = []*selection.Node{selection.NewNode(selection.NodeInfo{ID: strings.Repeat("x", 2000)})}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.False(t, tr.rewrite())
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10<<20))
}

// What is in a long request line is not looked at once for each document or search in the body.
func TestALongRequestLineIsNotReadForEachItem(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	long := strings.Repeat("a,", 30_000)
	for uri, body := range map[string]string{
		"/idx/_mget?routing=" + long:    `{"ids":[1` + strings.Repeat(",1", 9000) + "]}",
		"/idx/_msearch?routing=" + long: strings.Repeat("{}\n{}\n", 9000),
		"/" + long + "idx/_msearch":     strings.Repeat("{}\n{}\n", 9000),
	} {
		resp, _ := h.do(http.MethodPost, uri, body, explainHeader, "1")
		require.Contains(t, resp.Header.Get(decisionHeader), "reason=request_line_too_long;")
		require.Equal(t, uri, h.seen()[0].uri)
	}
}
