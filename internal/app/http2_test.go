package app_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
)

// h2Client speaks HTTP/2 alone; without TLS by prior knowledge.
func h2Client(t *testing.T, trusted *authority) *http.Client {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	if trusted != nil {
		client = tlsClient(t, trusted)
	}
	transport := client.Transport.(*http.Transport)
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP2(true)
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return client
}

func TestHTTP2WithoutTLS(t *testing.T) {
	s := startReady(t, settings(newUpstream(t).URL), nil)
	client := h2Client(t, nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.dataURL("/logs/_search?size=0;from=0"), strings.NewReader(`{}`))
	require.NoError(t, err)
	r.Header.Set("X-Sidestep-Explain", "1")
	response, err := client.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, "HTTP/2.0", response.Proto)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Contains(t, response.Header.Get("X-Sidestep-Decision"), "mode=route; reason=")
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), `"_shards"`)
}

func TestHTTP2WithTLS(t *testing.T) {
	trusted, dir := newAuthority(t), t.TempDir()
	for _, c := range []struct {
		streams int
		clients string // CA of client certificates
		want    string
	}{
		{250, "", "HTTP/2.0"},
		{250, write(t, dir, "clients.pem", trusted.pem), "HTTP/2.0"},
		{0, "", "HTTP/1.1"},
	} {
		cfg := settings(newUpstream(t).URL)
		cfg.ListenTLS.CertFile, cfg.ListenTLS.KeyFile = trusted.files(dir, "data")
		cfg.ListenTLS.ClientCAFile = c.clients
		cfg.Limits.ConcurrentStreams = c.streams
		s := start(t, cfg, nil)
		for want, http2 := range map[string]bool{c.want: true, "HTTP/1.1": c.want == "HTTP/1.1"} {
			client := tlsClient(t, trusted, trusted.pair("client"))
			client.Transport.(*http.Transport).ForceAttemptHTTP2 = http2
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.DataAddr().String()+"/", http.NoBody)
			require.NoError(t, err)
			response, err := client.Do(r)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, want, response.Proto)
		}
	}
}

// The upstream is spoken to in HTTP/1.1, whatever the client speaks.
func TestHTTP2ArrivesAsHTTP1(t *testing.T) {
	w := startWire(t, nil)
	client := h2Client(t, nil)
	w.upstreamDoes("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-elastic-product: x\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n", nil, nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.sidestep.dataURL("/idx/_doc/a%2Fb?x=;y=%%"), strings.NewReader("body"))
	require.NoError(t, err)
	r.Header = http.Header{"X-A": {"2", "1"}, "User-Agent": {"test"}, "Accept-Encoding": {"zstd"}}
	r.ContentLength = -1
	r.Trailer = http.Header{"X-End": {"3"}}
	response, err := client.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, "ok", string(body))
	require.Equal(t, http.Header{"X-Elastic-Product": {"x"}}, response.Header, "no Date, no Content-Type")
	require.Equal(t, http.Header{"X-Sum": {"1"}}, response.Trailer)
	require.Equal(t, message{
		start:  "POST /idx/_doc/a%2Fb?x=;y=%% HTTP/1.1",
		fields: []string{"Accept-Encoding: zstd", "User-Agent: test", "X-A: 2", "X-A: 1"}, framing: "chunked",
		body: "body", trailers: []string{"X-End: 3"},
	}, parse(t, <-w.requests))
}

func TestHTTP2CutOffAnswer(t *testing.T) {
	w := startWire(t, nil)
	w.upstreamDoes("", nil, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.sidestep.dataURL("/idx"), http.NoBody)
	require.NoError(t, err)
	response, err := h2Client(t, nil).Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.ErrorContains(t, err, "INTERNAL_ERROR")
	require.Equal(t, "ok", string(body))
}

// A stream that the client resets closes the request upstream and no other.
func TestHTTP2ResetReachesTheUpstream(t *testing.T) {
	w := startWire(t, nil)
	gone := make(chan error, 1)
	w.upstreamDoes("", nil, func(c net.Conn) {
		_, err := c.Read(make([]byte, 1))
		gone <- err
	})
	client := h2Client(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.sidestep.dataURL("/idx"), http.NoBody)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		response, err := client.Do(r)
		if err == nil {
			_ = response.Body.Close()
		}
		done <- err
	}()
	<-w.requests // it has arrived
	w.upstreamDoes(okAnswer, nil, nil)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.ErrorIs(t, <-gone, io.EOF)
	got, err := ask(t, client, "GET "+w.sidestep.dataURL("/idx"), "")
	require.NoError(t, err)
	require.Equal(t, "ok", got.body)
}

