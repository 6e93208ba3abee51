package leg

import (
	"context"
	"slices"
	"time"
)

// wait is the wait of a message for a connection. One is made for it, and it gets that one, or before that the
// first that another message gives back, or that was made for one that has left. What is being made for a
// message that has left, or got another one, is spare: it is for the next, unless as many are being made as the pool keeps. So
// handshakes are not in vain while messages are given up, and one that takes long keeps none waiting.
type wait struct {
	got    chan arrival // of one
	cancel func()       // ends what is being made for it
}

// arrival is what a wait ends with.
type arrival struct {
	conn *conn
	err  *failure
}

// Idle reports whether a message would find a connection at once.
func (p *Pool) Idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle) > 0
}

// claim returns the idle connection that became idle last, or if there is none, or it is to be fresh, a wait for one.
func (p *Pool) claim(fresh bool) (*conn, *wait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; last >= 0 && !fresh {
		c := p.idle[last]
		p.idle[last] = nil
		p.idle = p.idle[:last]
		return c, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &wait{got: make(chan arrival, 1), cancel: cancel}
	p.waits = append(p.waits, w)
	go func() {
		c, err := p.dial(ctx)
		cancel()
		p.made(w, arrival{conn: c, err: err})
	}()
	return nil, w
}

// await returns what w ends with, or why m ended before.
func (p *Pool) await(m *Message, w *wait) (*conn, *failure) {
	left := make(chan struct{})
	m.Abort.watch(func() { close(left) })
	defer m.Abort.watch(nil)
	select {
	case a := <-w.got:
		if !m.Abort.happened() {
			return a.conn, a.err
		}
		p.giveBack(a)
	case <-left:
		p.leave(w)
	}
	return nil, &failure{doing: "connect", err: context.Canceled, notSent: true}
}

// leave ends a wait early.
func (p *Pool) leave(w *wait) {
	p.mu.Lock()
	waits := p.drop(w)
	if waits {
		p.spare(w)
	}
	p.mu.Unlock()
	if !waits {
		p.giveBack(<-w.got)
	}
}

// giveBack keeps what nobody waits for any more.
func (p *Pool) giveBack(a arrival) {
	if a.err == nil {
		p.put(a.conn)
	}
}

// drop ends w, and reports whether it had not ended before. The caller holds the lock.
func (p *Pool) drop(w *wait) bool {
	i := slices.Index(p.waits, w)
	if i >= 0 {
		p.waits = slices.Delete(p.waits, i, i+1)
	}
	return i >= 0
}

// spare says that w does not need what is being made for it. The caller holds the lock.
func (p *Pool) spare(w *wait) {
	if p.closed || len(p.spares) >= p.o.MaxIdle {
		w.cancel()
		return
	}
	p.spares[w] = struct{}{}
}

// hand gives c to the message that has waited longest, if there is one. The caller holds the lock.
func (p *Pool) hand(c *conn) bool {
	if len(p.waits) == 0 {
		return false
	}
	w := p.waits[0]
	p.drop(w)
	p.spare(w)
	w.got <- arrival{conn: c}
	return true
}

// made takes in what came of the connection that was made for w.
func (p *Pool) made(w *wait, a arrival) {
	p.mu.Lock()
	waits := p.drop(w)
	delete(p.spares, w)
	p.mu.Unlock()
	if waits {
		w.got <- a
	} else {
		p.giveBack(a)
	}
}

// put keeps c for the next message, unless there are MaxIdle already. One that waits gets it at once.
func (p *Pool) put(c *conn) {
	c.idleSince = time.Now()
	p.mu.Lock()
	kept := p.hand(c)
	if !kept && !p.closed && len(p.idle) < p.o.MaxIdle {
		kept = true
		p.idle = append(p.idle, c)
		if p.o.IdleTimeout > 0 && !p.armed {
			p.arm(p.o.IdleTimeout)
		}
	}
	p.mu.Unlock()
	if !kept {
		c.abort()
	}
}
