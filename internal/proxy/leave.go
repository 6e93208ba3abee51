package proxy

import (
	"context"
	"time"
)

// unwatched is for how long a search is not given up when its client leaves: most are
// answered sooner, and to be told costs more than to look.
const unwatched = 50 * time.Millisecond

// quietContext is the context of a request that tells nobody when it ends: who wants to
// know looks, or waits for watchClient to give up the attempts.
type quietContext struct{ context.Context } //nolint:containedctx // it is one

// Done implements context.Context.
func (*quietContext) Done() <-chan struct{} { return nil }

// watchClient has the attempts given up when the client leaves: the connections are
// closed, which cancels the search on the engine. x.mu is held.
func (x *exchange) watchClient() {
	if x.unwatch == nil {
		x.refs.Add(1)
		x.unwatch = context.AfterFunc(x.r.Context(), x.leave)
	}
}

// leave gives up all attempts, on a goroutine of its own.
func (x *exchange) leave() {
	defer x.release()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, t := range x.tries {
		t.abort.Now()
	}
}

// watch is watchClient unless the timer will see to it, which it does while it may run and
// no attempt has answered.
func (x *exchange) watch() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.armed || x.over {
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
