package proxy

import (
	"context"
	"time"
)

// unwatched is how long a search runs before its client is watched for leaving. Most
// searches are answered sooner, and watching costs more than checking once.
const unwatched = 50 * time.Millisecond

// watchClient aborts the attempts when the client leaves. That closes the connections,
// which cancels the search on the engine. x.mu is held.
func (x *exchange) watchClient() {
	if x.unwatch == nil {
		x.refs.Add(1)
		x.unwatch = context.AfterFunc(x.r.Context(), x.leave)
	}
}

// leave aborts all attempts, on a goroutine of its own.
func (x *exchange) leave() {
	defer x.release()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, t := range x.tries {
		t.message.Abort.Now()
	}
}

// watch is watchClient, unless the hedge's timer will call it: that is while the timer
// may run and no attempt has answered.
func (x *exchange) watch() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.armed {
		x.watchClient()
	}
}

// done is called when the handler returns.
func (x *exchange) done() {
	x.dismiss(nil)
	x.mu.Lock()
	if x.unwatch != nil && x.unwatch() {
		x.refs.Add(-1)
	}
	x.mu.Unlock()
	x.release()
}
