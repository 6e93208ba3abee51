package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"sidestep/internal/record"
	"sidestep/internal/selection"
)

// overTLS starts a proxy in front of seeds that speak TLS: two that answer and what bad
// makes of the connections of a third.
func overTLS(t *testing.T, bad func(net.Conn)) (front *httptest.Server, served *atomic.Int64) {
	t.Helper()
	served = new(atomic.Int64)
	pool := x509.NewCertPool()
	var seeds []*url.URL
	for range 2 {
		node := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			served.Add(1)
			_, _ = io.WriteString(w, `{"errors":false}`)
		}))
		t.Cleanup(node.Close)
		pool.AddCert(node.Certificate())
		u, err := url.Parse(node.URL)
		require.NoError(t, err)
		seeds = append(seeds, u)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var open sync.WaitGroup
	open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				bad(c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		open.Wait()
	})
	seeds = append(seeds, &url.URL{Scheme: "https", Host: l.Addr().String()})
	selector := selection.New(selection.Options{Epoch: time.Now()})
	o := options(selector, seeds...)
	o.Leg.HandshakeTimeout, o.Leg.MaxIdle, o.Leg.TLS = 200*time.Millisecond, 8, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	p, err := New(o)
	require.NoError(t, err)
	front = httptest.NewServer(p)
	t.Cleanup(func() {
		front.Close()
		p.Close()
	})
	return front, served
}

// Where the TLS handshake fails nothing was sent: another node gets the request, a bulk
// too, held or not.
func TestNotSentMeansNotSent(t *testing.T) {
	_, certificate := selfSigned(t)
	for name, bad := range map[string]func(net.Conn){
		"closed during the handshake": func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) },
		"reset during the handshake": func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1))
			_ = c.(*net.TCPConn).SetLinger(0)
		},
		"silent during the handshake": func(c net.Conn) {
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			_, _ = io.Copy(io.Discard, c)
		},
		"no TLS at all":                func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") },
		"a certificate not to trusted": func(c net.Conn) { _ = tls.Server(c, certificate).HandshakeContext(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			front, served := overTLS(t, bad)
			const each = 10
			for i := range each {
				for _, body := range []string{"{\"index\":{}}\n{}\n", strings.Repeat("{\"index\":{}}\n{}\n", 10_000)} {
					resp, err := http.Post(front.URL+"/_bulk", "application/x-ndjson", strings.NewReader(body)) //nolint:noctx // a test
					require.NoError(t, err)
					text, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					require.Equal(t, http.StatusOK, resp.StatusCode, "bulk %d: %s", i, text)
				}
			}
			require.EqualValues(t, 2*each, served.Load(), "each was sent once")
		})
	}
}

// selfSigned returns a certificate that nobody trusts.
func selfSigned(t *testing.T) (*x509.Certificate, *tls.Config) {
	t.Helper()
	other := httptest.NewUnstartedServer(nil)
	other.StartTLS()
	defer other.Close()
	c := other.TLS.Clone()
	c.NextProtos = nil
	// The same test certificate as that of the nodes, for a name that is not theirs.
	return other.Certificate(), &tls.Config{Certificates: c.Certificates, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}}
}

// An answer that breaks off is told as such by the metric, the record and the state of
// its node.
func TestACutOffAnswerIsNotOK(t *testing.T) {
	h, l := recording(t, 3, record.Rules{}, nil)
	h.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, complete)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for _, uri := range []string{"/idx/_search", "/_cat/indices"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.front.URL+uri, http.NoBody)
		require.NoError(t, err)
		resp, err := http.DefaultTransport.RoundTrip(req)
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NoError(t, resp.Body.Close())
		r := l.one(t)
		require.Equal(t, []any{"cut_off", 200, "cut_off"}, []any{r.Outcome, r.Status, r.Attempts[0].Outcome}, uri)
		require.NotEmpty(t, r.Attempts[0].Error)
		state := ""
		for _, n := range h.proxy.Nodes() {
			if n.Name == r.Coordinator {
				state = n.State
			}
		}
		require.Equal(t, selection.Unreachable.String(), state, uri)
		h.proxy.UseSnapshot(h.snapshot())
	}
	require.Zero(t, testutil.ToFloat64(h.proxy.metrics.requests.WithLabelValues("search", "no_statistics", "ok")))
}

