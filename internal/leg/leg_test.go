package leg

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// dial connects without a timeout.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}

// node is a server that does to its connections what a test says.
type node struct {
	t        *testing.T
	listener net.Listener
	tls      *tls.Config // nil: plain
	accepted atomic.Int32
	open     atomic.Int32
	requests atomic.Int32
	done     sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

// peer is one connection as the node sees it.
type peer struct {
	net.Conn
	number int // of the connection, from 1
	node   *node
	r      *bufio.Reader
}

func newPeer(n *node, c net.Conn, number int) *peer {
	return &peer{Conn: c, number: number, node: n, r: bufio.NewReader(c)}
}

// start serves every connection with serve and closes it afterwards.
func start(t *testing.T, secure *tls.Config, serve func(p *peer)) *node {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test
	require.NoError(t, err)
	n := &node{t: t, listener: l, tls: secure}
	n.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			number := int(n.accepted.Add(1))
			n.open.Add(1)
			n.mu.Lock()
			n.conns = append(n.conns, c)
			n.mu.Unlock()
			n.done.Go(func() {
				defer n.open.Add(-1)
				if secure != nil {
					c = tls.Server(&batch{Conn: c}, secure)
				}
				defer c.Close()
				serve(newPeer(n, c, number))
			})
		}
	})
	t.Cleanup(n.stop)
	return n
}

func (n *node) stop() {
	n.listener.Close()
	n.mu.Lock()
	for _, c := range n.conns {
		c.Close()
	}
	n.mu.Unlock()
	n.done.Wait()
}

func (n *node) address() string { return n.listener.Addr().String() }

// pool returns a pool of connections to n.
func (n *node) pool(change func(o *Options)) *Pool {
	o := Options{Address: n.address(), Dial: dial, HandshakeTimeout: patience, MaxIdle: 10}
	if n.tls != nil {
		o.TLS = trusting()
	}
	if change != nil {
		change(&o)
	}
	p := New(o)
	n.t.Cleanup(p.Close)
	return p
}

// closed waits until the node has no connections.
func (n *node) closed() {
	n.t.Helper()
	require.Eventually(n.t, func() bool { return n.open.Load() == 0 }, patience, time.Millisecond, "a connection is still open")
}

// request reads a whole request; it is false when there is none.
func (p *peer) request() (body string, ok bool) {
	r, err := http.ReadRequest(p.r)
	if err != nil {
		return "", false
	}
	p.node.requests.Add(1)
	b, err := io.ReadAll(r.Body)
	return string(b), err == nil
}

func (p *peer) say(text string) { _, _ = io.WriteString(p, text) }

// gone waits until the other side has closed the connection.
func (p *peer) gone() { _, _ = io.Copy(io.Discard, p.r) }

// answering answers every request with the same bytes.
func answering(text string) func(*peer) {
	return func(p *peer) {
		for {
			if _, ok := p.request(); !ok {
				return
			}
			p.say(text)
		}
	}
}

// certificates returns what a server with a certificate for 127.0.0.1 and a client
// that trusts it need.
func certificates() (server, client *tls.Config) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	server = &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}
	return server, s.Client().Transport.(*http.Transport).TLSClientConfig
}

func serving() *tls.Config  { server, _ := certificates(); return server }
func trusting() *tls.Config { _, client := certificates(); return client }

const hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

