package proxy

import (
	"context"
	"net/http"
	"time"

	"sidestep/internal/es"
)

// parting is how long what may change something goes on after its client has left: the engines carry out what has arrived,
// whoever waits for the answer. There are clients that wait for none.
const parting = time.Second

// changes reports whether the request may change something.
func (x *exchange) changes() bool {
	switch x.Method {
	case http.MethodPost:
		return x.steering() == es.SteerNone && x.Operation != es.Scroll
	case http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// watch has the attempts aborted when the client leaves. That closes the connections, which cancels the search on the
// engine. It reports whether they were.
func (x *exchange) watch() (aborted bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.unwatch == nil {
		x.refs.Add(1)
		x.unwatch = context.AfterFunc(x.r.Context(), x.leave)
	}
	return x.aborted
}

// leave is called when the client has left, on a goroutine of its own. It aborts all attempts: those at what may change
// something not at once.
func (x *exchange) leave() {
	if !x.changes() {
		x.abort()
		return
	}
	x.mu.Lock()
	over := x.unwatch == nil
	if !over {
		x.parts = time.AfterFunc(parting, x.abort)
	}
	x.mu.Unlock()
	if over { // the handler has returned
		x.release()
	}
}

func (x *exchange) abort() {
	defer x.release()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.aborted = true
	for _, t := range x.tries {
		t.message.Abort.Now()
	}
}

// goesOn reports whether the request is carried out although its client has left: it may change something, is there as a
// whole, and its time is not over. x.mu is held.
func (x *exchange) goesOn() bool {
	broken := x.stream != nil && (x.stream.gone.Load() || x.stream.stalled.Load())
	return x.changes() && !broken && !x.aborted
}

// done is called when the handler returns.
func (x *exchange) done() {
	x.dismiss(nil)
	x.mu.Lock()
	if x.unwatch != nil && x.unwatch() {
		x.refs.Add(-1)
	}
	x.unwatch = nil
	if x.parts != nil && x.parts.Stop() {
		x.refs.Add(-1)
	}
	x.mu.Unlock()
	x.release()
}
