package admin

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// eventInterval is how often clients of the stream get the status.
	eventInterval = time.Second
	// eventPatience is how long a client may take to read an event. A slower one is
	// disconnected and may connect again.
	eventPatience = 5 * time.Second
	// maxListeners bounds the pages that are open at once.
	maxListeners = 64
)

// events streams the status to all clients. It is made once an interval for all of them,
// and never while there is none.
type events struct {
	status func() Status
	quit   <-chan struct{}
	slots  chan struct{}

	mu    sync.Mutex
	frame []byte
	made  time.Time // the second of frame
}

func newEvents(status func() Status, quit <-chan struct{}) *events {
	return &events{status: status, quit: quit, slots: make(chan struct{}, maxListeners)}
}

// current returns the event of the second of now.
func (e *events) current(now time.Time) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	second := now.Truncate(eventInterval)
	if e.frame != nil && e.made.Equal(second) {
		return e.frame, nil
	}
	status, err := encode(e.status(), "")
	if err != nil {
		return nil, err
	}
	e.frame, e.made = slices.Concat([]byte("event: status\ndata: "), status, []byte("\n")), second
	return e.frame, nil
}

// ServeHTTP sends server-sent events until the client leaves, is too slow, or the
// listener stops.
func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many listeners", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Accel-Buffering", "no") // or a proxy in between would gather events
	if r.Method == http.MethodHead {
		return
	}
	for {
		if !e.send(w) {
			return
		}
		next := time.NewTimer(untilNext(time.Now()))
		select {
		case <-next.C:
		case <-r.Context().Done():
			next.Stop()
			return
		case <-e.quit:
			next.Stop()
			return
		}
	}
}

// untilNext returns the time from now to the next event. All clients wait for the same
// moment, a little after the second begins.
func untilNext(now time.Time) time.Duration {
	const after = 10 * time.Millisecond // clocks and timers do not agree to the microsecond
	return now.Truncate(eventInterval).Add(eventInterval + after).Sub(now)
}

// send writes one event and reports whether the client read it.
func (e *events) send(w http.ResponseWriter) bool {
	frame, err := e.current(time.Now())
	if err != nil {
		return false
	}
	control := http.NewResponseController(w)
	if control.SetWriteDeadline(time.Now().Add(eventPatience)) != nil {
		return false // a client that cannot be disconnected is not served
	}
	if _, err := w.Write(frame); err != nil {
		return false
	}
	return control.Flush() == nil
}