// message is a request with a body, if that is not empty.
func message(method string, body []byte) *Message {
	head := method + " /path HTTP/1.1\r\nHost: node\r\n"
	if len(body) > 0 {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	return &Message{Method: method, Head: []byte(head + "\r\n"), Body: body}
}

func get() *Message { return message(http.MethodGet, nil) }

func post(size int) *Message { return message(http.MethodPost, bytes.Repeat([]byte("x"), size)) }

func repeatable(m *Message) *Message {
	m.Repeatable = true
	return m
}

// ask sends m and returns status and body of its answer.
func ask(t *testing.T, p *Pool, m *Message) (status int, body string) {
	t.Helper()
	resp, err := p.Do(m)
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, string(b)
}

// eachKind runs a test without and with TLS.
func eachKind(t *testing.T, test func(t *testing.T, secure *tls.Config)) {
	t.Run("plain", func(t *testing.T) { test(t, nil) })
	t.Run("tls", func(t *testing.T) { test(t, serving()) })
	t.Run("tls 1.2", func(t *testing.T) {
		secure := serving()
		secure.MaxVersion = tls.VersionTLS12
		test(t, secure)
	})
}

func TestWhichConnectionsAreKept(t *testing.T) {
	for _, c := range []struct {
		name, method, answer string
		status               int
		body                 string
		kept                 bool
	}{
		{"length", "GET", hello, 200, "hello", true},
		{"no reason", "GET", "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true},
		{"empty", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", true},
		{"chunks", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", 200, "hello", true},
		{"trailer", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n", 200, "hello", true},
		{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", true},
		{"304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, "", true},
		{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, "", true},
		{"HEAD without length", "HEAD", "HTTP/1.1 200 OK\r\n\r\n", 200, "", true},
		{"interim", "GET", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + hello, 200, "hello", true},
		{"1.0 kept alive", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true},
		{"1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", false},
		{"close", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", false},
		{"close, empty", "GET", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", 204, "", false},
		{"bytes behind the end", "GET", hello + "H", 200, "hello", false},
		{"bytes behind a chunked end", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nH", 200, "", false},
		{"bytes behind no body", "GET", "HTTP/1.1 204 No Content\r\n\r\nhello", 204, "", false},
		{"a body for HEAD", "HEAD", hello, 200, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, secure *tls.Config) {
				n := start(t, secure, answering(c.answer))
				p := n.pool(nil)
				for range 3 {
					status, body := ask(t, p, message(c.method, nil))
					require.Equal(t, c.status, status)
					require.Equal(t, c.body, body)
				}
				if c.kept {
					require.Equal(t, 1, p.kept())
					require.EqualValues(t, 1, n.accepted.Load())
					p.Close()
				} else {
					require.Equal(t, 0, p.kept())
					require.EqualValues(t, 3, n.accepted.Load())
				}
				n.closed()
			})
		})
	}
}

func TestABodyThatEndsWithTheConnection(t *testing.T) {
	eachKind(t, func(t *testing.T, secure *tls.Config) {
		n := start(t, secure, func(p *peer) {
			p.request()
			p.say("HTTP/1.1 200 OK\r\n\r\nhello")
		})
		p := n.pool(nil)
		status, body := ask(t, p, get())
		require.Equal(t, 200, status)
		require.Equal(t, "hello", body)
		require.Equal(t, 0, p.kept())
		n.closed()
	})
}

func TestRequestsArriveWhole(t *testing.T) {
	eachKind(t, func(t *testing.T, secure *tls.Config) {
		n := start(t, secure, func(p *peer) {
			for {
				body, ok := p.request()
				if !ok {
					return
				}
				if strings.Trim(body, "x") != "" {
					body = "other bytes"
				}
				text := fmt.Sprint(len(body))
				p.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
			}
		})
		p := n.pool(nil)
		for _, size := range []int{0, 1, 100, copied - 100, copied, copied + 1, inline, inline + 1, 5 << 20} {
			_, body := ask(t, p, post(size))
			require.Equal(t, fmt.Sprint(size), body)
		}
		require.EqualValues(t, 1, n.accepted.Load(), "also after large bodies")
	})
}

func TestManyAtATime(t *testing.T) {
	eachKind(t, func(t *testing.T, secure *tls.Config) {
		n := start(t, secure, func(p *peer) {
			for {
				body, ok := p.request()
				if !ok {
					return
				}
				p.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
			}
		})
		p := n.pool(func(o *Options) { o.MaxIdle = 3 })
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for j := range 50 {
					body := bytes.Repeat([]byte{byte('a' + i)}, 1+j*37)
					m, abort := abortable(message("POST", body))
					resp, err := p.Do(m)
					if err != nil {
						t.Error(err)
						return
					}
					got, err := io.ReadAll(resp.Body)
					if err != nil || !bytes.Equal(body, got) {
						t.Errorf("%q (%v) for %q", got, err, body)
					}
					_ = resp.Body.Close()
					abort()
				}
			})
		}
		all.Wait()
		require.LessOrEqual(t, p.kept(), 3)
		require.EqualValues(t, 400, n.requests.Load())
		require.Eventually(t, func() bool { return int(n.open.Load()) == p.kept() }, patience, time.Millisecond)
		p.Close()
		n.closed()
	})
}

// A node that refuses a head for its length reads nothing more of the connection, and leaves it open.
func TestAConnectionWithALongHeadIsKeptIfThatWasRead(t *testing.T) {
	eachKind(t, func(t *testing.T, secure *tls.Config) {
		for _, c := range []struct {
			length int
			answer string
			kept   int
		}{
			{longHead + 1, hello, 1},
			{longHead + 1, strings.Replace(hello, "200 OK", "400 Bad Request", 1), 0},
			{longHead + 1, strings.Replace(hello, "200 OK", "431 Too Large", 1), 0},
			{longHead + 1, strings.Replace(hello, "200 OK", "404 Not Found", 1), 1},
			{longHead + 1, strings.Replace(hello, "200 OK", "503 Unavailable", 1), 1},
			{longHead + 1, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", 0},
			{100, strings.Replace(hello, "200 OK", "400 Bad Request", 1), 1},
		} {
			n := start(t, secure, answering(c.answer))
			p := n.pool(nil)
			m := get()
			m.Head = append(append(m.Head[:len(m.Head)-2], "X-A: "+strings.Repeat("a", c.length)...), "\r\n\r\n"...)
			ask(t, p, m)
			require.Equal(t, c.kept, p.kept())
		}
	})
}