// A client that reads slowly makes no node look silent: what is outstanding ends with the
// head of the answer.
func TestASlowReaderHoldsNoLease(t *testing.T) {
	h := start(t, 3, nil)
	more := make(chan struct{})
	h.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, complete+strings.Repeat(" ", 100_000))
		_ = http.NewResponseController(w).Flush()
		<-more
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.front.URL+"/idx/_search", strings.NewReader("{}"))
	require.NoError(t, err)
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	for _, n := range h.proxy.Nodes() {
		require.Zero(t, n.Outstanding, n.Name)
	}
	close(more)
	_, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}

// What creates state, or moves it on, is sent once, whatever its method.
func TestWhateverCreatesStateIsSentOnce(t *testing.T) {
	for _, line := range []string{
		"POST /idx/_search?scroll=1m", "GET /idx/_search?scroll=1m", "GET /_search/scroll?scroll_id=x", "POST /_search/scroll",
		"POST /idx/_pit?keep_alive=1m", "POST /idx/_async_search", "GET /idx/_search/template?scroll=1m",
	} {
		for name, answer := range map[string]func(string, http.ResponseWriter, *http.Request){
			"503":   respond(http.StatusServiceUnavailable, `{"status":503}`),
			"reset": func(string, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		} {
			t.Run(line+" "+name, func(t *testing.T) {
				h := start(t, 3, nil)
				h.slow(1)
				h.answer = answer
				method, uri, _ := strings.Cut(line, " ")
				resp, _ := h.do(method, uri, "{}")
				require.GreaterOrEqual(t, resp.StatusCode, 500)
				require.Len(t, h.seen(), 1)
			})
		}
	}
}

// fails makes nodes answer 503 to everything.
func (h *harness) fails(nodes string) (attempts *atomic.Int64) {
	attempts = new(atomic.Int64)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		attempts.Add(1)
		if strings.Contains(nodes, node) {
			respond(http.StatusServiceUnavailable, `{"error":{"type":"cluster_block_exception"},"status":503}`)(node, w, r)
			return
		}
		respond(http.StatusOK, complete)(node, w, r)
	}
	return attempts
}

// A cluster that fails everything sees no storm, one failing node of five costs nobody an
// answer, and the change between both takes a few searches.
func TestRetriesNeverBecomeAStorm(t *testing.T) {
	h := start(t, 5, func(o *Options) { o.HedgeBudget = 0.05 })
	searches := func(n int) (failed int64) {
		var all sync.WaitGroup
		var bad atomic.Int64
		for range 8 {
			all.Go(func() {
				for range n / 8 {
					resp, _ := h.do("POST", "/idx/_search", "{}")
					if resp.StatusCode != http.StatusOK {
						bad.Add(1)
					}
				}
			})
		}
		all.Wait()
		return bad.Load()
	}
	h.fails("b")
	require.Zero(t, searches(400))
	attempts := h.fails("abcde")
	require.EqualValues(t, 2000, searches(2000))
	require.LessOrEqual(t, attempts.Load(), int64(2200))
	require.GreaterOrEqual(t, attempts.Load(), int64(2000))
	h.fails("b")
	searches(100) // until some have succeeded
	require.Zero(t, searches(400))
	require.Positive(t, testutil.ToFloat64(h.proxy.metrics.requests.WithLabelValues("search", reasonFailing, "engine_error")))
}

// A breaker may have tripped on one node, or the time that a search may take be up there: other copies are tried once, if
// the engine could not ask them. What concerns the request is final.
func TestBreakersAndErrorsOfTheRequest(t *testing.T) {
	const breaker = `{"error":{"root_cause":[{"type":"circuit_breaking_exception","reason":"Data too large"}],"type":"search_phase_execution_exception"},"status":429}`
	const buckets = `{"error":{"type":"search_phase_execution_exception","caused_by":{"type":"too_many_buckets_exception"}},"status":503}`
	const types = `{"error":{"root_cause":[],"type":"search_phase_execution_exception","phase":"fetch","failed_shards":[],"caused_by":{"type":"class_cast_exception"}},"status":500}`
	const timeout = `{"error":{"root_cause":[{"type":"search_timeout_exception","reason":"Time exceeded"}],"type":"search_phase_execution_exception"},"status":504}`
	const time = `{"error":{"root_cause":[{"type":"query_phase_execution_exception","reason":"Time exceeded"}],"type":"search_phase_execution_exception"},"status":500}`
	for name, c := range map[string]struct {
		status   int
		body     string
		narrowed bool // its list leaves copies out
		attempts int
	}{
		"breaker":                             {http.StatusTooManyRequests, breaker, true, 2},
		"breaker, no list":                    {http.StatusTooManyRequests, breaker, false, 1},
		"buckets":                             {http.StatusServiceUnavailable, buckets, true, 1},
		"fields of different types":           {http.StatusInternalServerError, types, true, 1},
		"timeout":                             {http.StatusGatewayTimeout, timeout, true, 2},
		"timeout, no list":                    {http.StatusGatewayTimeout, timeout, false, 1},
		"timeout of a gateway":                {http.StatusGatewayTimeout, "<html>", true, 2},
		"timeout of a gateway, no list":       {http.StatusGatewayTimeout, "<html>", false, 1},
		"timeout of OpenSearch":               {http.StatusInternalServerError, time, true, 2},
		"timeout of OpenSearch, no list":      {http.StatusInternalServerError, time, false, 1},
		"timeout of Elasticsearch 9, no list": {http.StatusTooManyRequests, timeout, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, 3, func(o *Options) { o.When = WhenOutlier })
			h.slow()
			if c.narrowed {
				h.slow(1)
				h.slow(1)
			}
			h.answer = respond(c.status, c.body)
			resp, body := h.do("POST", "/idx/_search", "{}")
			require.Equal(t, c.status, resp.StatusCode)
			require.Equal(t, c.body, body)
			require.Len(t, h.seen(), c.attempts)
		})
	}
}

