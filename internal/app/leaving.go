package app

import (
	"context"
	"sync"
)

// leaving cancels the requests of a connection when the client leaves. The server does
// that with a read of one byte, on a goroutine of its own, as soon as a request has been
// read. To end it when the request is answered costs a tenth of a search, and it takes
// memory while it waits. So that read returns at once with nothing, and the end of the
// connection is told by [rawsocket.Hangups]. The zero value is ready for use.
type leaving struct {
	mu      sync.Mutex
	cancel  context.CancelFunc
	watched bool // hungUp is called at the end of the connection, which is the server's
	ended   bool // it was; a request that was sent before it may still have to be read
	request bool // one is being served: nothing was read since its end
}

// watch has the end of the connection told. Where that cannot be done the server watches.
func (c *patientConn) watch() {
	l := &c.leaving
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched = c.hangups.Watch(c.Conn, c.hungUp)
}

// hungUp is called when the client has closed the connection, or its side of it.
func (c *patientConn) hungUp() {
	l := &c.leaving
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	c.endRequest()
}

// endRequest cancels the request that is being served if its client has left and sent
// nothing after it. c.leaving.mu is held.
func (c *patientConn) endRequest() (left bool) {
	l := &c.leaving
	if left = l.request && c.Ended(); left {
		l.cancel()
	}
	return left
}

// requests returns the context of the connection's requests.
func (c *patientConn) requests(ctx context.Context) context.Context {
	l := &c.leaving
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, l.cancel = context.WithCancel(ctx)
	return ctx
}

// onlyWatches is called for a read of one byte. It reports whether that is the server's to watch
// the client, which need not be done.
func (c *patientConn) onlyWatches() bool {
	l := &c.leaving
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.watched || l.request { // it reads again: this is no watching
		return false
	}
	l.request = true
	if l.ended {
		c.endRequest()
	}
	return true
}

// over is called when something is to be read: no request is being served.
func (l *leaving) over() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.request = false
}

// stop ends the watching for good.
func (l *leaving) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.request, l.watched = false, false
}

// Left implements proxy.Connection. While something of a request is still to be read nobody watches the client, and with TLS
// the server does later: the connection itself tells.
func (c *patientConn) Left() bool {
	l := &c.leaving
	l.mu.Lock()
	defer l.mu.Unlock()
	if farEndOf(c.TCPConn) == farOpen {
		return c.endRequest()
	}
	l.cancel()
	return true
}

// end is called when the connection is closed.
func (l *leaving) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.request = false
	if l.cancel != nil {
		l.cancel()
	}
}
