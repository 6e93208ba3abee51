// Package leg carries HTTP/1.1 requests to one node over connections that it keeps. It
// replaces [http.Transport], on the goroutine of the caller: connections have no goroutines, and a
// request that is held as bytes costs one write and the reads of its answer. Answers are parsed by [http.ReadResponse]; the pool, deadlines and
// cancellation are this package's.
//
// It has no redirects, cookies, proxies, compression or HTTP/2.
package leg

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"sidestep/internal/rawsocket"
)

// Options configures a [Pool].
type Options struct {
	// Address is the node's, host:port.
	Address string
	// Dial connects to Address and has a timeout of its own.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is nil for plain HTTP. An empty ServerName is the host of Address.
	TLS *tls.Config
	// Roots, if set, returns the authorities to trust, in place of those of TLS, at each handshake.
	Roots func() *x509.CertPool
	// HandshakeTimeout bounds the TLS handshake.
	HandshakeTimeout time.Duration
	// MaxIdle is the number of idle connections that are kept.
	MaxIdle int
	// IdleTimeout is how long a connection may be idle; 0 means any time.
	IdleTimeout time.Duration
	// ContinueTimeout is how long a stream waits to be asked for.
	ContinueTimeout time.Duration
}

const (
	// longestHead bounds the head of an answer in bytes, together with the interim answers before it. As in
	// [http.Transport].
	longestHead = 10 << 20
	readBuffer  = 4 << 10
)

// Pool sends requests to one node. Its methods may be called by several goroutines
// at the same time.
type Pool struct {
	o       Options
	maxHead int64

	writerPatience time.Duration // the constant of this name, but in tests

	readers sync.Pool // *bufio.Reader
	buffers sync.Pool // *[]byte, a head with a small body behind it

	mu     sync.Mutex
	idle   []*conn            // by the time they became idle
	waits  []*wait            // of messages, the oldest first
	spares map[*wait]struct{} // those that ended, while a connection is being made that nobody waits for
	timer  *time.Timer        // runs sweep; made when it is first needed
	armed  bool               // the timer will fire
	closed bool
}

// New returns a pool without connections.
func New(o Options) *Pool {
	if o.TLS != nil {
		o.TLS = o.TLS.Clone()
		o.TLS.NextProtos = []string{"http/1.1"}
		if o.TLS.ServerName == "" {
			o.TLS.ServerName = o.Address
			if host, _, err := net.SplitHostPort(o.Address); err == nil {
				o.TLS.ServerName = host
			}
		}
	}
	return &Pool{
		o:       o,
		maxHead: longestHead,

		writerPatience: writerPatience,

		spares:  map[*wait]struct{}{},
		readers: sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBuffer) }},
		buffers: sync.Pool{New: func() any { return new([]byte) }},
	}
}

// Message is one request, as bytes. Neither slice may be changed before the body of
// the answer is closed, or Do has failed. It may be sent again then, unless it was aborted.
type Message struct {
	// Method tells whether the answer has a body: that to HEAD has none.
	Method string
	// Head is the request line and the header fields, with the empty line at the end.
	Head []byte
	Body []byte
	// Stream is a body that is read as it is sent, in place of Body; nil: there is none. The head must tell its length, or
	// that it is in chunks. Such a message is not repeatable.
	Stream *Stream
	// Repeatable says that the message may be sent once more, on a connection that was not idle, when a
	// pooled one ends within a second, before any byte of the answer: the node closed it while
	// it was idle. Otherwise that is an error, as the node may have acted on the message.
	Repeatable bool
	// Abort aborts the message; it may do so before the other fields are set.
	Abort Abort
	// Upgrade says that the message asks for another protocol. If the node switches to it (101) the body of the answer is an
	// [io.ReadWriteCloser]: the connection.
	Upgrade bool
	// Interim is called for each interim (1xx) answer but 100; it may be nil.
	Interim func(status int, header http.Header)
}