// Headers are judged over all their lines.
func TestAcceptIsJudgedOverAllItsLines(t *testing.T) {
	for name, c := range map[string]struct {
		lines [][2]string
		soft  bool
	}{
		"json twice":          {[][2]string{{"Accept", "application/json"}, {"Accept", "*/*"}}, false},
		"json, then yaml":     {[][2]string{{"Accept", "application/json"}, {"Accept", "application/yaml"}}, true},
		"gzip, then br":       {[][2]string{{"Accept-Encoding", "gzip"}, {"Accept-Encoding", "br"}}, false},
		"br alone":            {[][2]string{{"Accept-Encoding", "br"}}, true},
		"gzip, then zstd":     {[][2]string{{"Accept-Encoding", "gzip"}, {"Accept-Encoding", "zstd"}}, false},
		"gzip, then snappy":   {[][2]string{{"Accept-Encoding", "gzip"}, {"Accept-Encoding", "snappy"}}, true},
		"gzip, then identity": {[][2]string{{"Accept-Encoding", "gzip"}, {"Accept-Encoding", "identity"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, 3, nil)
			h.slow(1)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.front.URL+"/idx/_search", strings.NewReader("{}"))
			require.NoError(t, err)
			for _, line := range c.lines {
				req.Header.Add(line[0], line[1])
			}
			resp, err := http.DefaultTransport.RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			want := "preference=_only_nodes"
			if c.soft {
				want = "preference=_prefer_nodes"
			}
			require.Contains(t, h.seen()[0].uri, want)
		})
	}
}

// dial connects a client, until the test ends.
func (h *harness) dial() net.Conn {
	h.t.Helper()
	c, err := new(net.Dialer).DialContext(h.t.Context(), "tcp", strings.TrimPrefix(h.front.URL, "http://"))
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = c.Close() })
	return c
}

// open sends the head of an upload and the first byte of its body.
func (h *harness) open(uri string, declared int) net.Conn {
	h.t.Helper()
	c := h.dial()
	_, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: es\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", uri, declared)
	require.NoError(h.t, err)
	return c
}

// A body that does not come is no memory held, is not awaited for ever, and is no node's
// fault.
func TestABodyThatDoesNotCome(t *testing.T) {
	for _, uri := range []string{"/idx/_search", "/_bulk"} {
		for _, declared := range []int{1000, 1 << 20, 2 << 20} {
			t.Run(fmt.Sprint(uri, declared), func(t *testing.T) {
				h := start(t, 2, func(o *Options) { o.BodyTimeout = 50 * time.Millisecond })
				c := h.open(uri, declared)
				r := bufio.NewReader(c)
				resp, err := http.ReadResponse(r, nil)
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, http.StatusRequestTimeout, resp.StatusCode)
				require.True(t, resp.Close)
				require.Contains(t, string(body), "limits.body_timeout")
				_, err = r.ReadByte()
				require.ErrorIs(t, err, io.EOF, "the connection is closed")
				require.Eventually(t, func() bool { return h.proxy.o.Held.Load() == 0 }, patience, time.Millisecond)
				for _, n := range h.proxy.Nodes() {
					require.NotEqual(t, selection.Unreachable.String(), n.State)
				}
			})
		}
	}
}

