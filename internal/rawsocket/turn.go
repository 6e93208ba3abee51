//go:build unix

package rawsocket

import (
	"errors"
	"syscall"
)

// turn is a look at a connection, or a write and the wait for what is answered to it. Its functions are made once.
type turn struct {
	look     func(fd uintptr)
	readable bool

	step    func(fd uintptr) (done bool)
	out     []byte
	idle    bool // anything that can be read before out is written makes it stale
	stale   bool
	written bool
	wrote   int
}

// own returns the turn of c.
func (c *Conn) own() *turn {
	if c.turn == nil {
		t := &turn{}
		t.look, t.step = t.peek, t.send
		c.turn = t
	}
	return c.turn
}

// Readable reports whether reading would not wait: there are bytes, the end of the connection, or an error. It takes nothing from
// the connection. Neither it nor Send may be called by several goroutines at the same time.
func (c *Conn) Readable() bool {
	t := c.own()
	t.readable = true
	_ = c.raw.Control(t.look) // an error: it was closed on this side, and reading meets that
	return t.readable
}

func (t *turn) peek(fd uintptr) { t.readable = readable(fd) }

// readable is Readable of a socket.
func readable(fd uintptr) bool {
	_, err := peek(fd)
	return !errors.Is(err, syscall.EAGAIN)
}

// ErrStale says that a connection cannot be used: the other end has closed or reset it, or sent something unexpectedly.
var ErrStale = errors.New("the connection was closed, or not idle")

// Send writes p and waits until something can be read, or reading fails. To read at once would look for an answer that is never
// there. What is not written when it returns is left to the caller, which meets the error if there is one. If nothing was to come
// on c before, as it was idle, but has, nothing is written: [ErrStale].
func (c *Conn) Send(p []byte, idle bool) (wrote int, err error) {
	t := c.own()
	t.out, t.idle, t.stale, t.written, t.wrote = p, idle, false, false, 0
	_ = c.raw.Read(t.step) // reading meets the error
	t.out = nil
	if t.stale {
		return 0, ErrStale
	}
	return t.wrote, nil
}

// send is called when the connection is first looked at, and when something can be read
// from it.
func (t *turn) send(fd uintptr) (done bool) {
	if t.written {
		return true
	}
	// Looked at from here nothing is missed: what comes later is told of.
	if t.idle && readable(fd) {
		t.stale = true
		return true
	}
	wrote, err := write(fd, t.out)
	t.wrote, t.written = max(wrote, 0), err == nil && wrote == len(t.out)
	return !t.written
}
