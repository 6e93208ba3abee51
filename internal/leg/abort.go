package leg

import (
	"context"
	"sync"
)

// Abort gives up a message from another goroutine: it costs less than a context of its
// own. The zero value is ready for one message.
type Abort struct {
	mu   sync.Mutex
	stop func() // closes the connection in use, or ends its making; nil: there is none
	over bool
}

// Now gives the message up. [Pool.Do] fails, or reading the answer does, with an error
// that wraps [context.Canceled].
func (a *Abort) Now() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if a.stop != nil {
		a.stop()
	}
}

// watch sets what giving the message up does from now on; it does so at once if that has
// happened.
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

// happened reports whether the message was given up.
func (a *Abort) happened() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.over
}

// ended returns why a message ended before its answer: its context, or that it was given
// up; nil if it is neither.
func (m *Message) ended(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case m.Abort.happened():
		return context.Canceled
	}
	return nil
}
