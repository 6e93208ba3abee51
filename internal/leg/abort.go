package leg

import (
	"context"
	"sync"
)

// Abort aborts a message from another goroutine. It costs less than a context for each
// message. The zero value is ready for one message.
type Abort struct {
	mu   sync.Mutex
	stop func() // closes the connection in use, or stops making one; nil: there is none
	over bool
}

// Now aborts the message. [Pool.Do], or reading the answer, fails with an error that
// wraps [context.Canceled].
func (a *Abort) Now() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if a.stop != nil {
		a.stop()
	}
}

// watch sets what aborting the message does from now on. It is done at once if the
// message was aborted already.
func (a *Abort) watch(stop func()) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop = stop
	if a.over && stop != nil {
		stop()
	}
}

// happened reports whether the message was aborted.
func (a *Abort) happened() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.over
}

// ended returns why a message ended before its answer: the end of its context, or that it
// was aborted; nil if neither.
func (m *Message) ended(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case m.Abort.happened():
		return context.Canceled
	}
	return nil
}
