package leg

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/rawsocket"
)

// reset closes c so that the other side sees a reset.
func reset(c net.Conn) {
	if s, ok := c.(*tls.Conn); ok {
		c = s.NetConn().(*batch).Conn
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// arrived waits until something can be read from the pool's idle connection.
func arrived(t *testing.T, p *Pool) {
	t.Helper()
	p.mu.Lock()
	c := p.idle[0]
	p.mu.Unlock()
	require.Eventually(t, c.readable, patience, time.Millisecond)
}

// What a node does to an idle connection is found before the next message is sent:
// that goes out once, on another connection.
func TestStaleConnections(t *testing.T) {
	const timeout = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	for name, corrupt := range map[string]func(p *peer){
		"closed":     func(p *peer) { p.Close() },
		"reset":      func(p *peer) { reset(p.Conn) },
		"a byte":     func(p *peer) { p.say("H") },
		"an answer":  func(p *peer) { p.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil") },
		"a 408":      func(p *peer) { p.say(timeout) },
		"408, close": func(p *peer) { p.say(timeout); p.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, secure *tls.Config) {
				for _, m := range []*Message{post(10), repeatable(post(10)), post(1 << 20), get(), repeatable(get())} {
					idle := make(chan bool)
					n := start(t, secure, func(p *peer) {
						p.request()
						p.say(hello)
						if p.number == 1 {
							<-idle
							corrupt(p)
						}
						p.request()
					})
					p := n.pool(nil)
					ask(t, p, m)
					require.Equal(t, 1, p.kept())
					close(idle)
					arrived(t, p)
					status, body := ask(t, p, m)
					require.Equal(t, 200, status)
					require.Equal(t, "hello", body)
					require.EqualValues(t, 2, n.accepted.Load())
					require.EqualValues(t, 2, n.requests.Load())
					n.stop()
				}
			})
		})
	}
}

// The next idle connection is taken where one is stale.
func TestStaleConnectionsAreSkipped(t *testing.T) {
	corrupted := make(chan bool)
	n := start(t, nil, func(p *peer) {
		if p.number == 1 {
			answering(hello)(p)
			return
		}
		p.request()
		p.say(hello)
		<-corrupted
	})
	p := n.pool(nil)
	held := hold(t, p, 3)
	for _, i := range []int{1, 0, 2} {
		finish(t, held[i])
	}
	close(corrupted)
	arrived(t, p)
	require.Eventually(t, func() bool { return p.idle[2].stale() }, patience, time.Millisecond)
	for range 2 {
		ask(t, p, post(10))
	}
	require.EqualValues(t, 3, n.accepted.Load())
}

// With TLS what comes unasked may have left the socket already.
func TestRecordsBehindTheEnd(t *testing.T) {
	for _, most := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for name, more := range map[string]string{"in the same record": "", "in another": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"} {
			t.Run(tls.VersionName(most)+" "+name, func(t *testing.T) {
				secure := serving()
				secure.MaxVersion = most
				secure.DynamicRecordSizingDisabled = true
				// The end of a body this long is read past the client's buffer, so that what
				// follows is left in the TLS connection.
				head := "HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n"
				answer := head + string(make([]byte, 10_000))
				n := start(t, secure, func(p *peer) {
					p.request()
					if p.number > 1 {
						p.say(hello)
						p.gone()
						return
					}
					if more == "" {
						p.say(answer + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
					} else {
						together(p, answer, more)
					}
					p.request()
				})
				p := n.pool(nil)
				resp, err := p.Do(get())
				require.NoError(t, err)
				b := make([]byte, 10_000)
				_, err = io.ReadFull(resp.Body, b)
				require.NoError(t, err)
				_, err = resp.Body.Read(b)
				require.ErrorIs(t, err, io.EOF)
				_, body := ask(t, p, get())
				require.Equal(t, "hello", body)
				require.EqualValues(t, 2, n.requests.Load())
			})
		}
	}
}

// together sends records in one segment.
func together(p *peer, texts ...string) {
	raw := p.NetConn().(*batch)
	raw.hold = true
	for _, text := range texts {
		p.say(text)
	}
	_, _ = raw.Conn.Write(raw.held)
}

// batch is a connection below TLS.
type batch struct {
	net.Conn
	hold bool
	held []byte
}

func (b *batch) Write(p []byte) (int, error) {
	if b.hold {
		b.held = append(b.held, p...)
		return len(p), nil
	}
	return b.Conn.Write(p)
}

// A node may close a connection together with its answer.
func TestCloseNotifyBehindTheEnd(t *testing.T) {
	secure := serving()
	secure.MaxVersion = tls.VersionTLS12 // an alert that is seen with the last bytes
	n := start(t, secure, func(p *peer) {
		p.request()
		raw := p.NetConn().(*batch)
		raw.hold = true
		p.say(hello)
		_ = p.Conn.(*tls.Conn).CloseWrite()
		_ = raw.SetWriteDeadline(time.Time{}) // which CloseWrite has set
		_, _ = raw.Conn.Write(raw.held)
		p.gone()
	})
	p := n.pool(nil)
	_, body := ask(t, p, get())
	require.Equal(t, "hello", body)
	require.Zero(t, p.kept())
	n.closed()
}

// plain is a connection that cannot be looked at.
type plain struct{ net.Conn }