// Do sends m and returns the answer; its body must be closed. When m is aborted before
// that, the connection is closed, which cancels a search on the engine; the error
// then wraps [context.Canceled]. Request is not set in the answer, except to HEAD.
//
// A pooled connection with unexpected data is not used: the data is not the answer to m.
func (p *Pool) Do(m *Message) (*http.Response, error) {
	if m.Abort.happened() {
		return nil, &failure{doing: "send", err: context.Canceled, notSent: true}
	}
	sent, fresh := false, false
	for {
		c, err := p.connect(m, fresh)
		if err == nil {
			var resp *http.Response
			if resp, err = c.exchange(m); err == nil {
				return resp, nil
			}
		}
		again := c != nil && !c.isNew() && !m.Abort.happened()
		switch {
		case again && err.notSent && !refused(err.err): // nothing was written: the next connection may be good
		// If the node refused the certificate with which it was made, there may be another by now.
		case again && !fresh && (err.notSent || m.Repeatable && err.unanswered):
			sent, fresh = !err.notSent, true
		default:
			err.notSent = err.notSent && !sent
			return nil, err
		}
	}
}

// connect returns a connection for m: an idle one, unless it is to be fresh, or else the first that another message
// gives back or that is made.
func (p *Pool) connect(m *Message, fresh bool) (*conn, *failure) {
	for {
		c, w := p.claim(fresh)
		if w != nil {
			var err *failure
			if c, err = p.await(m, w); err != nil {
				return nil, err
			}
		}
		// A message that is written together with reading finds out then.
		if c.isNew() || c.inTurn(m) || !c.stale() {
			return c, nil
		}
		c.abort()
	}
}

// Close closes the idle connections, those that are made for nobody, and those in use when their answer has been
// read. Messages can still be sent, each on a connection of its own.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	for w := range p.spares {
		w.cancel()
	}
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	closeAll(idle)
}

// arm schedules sweep after d. The caller holds the lock.
func (p *Pool) arm(d time.Duration) {
	p.armed = true
	if p.timer == nil {
		p.timer = time.AfterFunc(d, p.sweep)
	} else {
		p.timer.Reset(d)
	}
}

// sweep closes the connections that have been idle for too long, and schedules itself for
// the next one.
func (p *Pool) sweep() {
	now := time.Now()
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && now.Sub(p.idle[n].idleSince) >= p.o.IdleTimeout {
		n++
	}
	old := slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	p.armed = false
	if len(p.idle) > 0 && !p.closed {
		p.arm(p.o.IdleTimeout - now.Sub(p.idle[0].idleSince))
	}
	p.mu.Unlock()
	closeAll(old)
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		c.abort()
	}
}

// dial makes a connection.
func (p *Pool) dial(ctx context.Context) (*conn, *failure) {
	nc, err := p.o.Dial(ctx, "tcp", p.o.Address)
	if err != nil {
		return nil, unmade(ctx, "connect", err)
	}
	c := &conn{pool: p}
	if tcp, ok := nc.(*net.TCPConn); ok {
		c.socket = rawsocket.Of(tcp)
		nc = c.socket
	}
	c.nc = nc
	if p.o.TLS != nil {
		if c.secure, err = p.handshake(ctx, nc); err != nil {
			_ = nc.Close()
			return nil, unmade(ctx, "TLS handshake", err)
		}
		c.nc = c.secure
	}
	c.abort = func() { _ = c.nc.Close() }
	return c, nil
}

func (p *Pool) handshake(ctx context.Context, nc net.Conn) (*tls.Conn, error) {
	config := p.o.TLS
	if p.o.Roots != nil {
		config = config.Clone()
		config.RootCAs = p.o.Roots()
	}
	secure := tls.Client(nc, config)
	if err := nc.SetDeadline(time.Now().Add(p.o.HandshakeTimeout)); err != nil {
		return nil, err
	}
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return secure, nc.SetDeadline(time.Time{})
}

// unmade returns why a connection was not made.
func unmade(ctx context.Context, doing string, err error) *failure {
	if ctx.Err() != nil {
		return &failure{doing: doing, err: ctx.Err(), notSent: true}
	}
	var timed net.Error
	late := errors.As(err, &timed) && timed.Timeout()
	return &failure{doing: doing, err: err, notSent: true, late: late}
}

// Dial makes a connection as a pool with these options does, without pooling it.
// [NotSent] is true for its errors.
func Dial(ctx context.Context, o Options) (net.Conn, error) {
	c, err := New(o).dial(ctx)
	if err != nil {
		return nil, err
	}
	return c.nc, nil
}
