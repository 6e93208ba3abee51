package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// lastRequests is how long requests are still answered on open connections after
	// accepting ends: on connections that were accepted last, and on those whose last
	// answer began just before the drain.
	lastRequests = 500 * time.Millisecond
	// lastFrames is how long idle connections then stay open, so that HTTP/2 clients
	// receive GOAWAY before they send further requests.
	lastFrames = 100 * time.Millisecond
)

// delay is limits.drain_delay of one stop.
type delay struct {
	once  sync.Once
	ended chan struct{} // closed when it has passed, or was skipped
}

// skip ends the delay and reports whether it was still to pass.
func (d *delay) skip() (first bool) {
	d.once.Do(func() {
		close(d.ended)
		first = true
	})
	return first
}

// wait reports whether the delay has passed, be it of no length, without being skipped or ended by ctx.
func (d *delay) wait(ctx context.Context, length time.Duration) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.ended:
	case <-ctx.Done():
	}
	return d.skip() && ctx.Err() == nil
}

// SkipDrain ends limits.drain_delay of a stop, also of a later one. It reports whether it
// was still to pass.
func (a *App) SkipDrain() bool { return a.delay.skip() }

// closing makes each answer that begins while sidestep stops the last one of its
// connection. An HTTP/1.1 client is told by the header; for HTTP/2 net/http sends GOAWAY
// because of it.
func (a *App) closing(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a.requests.Add(1)
		defer a.requests.Add(-1)
		next(&closingWriter{w, a}, r)
	}
}

// awaitRequests waits until the requests end that were cut off: they are logged then, and a write goes on for a second.
func (a *App) awaitRequests() {
	for end := time.Now().Add(logGrace); a.requests.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// closingWriter decides when the answer begins, so that requests that take longer than
// the drain close their connections, too.
type closingWriter struct {
	http.ResponseWriter
	app *App
}

// WriteHeader implements http.ResponseWriter. The data plane calls it for each answer.
func (w *closingWriter) WriteHeader(status int) {
	if status >= http.StatusOK && !w.app.Serving() {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the server's writer.
func (w *closingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Close implements net.Listener.
func (l *patientListener) Close() error {
	if err := l.Listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil // drain has closed it
}

// drain accepts no new connection and answers the last requests on open ones, before the server shuts down: net/http
// answers no request of which it reads the head after [http.Server.Shutdown] has begun, not even the first one of a connection.
func (l *patientListener) drain(ctx context.Context) {
	_ = l.Listener.Close()
	timer := time.NewTimer(lastRequests)
	defer timer.Stop()
	select {
	case <-timer.C:
		l.linger.Store(int64(lastFrames))
	case <-ctx.Done():
	}
}