// Where not a byte could be written, any message is sent on a new connection.
func TestNothingWritten(t *testing.T) {
	for _, m := range []*Message{get(), post(10), post(copied + 1), post(1 << 20)} {
		n := start(t, nil, func(p *peer) {
			if p.number == 1 {
				p.request()
				p.say(hello)
				reset(p.Conn)
				return
			}
			answering(hello)(p)
		})
		var sockets []*rawsocket.Conn
		p := n.pool(func(o *Options) {
			o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, address)
				sockets = append(sockets, rawsocket.Of(c.(*net.TCPConn)))
				return plain{c}, err
			}
		})
		resp, err := p.Do(get())
		require.NoError(t, err)
		finish(t, resp)
		require.Equal(t, 1, p.kept())
		// To look at a reset takes it away; the connection is dead all the same.
		require.Eventually(t, sockets[0].Readable, patience, time.Millisecond)
		_, body := ask(t, p, m)
		require.Equal(t, "hello", body)
		require.EqualValues(t, 2, n.requests.Load())
	}
}

// One that ends after a while ended while the node worked: whoever sent the message decides.
func TestConnectionEndsAfterAWhile(t *testing.T) {
	for held, requests := range map[time.Duration]int32{soon - time.Millisecond: 3, soon: 2} {
		synctest.Test(t, func(t *testing.T) {
			var received atomic.Int32
			p := piped(Options{MaxIdle: 10}, func(p *peer) {
				for _, ok := p.request(); ok; _, ok = p.request() {
					if received.Add(1) == 2 {
						time.Sleep(held)
						return
					}
					p.say(hello)
				}
			})
			defer p.Close()
			ask(t, p, get())
			resp, err := p.Do(repeatable(get()))
			if err == nil {
				finish(t, resp)
			}
			require.Equal(t, requests == 3, err == nil)
			require.False(t, NotSent(err))
			require.Equal(t, requests, received.Load())
		})
	}
}

// A connection that ends under a message is no stale one: the node may have acted.
func TestConnectionEndsUnderAMessage(t *testing.T) {
	for _, c := range []struct {
		name     string
		message  *Message
		first    bool // on a connection that was not used before
		answered bool
		requests int
	}{
		{"repeatable", repeatable(get()), false, true, 3},
		{"repeatable, large", repeatable(post(1 << 20)), false, true, 3},
		{"not repeatable", post(10), false, false, 2},
		{"not repeatable, large", post(1 << 20), false, false, 2},
		{"repeatable on a new connection", repeatable(get()), true, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, secure *tls.Config) {
				n := start(t, secure, func(p *peer) {
					p.request()
					if p.number > 1 || !c.first {
						p.say(hello)
						if p.number == 1 {
							p.request() // closed after it
							return
						}
						p.gone()
					}
				})
				p := n.pool(nil)
				if !c.first {
					ask(t, p, get())
				}
				resp, err := p.Do(c.message)
				if c.answered {
					require.NoError(t, err)
					finish(t, resp)
				} else {
					require.Error(t, err)
					require.False(t, NotSent(err))
					require.False(t, Timeout(err))
				}
				require.EqualValues(t, c.requests, n.requests.Load())
			})
		})
	}
}

// A message that was sent stays sent when it cannot be sent again.
func TestRepeatWithoutConnection(t *testing.T) {
	var n *node
	n = start(t, nil, func(p *peer) {
		p.request()
		p.say(hello)
		p.request()
		n.listener.Close()
	})
	p := n.pool(nil)
	ask(t, p, get())
	_, err := p.Do(repeatable(get()))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.False(t, NotSent(err))
}

// A part of an answer is no reason to repeat.
func TestNoRepeatAfterAByte(t *testing.T) {
	n := start(t, nil, func(p *peer) {
		p.request()
		p.say(hello)
		p.request()
		p.say("H")
	})
	p := n.pool(nil)
	ask(t, p, get())
	_, err := p.Do(repeatable(get()))
	require.ErrorContains(t, err, "malformed")
	require.False(t, NotSent(err))
	require.EqualValues(t, 2, n.requests.Load())
}

// BenchmarkStale is what it costs to look at a connection before it is used.
func BenchmarkStale(b *testing.B) {
	for name, start := range map[string]*tls.Config{"tls=false": nil, "tls=true": serving()} {
		b.Run(name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test
			require.NoError(b, err)
			defer l.Close()
			o := Options{Address: l.Addr().String(), Dial: dial, HandshakeTimeout: patience}
			if start != nil {
				l = tls.NewListener(l, start)
				o.TLS = trusting()
			}
			served := make(chan net.Conn)
			go func() {
				c, _ := l.Accept()
				r := make([]byte, 1)
				_, _ = c.Read(r)
				_, _ = io.WriteString(c, hello)
				served <- c
			}()
			p := New(o)
			c, failed := p.dial(b.Context())
			require.Nil(b, failed)
			_, _ = c.nc.Write([]byte("x"))
			_, err = io.ReadFull(c.nc, make([]byte, len(hello)))
			require.NoError(b, err)
			defer c.abort()
			defer (<-served).Close()
			b.ReportAllocs()
			for b.Loop() {
				if c.stale() {
					b.Fatal("stale")
				}
			}
		})
	}
}
