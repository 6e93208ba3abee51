package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lastRequests is how long requests are still answered on the connections there are
	// once no new one is taken: of those that were taken last, and of those whose last
	// answer just missed the beginning of the drain.
	lastRequests = 500 * time.Millisecond
	// lastFrames is how long idle connections then stay open, so that HTTP/2 clients
	// learn by GOAWAY that requests they send now are not answered.
	lastFrames = 100 * time.Millisecond
)

// delay is limits.drain_delay of one stop.
type delay struct {
	over  atomic.Bool   // it has passed, or is not to be waited for
	ended chan struct{} // closed by skip
}

// skip ends the delay and reports whether that made a difference.
func (d *delay) skip() bool {
	if !d.over.CompareAndSwap(false, true) {
		return false
	}
	close(d.ended)
	return true
}

// wait returns whether the delay has passed, and not been skipped or ended by ctx.
func (d *delay) wait(ctx context.Context, length time.Duration) bool {
	defer d.over.Store(true)
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return length > 0
	case <-d.ended:
	case <-ctx.Done():
	}
	return false
}

// SkipDrain ends limits.drain_delay of a stop, also of one that is still to come. It
// reports whether it did: not if the delay has passed or was skipped before.
func (a *App) SkipDrain() bool { return a.delay.skip() }

// closing makes each answer that begins while sidestep stops the last one of its
// connection: an HTTP/1.1 client is told so by the header, an HTTP/2 client by GOAWAY,
// which net/http makes of the header.
func (a *App) closing(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		next(&closingWriter{ResponseWriter: w, draining: &a.draining}, r)
	}
}

// closingWriter decides as late as it can be done: requests that have been under way
// for longer than the drain are answered on connections that are given up next.
type closingWriter struct {
	http.ResponseWriter
	draining *atomic.Bool
}

// WriteHeader implements http.ResponseWriter. The data plane calls it for each answer.
func (w *closingWriter) WriteHeader(status int) {
	if status >= http.StatusOK && w.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the server's writer.
func (w *closingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// drainingListener stops taking connections before the server shuts down: net/http
// answers no request whose head it reads after [http.Server.Shutdown] has begun, not
// even the first one of a connection.
type drainingListener struct {
	net.Listener
	closed  chan struct{} // by Close
	closing sync.Once
	linger  atomic.Int64 // ns: from Close to the moment when the server closes idle connections
}

func newDrainingListener(l net.Listener) *drainingListener {
	return &drainingListener{Listener: l, closed: make(chan struct{})}
}

// Accept implements net.Listener. It returns the end only after Close, as the server
// counts on it.
func (l *drainingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if errors.Is(err, net.ErrClosed) {
		<-l.closed
		time.Sleep(time.Duration(l.linger.Load()))
	}
	return conn, err
}

// Close implements net.Listener.
func (l *drainingListener) Close() error {
	l.closing.Do(func() { close(l.closed) })
	if err := l.Listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil // drain has closed it
}

// drain takes no new connection and answers the last requests on those there are.
func (l *drainingListener) drain(ctx context.Context) {
	_ = l.Listener.Close()
	timer := time.NewTimer(lastRequests)
	defer timer.Stop()
	select {
	case <-timer.C:
		l.linger.Store(int64(lastFrames))
	case <-ctx.Done():
	}
}
