package app_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
)

// wire is a client and an upstream that speak bytes, with sidestep in between.
type wire struct {
	t        *testing.T
	sidestep *sidestep
	upstream net.Listener
	requests chan string // the bytes of each request but polls
	serving  sync.WaitGroup

	mu sync.Mutex
	// answer takes over a connection at the end of a request; nil writes script.
	answer func(c net.Conn)
	// greet is called at the end of a request's head, before its body is read.
	greet  func(c net.Conn)
	script string
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func startWire(t *testing.T, change func(*config.Config)) *wire {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wire{t: t, upstream: l, requests: make(chan string, 1024), script: okAnswer}
	w.serving.Go(w.accept)
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		w.serving.Wait()
	})
	cfg := settings("http://" + l.Addr().String())
	if change != nil {
		change(&cfg)
	}
	w.sidestep = start(t, cfg, nil)
	return w
}

func (w *wire) accept() {
	for {
		c, err := w.upstream.Accept()
		if err != nil {
			return
		}
		w.serving.Go(func() { w.serve(c) })
	}
}

// serve answers the requests of one connection. Sidestep's polls are refused: it
// never gets to know the cluster, and passes everything.
func (w *wire) serve(c net.Conn) {
	defer c.Close()
	var raw bytes.Buffer
	r := bufio.NewReader(io.TeeReader(c, &raw))
	for {
		raw.Reset()
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if request.UserAgent() == "Go-http-client/1.1" {
			_, _ = io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		w.mu.Lock()
		greet, answer, script := w.greet, w.answer, w.script
		w.mu.Unlock()
		if greet != nil {
			greet(c)
		}
		_, err = io.Copy(io.Discard, request.Body)
		w.requests <- raw.String()
		switch {
		case err != nil:
			return
		case answer != nil:
			answer(c)
			return
		}
		if request.Method == http.MethodHead {
			script, _, _ = strings.Cut(script, "\r\n\r\n")
			script += "\r\n\r\n"
		}
		_, _ = io.WriteString(c, script)
	}
}

// upstreamDoes sets what the upstream does from now on.
func (w *wire) upstreamDoes(script string, greet, answer func(net.Conn)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.script, w.greet, w.answer = script, greet, answer
}

// wireClient is one client connection.
type wireClient struct {
	net.Conn
	t   *testing.T
	raw bytes.Buffer
	r   *bufio.Reader
}

func (w *wire) dial() *wireClient {
	w.t.Helper()
	conn, err := new(net.Dialer).DialContext(w.t.Context(), "tcp", w.sidestep.DataAddr().String())
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })
	c := &wireClient{Conn: conn, t: w.t}
	c.r = bufio.NewReader(io.TeeReader(conn, &c.raw))
	return c
}

func (c *wireClient) send(raw string) {
	c.t.Helper()
	_, err := io.WriteString(c, raw)
	require.NoError(c.t, err)
}

// read returns the bytes of one answer to a request with the method given, and
// how its body ended.
func (c *wireClient) read(method string) (string, error) {
	c.t.Helper()
	response, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	return string(c.raw.Next(c.raw.Len() - c.r.Buffered())), err
}

// exchange sends one request over a connection of its own; it returns the bytes
// the upstream got and those the client got.
func (w *wire) exchange(request string) (got, answer string) {
	w.t.Helper()
	c := w.dial()
	defer c.Close()
	c.send(request)
	method, _, _ := strings.Cut(request, " ")
	answer, err := c.read(method)
	require.NoError(w.t, err, answer)
	select {
	case got = <-w.requests:
	default:
		require.Fail(w.t, "the upstream got nothing", answer)
	}
	return got, answer
}

// message is what of an HTTP/1.1 message a proxy must not change.
type message struct {
	start    string
	fields   []string // "Name: value", by name; the values of a name in their order
	framing  string
	body     string
	trailers []string
}

// hopByHop are the headers that belong to one connection (RFC 9110, 7.6.1), Host,
// which names the next one, and framing, which is compared apart.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Upgrade",
	"Host", "Content-Length", "Transfer-Encoding",
}

// parse takes a message apart byte by byte, without net/http.
func parse(t *testing.T, raw string) message {
	t.Helper()
	head, body, ok := strings.Cut(raw, "\r\n\r\n")
	require.True(t, ok, "no end of the head: %q", raw)
	lines := strings.Split(head, "\r\n")
	m := message{start: lines[0], framing: "none", body: body}
	dropped := slices.Clone(hopByHop)
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		switch textproto.CanonicalMIMEHeaderKey(name) {
		case "Content-Length":
			m.framing = "length" + value
		case "Transfer-Encoding":
			m.framing = "chunked"
		case "Connection":
			for listed := range strings.SplitSeq(value, ",") {
				dropped = append(dropped, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(listed)))
			}
		}
	}
	m.fields = fields(lines[1:], dropped)
	if m.framing == "chunked" {
		m.body, m.trailers = dechunk(t, body)
	}
	return m
}

// fields returns header lines sorted by name, as net/http writes names.
func fields(lines, dropped []string) []string {
	var out []string
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		name = textproto.CanonicalMIMEHeaderKey(name)
		if line != "" && !slices.Contains(dropped, name) {
			out = append(out, name+": "+strings.Trim(value, " \t"))
		}
	}
	slices.SortStableFunc(out, func(a, b string) int {
		a, _, _ = strings.Cut(a, ":")
		b, _, _ = strings.Cut(b, ":")
		return strings.Compare(a, b)
	})
	return out
}

// dechunk joins the chunks of a body. How they are cut may change on the way.
func dechunk(t *testing.T, raw string) (body string, trailers []string) {
	t.Helper()
	r := bufio.NewReader(strings.NewReader(raw))
	for {
		line, err := r.ReadString('\n')
		require.NoError(t, err, "chunks without end: %q", raw)
		digits, _, _ := strings.Cut(line, ";")
		size, err := strconv.ParseUint(strings.TrimSpace(digits), 16, 32)
		require.NoError(t, err)
		if size == 0 {
			break
		}
		chunk := make([]byte, size+2)
		_, err = io.ReadFull(r, chunk)
		require.NoError(t, err)
		body += string(chunk[:size])
	}
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	return body, fields(strings.Split(string(rest), "\r\n"), nil)
}
