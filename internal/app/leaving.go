package app

import (
	"context"
	"sync"
	"time"

	"sidestep/internal/rawsocket"
)

// unwatched is for how long, at least, it is not looked whether the client of a request
// has left; at most it is twice that. Most searches are answered sooner.
const unwatched = 50 * time.Millisecond

// leaving cancels the requests of a connection when the client leaves. The server does
// that with a read of one byte, on a goroutine of its own, as soon as a request has been
// read. To end it when the request is answered costs a tenth of a search. So that read
// returns at once with nothing, and the connection is watched from here, if the request
// takes long. The zero value is ready for use.
type leaving struct {
	mu      sync.Mutex
	cancel  context.CancelFunc
	timer   *time.Timer   // calls look
	armed   bool          // it will
	request bool          // one is being served: nothing was read since its end
	number  int           // of requests
	seen    int           // number when the timer was set
	watched chan struct{} // closed when watching ends; nil: nobody watches
	stopped bool          // the connection is not the server's any more
}

// requests returns the context of the connection's requests.
func (c *patientConn) requests(ctx context.Context) context.Context {
	l := &c.leaving
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, l.cancel = context.WithCancel(ctx)
	l.timer = time.AfterFunc(time.Hour, c.look)
	l.timer.Stop()
	return ctx
}

// later is called for a read of one byte. It reports whether that is the server's, which
// need not be done.
func (l *leaving) later() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !rawsocket.Watches || l.request || l.cancel == nil || l.stopped { // it reads again: this is no watching
		return false
	}
	l.request = true
	l.number++
	if !l.armed {
		l.arm()
	}
	return true
}

// arm sets the timer. l.mu is held.
func (l *leaving) arm() {
	l.armed, l.seen = true, l.number
	l.timer.Reset(unwatched)
}

// look watches the connection if the request is the one for which the timer was set.
func (c *patientConn) look() {
	l := &c.leaving
	l.mu.Lock()
	l.armed = false
	if !l.request || l.number != l.seen {
		if l.request {
			l.arm()
		}
		l.mu.Unlock()
		return
	}
	watched := make(chan struct{})
	defer close(watched)
	l.watched = watched
	c.setRead(time.Time{})
	l.mu.Unlock()
	if c.AwaitEnd() {
		l.cancel()
	}
}

// now ends the watching, as something is to be read.
func (l *leaving) now(c *patientConn) {
	l.mu.Lock()
	watched := l.watched
	l.request, l.watched = false, nil
	l.mu.Unlock()
	if watched != nil {
		c.setRead(time.Unix(1, 0))
		<-watched
	}
}

// stop ends the watching for good.
func (l *leaving) stop(c *patientConn) {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.now(c)
	c.setRead(time.Time{})
}

// Left implements proxy.Connection. With TLS the server itself watches the client.
func (c *patientConn) Left() bool {
	l := &c.leaving
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.request || !c.Ended() {
		return false
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
