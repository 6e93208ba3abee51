package leg

import (
	"context"
	"sync"
)

// Abort aborts a message from another goroutine, at whatever stage it is. It costs less than a
// context for each message. The zero value is ready.
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
	if a.over {
		return
	}
	a.over = true
	if a.stop != nil {
		a.stop()
	}
}

// watch sets what aborting the message does from now on, once. It is done at once if the
// message was aborted already.
func (a *Abort) watch(stop func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop = stop
	if a.over && stop != nil {
		stop()
	}
}

// happened reports whether the message was aborted.
func (a *Abort) happened() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.over
}

// because returns why what m was waiting for ended with err: as m was aborted, or of itself.
func (m *Message) because(err error) error {
	if m.Abort.happened() {
		return context.Canceled
	}
	return err
}
