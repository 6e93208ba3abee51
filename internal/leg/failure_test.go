package leg

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// noConnection is a way in which no connection comes about.
type noConnection struct {
	name    string
	secure  func(s *tls.Config) // nil: plain
	serve   func(p *peer)
	change  func(o *Options)
	timeout bool
	is      error
	as      any
}

var anyTLS = func(*tls.Config) {}

// unconnected are those in which TCP or the handshake fail.
func unconnected() []noConnection {
	return []noConnection{
		{name: "refused", serve: func(*peer) {}, change: func(o *Options) {
			o.Address = "127.0.0.1:1"
		}, is: syscall.ECONNREFUSED, as: new(*net.OpError)},
		{name: "dialing takes too long", serve: func(*peer) {}, change: func(o *Options) {
			o.Dial = func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
			}
		}, timeout: true, as: new(*net.OpError)},
		{name: "handshake closed", serve: func(p *peer) {
			_, _ = p.NetConn().Read(make([]byte, 1<<14))
		}, secure: anyTLS, is: io.EOF},
		{name: "handshake reset", serve: func(p *peer) { reset(p.Conn) }, secure: anyTLS},
		{name: "no TLS", serve: func(p *peer) {
			_, _ = io.WriteString(p.NetConn(), "HTTP/1.1 400 Bad Request\r\n\r\n")
		}, secure: anyTLS, as: new(tls.RecordHeaderError)},
		{name: "handshake takes too long", serve: func(p *peer) {
			_, _ = io.Copy(io.Discard, p.NetConn())
		}, secure: anyTLS, change: func(o *Options) { o.HandshakeTimeout = 20 * time.Millisecond }, timeout: true, is: os.ErrDeadlineExceeded, as: new(*net.OpError)},
	}
}

// refusedCertificates are those in which one side does not like the other.
func refusedCertificates() []noConnection {
	return []noConnection{
		{name: "unknown authority", serve: answering(hello), secure: anyTLS, change: func(o *Options) {
			o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		}, as: new(*tls.CertificateVerificationError)},
		{name: "the authority", serve: answering(hello), secure: anyTLS, change: func(o *Options) {
			o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		}, as: new(x509.UnknownAuthorityError)},
		{name: "another name", serve: answering(hello), secure: anyTLS, change: func(o *Options) {
			o.TLS.ServerName = "other.test"
		}, as: new(x509.HostnameError)},
		{name: "no common version", serve: answering(hello), secure: func(s *tls.Config) { s.MinVersion = tls.VersionTLS13 }, change: func(o *Options) {
			o.TLS.MaxVersion = tls.VersionTLS12
		}},
		{name: "the node wants a certificate", serve: answering(hello), secure: func(s *tls.Config) {
			s.ClientAuth = tls.RequireAnyClientCert
		}},
		{name: "the node wants a certificate, TLS 1.2", serve: answering(hello), secure: func(s *tls.Config) {
			s.ClientAuth, s.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12
		}},
		{name: "the node refuses the certificate", serve: answering(hello), secure: func(s *tls.Config) {
			s.ClientAuth, s.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		}, change: func(o *Options) { o.TLS.Certificates = serving().Certificates }},
	}
}

// Where no connection comes about nothing was sent.
func TestNoConnection(t *testing.T) {
	for _, c := range append(unconnected(), refusedCertificates()...) {
		t.Run(c.name, func(t *testing.T) {
			var secure *tls.Config
			if c.secure != nil {
				secure = serving()
				c.secure(secure)
			}
			n := start(t, secure, c.serve)
			for _, m := range []*Message{get(), repeatable(get()), post(100)} {
				_, err := n.pool(c.change).Do(m)
				require.Error(t, err)
				require.True(t, NotSent(err), err)
				require.Equal(t, c.timeout, Timeout(err), err)
				if c.is != nil {
					require.ErrorIs(t, err, c.is)
				}
				if c.as != nil {
					require.ErrorAs(t, err, c.as)
				}
			}
			require.Zero(t, n.requests.Load())
			n.closed()
		})
	}
}

// NetConn is the connection below TLS.
func (p *peer) NetConn() net.Conn { return p.Conn.(*tls.Conn).NetConn() }

