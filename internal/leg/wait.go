package leg

import (
	"context"
	"slices"
	"sync"
	"time"
)

// wait is the wait of a message for a connection. Each has one made, and gets the first that another message gives
// back, or that is made. What is made for a message that has left, or got another one, is for the next. So no
// TLS handshake is in vain while messages are given up, and one that takes long keeps none waiting for longer
// than the others take.
type wait struct {
	since time.Time
	got   chan arrival // of one
}

// arrival is what a wait ends with.
type arrival struct {
	conn *conn
	err  *failure
}

// claim returns the idle connection that became idle last, or if there is none a wait for one; neither when
// the pool is closed.
func (p *Pool) claim() (*conn, *wait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; last >= 0 {
		c := p.idle[last]
		p.idle[last] = nil
		p.idle = p.idle[:last]
		return c, nil
	}
	if p.closed {
		return nil, nil
	}
	w := &wait{since: time.Now(), got: make(chan arrival, 1)}
	p.waits = append(p.waits, w)
	if p.making < len(p.waits)+max(0, p.o.MaxIdle) { // more would not be kept
		p.making++
		go p.make()
	}
	return nil, w
}

// await returns what w ends with, or why m ended before.
func (p *Pool) await(ctx context.Context, m *Message, w *wait) (*conn, *failure) {
	left := make(chan struct{})
	m.Abort.watch(sync.OnceFunc(func() { close(left) }))
	defer m.Abort.watch(nil)
	select {
	case a := <-w.got:
		return a.conn, a.err
	case <-ctx.Done():
	case <-left:
	}
	p.leave(w)
	return nil, &failure{doing: "connect", err: m.ended(ctx), notSent: true}
}

// leave ends a wait early.
func (p *Pool) leave(w *wait) {
	p.mu.Lock()
	i := slices.Index(p.waits, w)
	if i >= 0 {
		p.waits = slices.Delete(p.waits, i, i+1)
	}
	p.mu.Unlock()
	if i >= 0 {
		return
	}
	if a := <-w.got; a.err == nil {
		p.put(a.conn)
	}
}

// hand ends the oldest wait, if there is one. The caller holds the lock.
func (p *Pool) hand(a arrival) bool {
	if len(p.waits) == 0 {
		return false
	}
	p.waits[0].got <- a
	p.waits = slices.Delete(p.waits, 0, 1)
	return true
}

// make makes a connection for those who wait.
func (p *Pool) make() {
	for {
		began := time.Now()
		c, err := p.dial(p.dialing)
		if !p.made(c, err, began) {
			return
		}
	}
}

// made takes in what came of a connection. If it failed, but all who wait came after it was begun, it is no reason
// for them: again reports that another one is to be made, as there is none for each of them.
func (p *Pool) made(c *conn, err *failure, began time.Time) (again bool) {
	p.mu.Lock()
	p.making--
	taken := false
	switch {
	case err == nil || len(p.waits) > 0 && !p.waits[0].since.After(began):
		taken = p.hand(arrival{conn: c, err: err})
	case p.making < len(p.waits):
		p.making++
		again = true
	}
	p.mu.Unlock()
	if err == nil && !taken {
		p.put(c)
	}
	return again
}

// put keeps c for the next message, unless there are MaxIdle already. One that waits gets it at once.
func (p *Pool) put(c *conn) {
	c.since = time.Now()
	p.mu.Lock()
	if p.closed || len(p.idle) >= p.o.MaxIdle && len(p.waits) == 0 {
		p.mu.Unlock()
		c.abort()
		return
	}
	if !p.hand(arrival{conn: c}) {
		p.idle = append(p.idle, c)
		if p.o.IdleTimeout > 0 && !p.armed {
			p.arm(p.o.IdleTimeout)
		}
	}
	p.mu.Unlock()
}
