package app

import (
	"net"
	"sync/atomic"
	"time"
)

// patientListener takes connections whose first request may come at any time. The
// engines wait for it for ever, and clients count on it: those that pool connections
// open some in advance, and use them when there is more to do. net/http closes them
// after ReadHeaderTimeout, also while a request is on its way. The head of a request
// that has begun must come in time all the same.
type patientListener struct {
	net.Listener
	handshake bool // of TLS, which comes first and must come in time
}

// Accept implements net.Listener.
func (l patientListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	tcp, ok := conn.(*net.TCPConn)
	if err != nil || !ok {
		return conn, err
	}
	c := &patientConn{TCPConn: tcp}
	if !l.handshake {
		c.stage.Store(unused)
	}
	return c, nil
}

// Stages of a patientConn, in their order.
const (
	handshaking int32 = iota
	unused            // no request has begun
	begun
)

// patientConn is a connection whose deadline for reading counts from the first bytes
// of the first request.
type patientConn struct {
	*net.TCPConn
	stage atomic.Int32
	limit atomic.Int64 // ns: for the rest of what has begun to come; 0: none
}

// SetReadDeadline implements net.Conn. The server lifts the deadline at the end of
// the handshake.
func (c *patientConn) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		c.stage.CompareAndSwap(handshaking, unused)
		c.limit.Store(0)
		return c.TCPConn.SetReadDeadline(t)
	}
	if left := time.Until(t); left > 0 && c.stage.Load() == unused {
		c.limit.Store(int64(left))
		return nil
	}
	return c.TCPConn.SetReadDeadline(t)
}

// Read implements net.Conn.
func (c *patientConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n > 0 && c.stage.CompareAndSwap(unused, begun) {
		if limit := c.limit.Load(); limit > 0 {
			err = c.TCPConn.SetReadDeadline(time.Now().Add(time.Duration(limit)))
		}
	}
	return n, err
}