func TestServerNameIsTheHost(t *testing.T) {
	require.Equal(t, "::1", New(Options{Address: "[::1]:9200", TLS: &tls.Config{}}).o.TLS.ServerName)
	require.Equal(t, "node", New(Options{Address: "node:9200", TLS: &tls.Config{}}).o.TLS.ServerName)
	given := &tls.Config{ServerName: "other", NextProtos: []string{"h2"}}
	require.Equal(t, "other", New(Options{Address: "node:9200", TLS: given}).o.TLS.ServerName)
	require.Equal(t, []string{"h2"}, given.NextProtos)
}

// abortable returns m, and what aborts it.
func abortable(m *Message) (*Message, func()) { return m, m.Abort.Now }

func requireAborted(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, Timeout(err))
}

func TestAbortBefore(t *testing.T) {
	n := start(t, nil, answering(hello))
	m, abort := abortable(get())
	abort()
	_, err := n.pool(nil).Do(m)
	requireAborted(t, err)
	require.True(t, NotSent(err))
	require.Zero(t, n.accepted.Load())
}

func TestAbortWhileDialing(t *testing.T) {
	n := start(t, serving(), func(p *peer) { _, _ = io.Copy(io.Discard, p.NetConn()) })
	m, abort := abortable(get())
	dialing := func(o *Options) {
		o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			abort()
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
		}
	}
	_, err := n.pool(dialing).Do(m)
	requireAborted(t, err)
	require.True(t, NotSent(err))

	m, abort = abortable(get())
	shaking := func(o *Options) {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			defer abort()
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	}
	p := n.pool(shaking)
	_, err = p.Do(m)
	requireAborted(t, err)
	require.True(t, NotSent(err))
	p.Close()
	n.closed()
}

// Aborting closes the connection at whatever stage the exchange is.
func TestAbort(t *testing.T) {
	for name, answer := range map[string]string{
		"before the answer": "",
		"in the head":       "HTTP/1.1 200 OK\r\nContent-Le",
		"after an interim":  "HTTP/1.1 102 Processing\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, secure *tls.Config) {
				for _, size := range []int{0, 10, 1 << 20} {
					m, abort := abortable(repeatable(post(size)))
					n := start(t, secure, func(p *peer) {
						p.request()
						if p.number == 1 {
							p.say(hello)
							p.request()
						}
						p.say(answer)
						abort()
						p.gone()
					})
					p := n.pool(nil)
					ask(t, p, get())
					_, err := p.Do(m)
					requireAborted(t, err)
					require.False(t, NotSent(err))
					require.EqualValues(t, 2, n.requests.Load())
					require.Zero(t, p.kept())
					n.closed()
				}
			})
		})
	}
}

// answerHalf answers with half of a body, and waits until the connection is closed.
func answerHalf(p *peer) {
	p.request()
	p.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
	p.gone()
}

func TestAbortInTheBody(t *testing.T) {
	eachKind(t, func(t *testing.T, secure *tls.Config) {
		n := start(t, secure, answerHalf)
		m, abort := abortable(get())
		p := n.pool(nil)
		resp, err := p.Do(m)
		require.NoError(t, err)
		_, err = io.ReadFull(resp.Body, make([]byte, 5))
		require.NoError(t, err)
		abort()
		for range 2 {
			_, err = resp.Body.Read(make([]byte, 5))
			requireAborted(t, err)
		}
		require.NoError(t, resp.Body.Close())
		require.Zero(t, p.kept())
		n.closed()
	})
}

func TestAbortAfterTheEnd(t *testing.T) {
	n := start(t, nil, answering(hello))
	p := n.pool(nil)
	for range 3 {
		m, abort := abortable(get())
		resp, err := p.Do(m)
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		abort()
		require.NoError(t, resp.Body.Close())
	}
	require.EqualValues(t, 1, n.accepted.Load())
}

// A message that the node does not read can be given up, and is then left alone.
func TestAbortWhileWriting(t *testing.T) {
	eachKind(t, func(t *testing.T, secure *tls.Config) {
		m, abort := abortable(post(32 << 20))
		n := start(t, secure, func(p *peer) {
			_, _ = p.r.ReadString('\n')
			abort()
			p.gone()
		})
		_, err := n.pool(nil).Do(m)
		requireAborted(t, err)
		require.False(t, NotSent(err))
		clear(m.Body) // the race detector notices who reads it
		n.closed()
	})
}

