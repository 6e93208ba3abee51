package app

import (
	"context"
	"sync"
	"time"

	"sidestep/internal/rawsocket"
)

// Whether the client of a request has left is looked for at the latest after twice
// unwatched, as most searches are answered sooner, and then in intervals that double up to
// rarest.
const (
	unwatched = 50 * time.Millisecond
	rarest    = 4 * unwatched
)

// leaving cancels the requests of a connection when the client leaves. The server does
// that with a read of one byte, on a goroutine of its own, as soon as a request has been
// read. To end it when the request is answered costs a tenth of a search. So that read
// returns at once with nothing, and if the request takes long it is looked at the
// connection from here, again and again: a goroutine that waits takes 8 KiB. The zero value
// is ready for use.
type leaving struct {
	mu       sync.Mutex
	cancel   context.CancelFunc
	timer    *time.Timer   // calls look
	armed    bool          // it will
	interval time.Duration // until then
	request  bool          // one is being served: nothing was read since its end
	number   int           // of requests
	seen     int           // number when the timer was set
	stopped  bool          // the connection is not the server's any more
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
		l.arm(unwatched)
	}
	return true
}

// arm sets the timer. l.mu is held.
func (l *leaving) arm(interval time.Duration) {
	l.armed, l.seen, l.interval = true, l.number, interval
	l.timer.Reset(interval)
}

// look cancels the request if its client has left. If not, it looks again later.
func (c *patientConn) look() {
	l := &c.leaving
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	switch {
	case !l.request || l.stopped:
	case l.number != l.seen: // another one, of which it is not known how long it takes
		l.arm(unwatched)
	case c.Ended():
		l.cancel()
	default:
		l.arm(min(2*l.interval, rarest))
	}
}

// now ends the looking, as something is to be read.
func (l *leaving) now() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.request = false
}

// stop ends the looking for good.
func (l *leaving) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.request, l.stopped = false, true
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
