package app

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"sidestep/internal/proxy"
)

// farEnd is the state of the other end of a connection.
type farEnd int

const (
	farOpen   farEnd = iota // it is open, or nothing is known
	farRead                 // it was closed after everything had arrived
	farUnread               // it was reset, or closed before everything had arrived
)

// closeGrace is how long a connection whose client has sent TLS's close_notify is watched
// for its end. The end follows at once unless the client is short of CPU. closeGraceStep
// is the interval of looking.
const (
	closeGrace     = 500 * time.Millisecond
	closeGraceStep = time.Millisecond
)

// Unread implements proxy.Connection.
func (c *patientConn) Unread() bool { return farEndOf(c.TCPConn) == farUnread }

// Settle implements proxy.Connection.
func (c *patientConn) Settle(f func(unread bool)) {
	c.heard.Store(false)
	c.reading.Store(&f)
	if c.closed.Load() {
		c.settle(false)
	}
}

// settle passes on whether the answer is unread, if that is awaited.
func (c *patientConn) settle(unread bool) {
	if c.reading.Load() == nil {
		return
	}
	if f := c.reading.Swap(nil); f != nil {
		(*f)(unread)
	}
}

// Write implements net.Conn. When a client has closed the connection, further writes make
// it send a reset, and TLS writes when it ends. That reset does not mean that the answer
// is unread.
func (c *patientConn) Write(p []byte) (int, error) {
	if c.reading.Load() != nil {
		c.settleBefore()
	}
	if err := c.beginWrite(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	c.writes--
	c.mu.Unlock()
	return n, err
}

// settleBefore settles the last answer before something else is written, if its state is
// known.
func (c *patientConn) settleBefore() {
	far := farEndOf(c.TCPConn)
	if far == farOpen && !c.heard.Load() {
		return
	}
	for end := time.Now().Add(closeGrace); far == farOpen && time.Now().Before(end); far = farEndOf(c.TCPConn) {
		time.Sleep(closeGraceStep)
	}
	c.settle(far == farUnread)
}

// Close implements net.Conn.
func (c *patientConn) Close() error {
	c.keep()
	return c.close()
}

func (c *patientConn) close() error {
	c.closed.Store(true)
	if c.reading.Load() != nil {
		c.settle(!c.secure && c.Unread()) // TLS has written something: see Write
	}
	c.leaving.end()
	c.hangups.Forget(c.Conn)
	return c.Conn.Close()
}

// patientOf returns the connection below conn; nil if it is another kind.
func patientOf(conn net.Conn) *patientConn {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, _ := conn.(*patientConn)
	return c
}

// withConnection is for [http.Server.ConnContext].
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if c := patientOf(conn); c != nil {
		return proxy.WithConnection(c.requests(ctx), c)
	}
	return ctx
}

// settleLast is for [http.Server.ConnState]. A client that sends the next request has
// read the last answer. Of a connection that was upgraded the server reads nothing more, so
// that it is not watched any longer.
func settleLast(conn net.Conn, state http.ConnState) {
	c := patientOf(conn)
	switch {
	case c == nil:
	case state == http.StateActive:
		c.begin() // with TLS the last read of the handshake may have brought the request
		c.settle(false)
	case state == http.StateHijacked:
		c.leaving.stop()
	}
}
