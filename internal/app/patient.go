package app

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/internal/rawsocket"
)

// patientListener accepts connections whose first request may come at any time. The
// engines wait for it without a limit, and clients rely on that: those with connection
// pools open some in advance. net/http closes such connections after ReadHeaderTimeout,
// even while a request is arriving. The rest of a request's head must still arrive in
// time.
type patientListener struct {
	net.Listener
	handshake bool               // the TLS handshake, which comes first and must be in time
	hangups   *rawsocket.Hangups // tells when clients without TLS leave; may be nil
	// stopping ends when the server begins to shut down. Then connections on which no request has begun are closed:
	// net/http waits up to five seconds for those that it has just accepted, although it would not answer them any more.
	stopping context.Context //nolint:containedctx // the life of the listener
	linger   atomic.Int64    // ns: from then to the time when the server closes idle connections
}

// Accept implements net.Listener. When drain has closed the listener it returns only after the server has begun to shut
// down, as the server expects.
func (l *patientListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if errors.Is(err, net.ErrClosed) {
		<-l.stopping.Done()
		time.Sleep(time.Duration(l.linger.Load()))
	}
	tcp, ok := conn.(*net.TCPConn)
	if err != nil || !ok {
		return conn, err
	}
	c := &patientConn{Conn: rawsocket.Of(tcp), secure: l.handshake, hangups: l.hangups}
	if !l.handshake {
		c.stage.Store(unused)
		c.watch()
	}
	c.keep = context.AfterFunc(l.stopping, func() {
		if c.stage.Load() != begun {
			_ = c.close()
		}
	})
	return c, nil
}

// Stages of a patientConn, in their order.
const (
	handshaking int32 = iota
	unused            // no request has begun
	begun
)

// patientConn is a connection whose read deadline counts from the first bytes of the
// first request. Setting deadlines is expensive: the server and the data plane set about
// ten of them for each request, of which at most two take effect. So a deadline is set
// only when somebody reads or writes, and a write deadline only if it is clearly later
// than the current one.
type patientConn struct {
	*rawsocket.Conn
	secure  bool // TLS is above
	hangups *rawsocket.Hangups
	leaving leaving
	keep    func() bool // has the connection outlive patientListener.stopping
	stage   atomic.Int32
	limit   atomic.Int64 // ns: for the rest of a request that has begun to arrive; 0: none

	reading atomic.Pointer[func(unread bool)] // told whether the last answer was read; nil if nobody waits for it
	heard   atomic.Bool                       // something was read since
	closed  atomic.Bool

	mu      sync.Mutex // guards what follows
	reads   int        // reads in progress
	wanted  time.Time  // deadline for reading
	set     time.Time  // the one that the socket has
	writes  int        // writes in progress
	writeBy time.Time  // deadline for writing
	setBy   time.Time  // the one that the socket has
}

// writeSlack is the part of its duration by which a write deadline may be off.
const writeSlack = 8

// SetDeadline implements net.Conn.
func (c *patientConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn. The server clears the deadline at the end of the
// handshake.
func (c *patientConn) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		c.stage.CompareAndSwap(handshaking, unused)
		c.limit.Store(0)
	} else if c.stage.Load() == unused {
		if left := time.Until(t); left > 0 {
			c.limit.Store(int64(left))
			return nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = t
	if c.reads == 0 {
		return nil
	}
	c.set = t
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *patientConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeBy = t
	if c.writes == 0 {
		return nil
	}
	c.setBy = t
	return c.Conn.SetWriteDeadline(t)
}

// beginWrite sets the deadline that applies to the write. It keeps one that is only a
// little earlier.
func (c *patientConn) beginWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	more := c.writeBy.Sub(c.setBy)
	if c.writeBy.Equal(c.setBy) || !c.setBy.IsZero() && more > 0 && more < time.Until(c.writeBy)/writeSlack {
		return nil
	}
	c.setBy = c.writeBy
	return c.Conn.SetWriteDeadline(c.setBy)
}

// Read implements net.Conn.
func (c *patientConn) Read(p []byte) (int, error) {
	if len(p) == 1 && c.onlyWatches() {
		return 0, nil // see leaving
	}
	c.leaving.over()
	if err := c.beginRead(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if n > 0 && c.reading.Load() != nil {
		c.heard.Store(true)
	}
	c.mu.Lock()
	c.reads--
	c.mu.Unlock()
	if n > 0 && c.stage.Load() == unused && c.begin() {
		if limit := c.limit.Load(); limit > 0 {
			err = c.SetReadDeadline(time.Now().Add(time.Duration(limit)))
		}
	}
	return n, err
}

// begin notes that a request has begun, and reports whether that is news.
func (c *patientConn) begin() bool {
	if c.stage.Load() == begun || c.stage.Swap(begun) == begun {
		return false
	}
	c.keep()
	return true
}

// beginRead sets the deadline that applies to the read.
func (c *patientConn) beginRead() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	if c.wanted.Equal(c.set) {
		return nil
	}
	c.set = c.wanted
	return c.Conn.SetReadDeadline(c.set)
}