// counted counts what is read of bodies.
type counted struct {
	io.Reader
	sent *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.sent.Add(int64(n))
	return n, err
}

// What is not read of the other bodies of a connection, as of bulks to a node that takes nothing, keeps none from coming.
func TestHTTP2BodiesDoNotWaitForEachOther(t *testing.T) {
	const streams = 10
	body := strings.Repeat(" ", 16<<20)
	w := startWire(t, func(cfg *config.Config) {
		cfg.Limits.BodyTimeout, cfg.Limits.ConcurrentStreams = 10*time.Second, streams
	})
	client, taken := h2Client(t, nil), make(chan struct{})
	take := sync.OnceFunc(func() { close(taken) })
	defer take()
	came := &atomic.Int64{}
	w.upstreamDoes(okAnswer, func(net.Conn) { came.Add(1); <-taken }, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sent, bulks := &atomic.Int64{}, make(chan error, streams)
	for range streams - 1 {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.sidestep.dataURL("/_bulk"), counted{strings.NewReader(body), sent})
		require.NoError(t, err)
		go func() {
			response, err := client.Do(r)
			if err == nil {
				_ = response.Body.Close()
			}
			bulks <- err
		}()
	}
	last := int64(0)
	require.Eventually(t, func() bool {
		before := last
		last = sent.Load()
		return came.Load() == streams-1 && last == before
	}, patience, 100*time.Millisecond, "they come to a stop")
	w.upstreamDoes(okAnswer, nil, nil)
	got, err := ask(t, client, "POST "+w.sidestep.dataURL("/idx/_search"), "{}")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.status, got.body)
	cancel()
	for range streams - 1 {
		require.ErrorIs(t, <-bulks, context.Canceled)
	}
}

// A stop finishes what is under way on HTTP/2 connections, and then closes them.
func TestStopWaitsForHTTP2(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.holding = make(chan struct{})
	s := start(t, settings(u.URL), nil)
	client := h2Client(t, nil)
	type result struct {
		answer
		err error
	}
	results := make(chan result, 1)
	go func() {
		got, err := ask(t, client, "GET "+s.dataURL("/held"), "")
		results <- result{got, err}
	}()
	<-u.arrived
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	require.Eventually(t, func() bool {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.DataAddr().String())
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, patience, time.Millisecond, "the listener is closed first")
	select {
	case err := <-stopped:
		require.Fail(t, "stopped before the request was finished", err)
	default:
	}
	close(u.holding)
	got := <-results
	require.NoError(t, got.err)
	require.Equal(t, "released", got.body)
	require.NoError(t, <-stopped)
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// setting reads the server's first frame and returns one of the settings in it.
func setting(t *testing.T, c io.Reader, id uint16) (value uint32, ok bool) {
	t.Helper()
	frame := make([]byte, 9)
	_, err := io.ReadFull(c, frame)
	require.NoError(t, err)
	require.Equal(t, byte(4), frame[3], "SETTINGS")
	payload := make([]byte, int(frame[0])<<16|int(frame[1])<<8|int(frame[2]))
	_, err = io.ReadFull(c, payload)
	require.NoError(t, err)
	for ; len(payload) >= 6; payload = payload[6:] {
		if binary.BigEndian.Uint16(payload) == id {
			return binary.BigEndian.Uint32(payload[2:]), true
		}
	}
	return 0, false
}

func TestConcurrentStreams(t *testing.T) {
	w := startWire(t, func(cfg *config.Config) { cfg.Limits.ConcurrentStreams = 7 })
	c := w.dial()
	c.send(preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	streams, ok := setting(t, c, 3) // SETTINGS_MAX_CONCURRENT_STREAMS
	require.True(t, ok)
	require.Equal(t, uint32(7), streams)
}

// Without HTTP/2 the first line of its preface is a request like any other.
func TestHTTP2Off(t *testing.T) {
	w := startWire(t, func(cfg *config.Config) { cfg.Limits.ConcurrentStreams = 0 })
	c := w.dial()
	c.send(preface)
	got, err := c.read("PRI")
	require.NoError(t, err)
	require.Equal(t, parse(t, okAnswer), parse(t, got))
	require.Equal(t, "PRI * HTTP/1.1", parse(t, <-w.requests).start)
	_, err = c.read("PRI")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "nothing more is read from it")
}