// A node may answer before it has read the message, and not read the rest.
func TestEarlyAnswer(t *testing.T) {
	const tooLarge = "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!"
	for _, c := range []struct {
		name, answer, body string
		close              bool
	}{
		{"stays open", tooLarge, "no!", false},
		{"closes", strings.Replace(tooLarge, "\r\n", "\r\nConnection: close\r\n", 1), "no!", true},
		{"no body", "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, secure *tls.Config) {
				for _, size := range []int{100, 10_000, 60_000, 32 << 20} {
					over := make(chan bool)
					n := start(t, secure, func(p *peer) {
						_, _ = p.r.ReadString('\n')
						p.say(c.answer)
						if !c.close {
							<-over
						} else if s, ok := p.Conn.(*tls.Conn); ok {
							_ = s.CloseWrite()
						}
					})
					p := n.pool(nil)
					m := post(size)
					resp, err := p.Do(m)
					require.NoError(t, err)
					require.Equal(t, 413, resp.StatusCode)
					b, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.Equal(t, c.body, string(b))
					require.NoError(t, resp.Body.Close())
					clear(m.Body) // the race detector notices who reads it
					if c.close || size > 1<<20 {
						require.Zero(t, p.kept(), "the rest of the message was not sent")
					}
					close(over)
					p.Close()
					n.closed()
				}
			})
		})
	}
}

func TestBrokenAnswers(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		is           error
	}{
		{"none", "", io.ErrUnexpectedEOF},
		{"half a head", "HTTP/1.1 200 OK\r\nA:", io.ErrUnexpectedEOF},
		{"only interim", "HTTP/1.1 102 Processing\r\n\r\n", io.ErrUnexpectedEOF},
		{"no HTTP", "hello\r\n\r\n", nil},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", nil},
		{"switches protocols", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", nil},
		{"long head", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", 10000) + "\r\n\r\n", nil},
		{"endless head", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 10000), nil},
		{"endless interim", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 10000), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, secure *tls.Config) {
				n := start(t, secure, func(p *peer) {
					p.request()
					p.say(c.answer)
				})
				p := n.pool(nil)
				p.maxHead = 9000
				_, err := p.Do(repeatable(get()))
				require.Error(t, err)
				require.False(t, NotSent(err))
				if c.is != nil {
					require.ErrorIs(t, err, c.is)
				}
				require.Zero(t, p.kept())
				n.closed()
			})
		})
	}
}

func TestBrokenBodies(t *testing.T) {
	for _, c := range []struct{ name, answer, body string }{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", "hello"},
		{"nothing of it", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", ""},
		{"chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhello", "hello"},
		{"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "hello"},
		{"no end of trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", "hello"},
		{"bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nz\r\n", "hello"},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, secure *tls.Config) {
				n := start(t, secure, func(p *peer) {
					p.request()
					p.say(c.answer)
				})
				p := n.pool(nil)
				resp, err := p.Do(get())
				require.NoError(t, err)
				b, err := io.ReadAll(resp.Body)
				require.Error(t, err)
				require.NotErrorIs(t, err, io.EOF)
				require.Equal(t, c.body, string(b))
				_, again := resp.Body.Read(make([]byte, 1))
				require.Equal(t, err, again)
				require.NoError(t, resp.Body.Close())
				require.Zero(t, p.kept())
				n.closed()
			})
		})
	}
}

func TestLargeBodiesAreNoHead(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 100_000)
	n := start(t, nil, answering("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"+string(body)))
	p := n.pool(nil)
	p.maxHead = 5000
	_, got := ask(t, p, get())
	require.Equal(t, string(body), got)
}

func TestInterim(t *testing.T) {
	n := start(t, nil, answering("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"+hello))
	var seen []any
	m := get()
	m.Interim = func(status int, header http.Header) { seen = append(seen, status, header.Get("Link")) }
	_, body := ask(t, n.pool(nil), m)
	require.Equal(t, "hello", body)
	require.Equal(t, []any{103, "a", 102, ""}, seen)
}

func TestTrailer(t *testing.T) {
	n := start(t, nil, answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n0\r\nA: b\r\n\r\n"))
	resp, err := n.pool(nil).Do(get())
	require.NoError(t, err)
	finish(t, resp)
	require.Equal(t, http.Header{"A": {"b"}}, resp.Trailer)
}