// Clients that offer HTTP/2 with each request (java.net.http, curl --http2), or TLS (HttpClient of Apache since 5.4), are
// served as others are.
func TestAnOfferOfAnotherProtocolIsNotTakenUp(t *testing.T) {
	for _, headers := range [][]string{
		{"Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "AAMAAABkAAQAAP__"},
		{"Connection", "Upgrade", "Upgrade", "TLS/1.2"},
	} {
		for _, request := range [][3]string{{"POST", "/idx/_search", "{}"}, {"GET", "/idx/_search?q=a", ""}} {
			h := start(t, 3, nil)
			h.slow(1)
			badOnce(h, respond(http.StatusServiceUnavailable, `{"status":503}`))
			resp, body := h.do(request[0], request[1], request[2], headers...)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, complete, body)
			seen := h.seen()
			require.Len(t, seen, 2)
			require.Contains(t, seen[0].uri, "preference=")
			require.NotContains(t, seen[0].header, "Http2-Settings")
		}
	}
}

// What is held grows with what came. Beyond the total a body streams, and the reason is
// counted.
func TestHeldBodiesAreBoundedInTotal(t *testing.T) {
	h := start(t, 2, func(o *Options) { o.MaxHeldBody, o.MaxHeldBodies = 64<<10, 64<<10 })
	c := h.open("/idx/_search", 60_000)
	_, err := io.WriteString(c, strings.Repeat(" ", 40_000))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return h.proxy.o.Held.Load() > 40_000 }, patience, time.Millisecond)
	require.LessOrEqual(t, h.proxy.o.Held.Load(), int64(64<<10))

	h.do("POST", "/idx/_search", "{}")
	h.do("POST", "/idx/_count", `{"a":"`+strings.Repeat("x", 30_000)+`"}`)
	seen := h.seen()
	require.Len(t, seen[1].body, 30_008, "it arrives whole")
	require.InDelta(t, 1, testutil.ToFloat64(h.proxy.metrics.requests.WithLabelValues("count", reasonNoRoom, "ok")), 0)

	_, err = io.WriteString(c, strings.Repeat(" ", 60_000-40_001))
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Eventually(t, func() bool { return h.proxy.o.Held.Load() == 0 }, patience, time.Millisecond)
}

// A client that reads nothing is let go, also if nothing but the head of its answer is to be read.
func TestAClientThatReadsNothing(t *testing.T) {
	big := strings.Repeat("x", 8<<20) // more than sockets buffer
	for name, c := range map[string]struct {
		method string
		answer func(w http.ResponseWriter, r *http.Request)
	}{
		"body":            {"GET", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, io.LimitReader(endless{}, 64<<20)) }},
		"head of no body": {"HEAD", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Big", big) }},
		"head before its body": {"GET", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Big", big)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h, l := recording(t, 2, record.Rules{}, func(o *Options) { o.WriteTimeout = 100 * time.Millisecond })
			h.answer = func(_ string, w http.ResponseWriter, r *http.Request) { c.answer(w, r) }
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(h.front.URL, "http://"))
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, c.method+" /_cat/indices HTTP/1.1\r\nHost: es\r\n\r\n")
			require.NoError(t, err)
			if c.method == "HEAD" { // net/http writes the head when the request is accounted for
				require.Equal(t, "ok", l.one(t).Outcome)
				time.Sleep(300 * time.Millisecond)
				require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Second)))
				n, _ := io.Copy(io.Discard, conn)
				require.Less(t, int(n), len(big), "the connection was closed")
				return
			}
			require.Equal(t, "canceled", l.one(t).Outcome)
			require.NotEqual(t, selection.Unreachable.String(), h.proxy.Nodes()[0].State)
		})
	}
}

// A node that breaks off in the middle of the head of its answer, while the client waits to be told
// whether its body is wanted, is no reason for the client to wait for longer.
func TestANodeBreaksOffBeforeItAskedForTheBody(t *testing.T) {
	const thinks = 20 * time.Millisecond
	h := start(t, 1, func(o *Options) {
		o.Leg.ContinueTimeout = thinks
	})
	h.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 4")
			time.Sleep(5 * thinks) // by now the body would have been read, had nothing come
			_ = c.Close()
		}
	}
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(h.front.URL, "http://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "PUT /idx/_doc/1 HTTP/1.1\r\nHost: es\r\nContent-Type: application/json\r\nX-Stream: 1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	r := bufio.NewReader(c)
	for {
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		if resp.StatusCode != http.StatusContinue { // which comes where the head was late
			require.Equal(t, http.StatusBadGateway, resp.StatusCode)
			return
		}
		_, err = io.WriteString(c, "{}")
		require.NoError(t, err)
	}
}
