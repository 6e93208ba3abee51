//go:build unix

// Package rawsocket reads and writes TCP connections without telling Go's scheduler of the
// system calls. It need not know: the sockets of package net never block. Telling it
// takes time, and while it is told all the time the runtime's monitor wakes up every
// 20 µs to look for system calls that do.
package rawsocket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Conn is a TCP connection. Its deadlines and its end are those of package net.
type Conn struct {
	*net.TCPConn
	raw     syscall.RawConn
	in, out transfer
	turn    *turn // nil until it is first needed
}

// transfer is the reading or the writing of a connection.
type transfer struct {
	mu   sync.Mutex // one at a time
	step func(fd uintptr) (done bool)
	p    []byte
	n    int
	err  error
}

// Of returns c with reads and writes of this package.
func Of(c *net.TCPConn) *Conn {
	raw, _ := c.SyscallConn() // no error: c is not nil
	s := &Conn{TCPConn: c, raw: raw}
	s.in.step, s.out.step = s.in.read, s.out.write
	return s
}

func (t *transfer) read(fd uintptr) (done bool) {
	t.n, t.err = read(fd, t.p)
	return !errors.Is(t.err, syscall.EAGAIN)
}

func (t *transfer) write(fd uintptr) (done bool) {
	for t.n < len(t.p) {
		n, err := write(fd, t.p[t.n:])
		if err != nil {
			t.err = err
			return !errors.Is(err, syscall.EAGAIN)
		}
		t.n += n
	}
	t.err = nil
	return true
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) > most {
		return c.TCPConn.Read(p)
	}
	n, err := c.transfer("read", &c.in, c.raw.Read, p)
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	if len(p) > most {
		return c.TCPConn.Write(p)
	}
	return c.transfer("write", &c.out, c.raw.Write, p)
}

// most is the length up to which a read or write is so short that the scheduler need not
// know: copying that much takes some 10 µs.
const most = 64 << 10

func (c *Conn) transfer(op string, t *transfer, run func(func(uintptr) bool) error, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.p, t.n, t.err = p, 0, nil
	err := run(t.step)
	t.p = nil
	var ended *net.OpError
	switch {
	case errors.As(err, &ended): // a deadline, or the connection was closed
		err = ended.Err
	case err == nil && t.err != nil:
		err = os.NewSyscallError(op, t.err)
	}
	if err != nil {
		err = &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
	}
	return max(t.n, 0), err
}

// Ended reports whether the other end has closed or reset the connection, and everything
// that it sent was read. It reads nothing, and does not wait.
func (c *Conn) Ended() (ended bool) {
	_ = c.raw.Control(func(fd uintptr) { // an error: it was closed on this side
		n, err := peek(fd)
		ended = n <= 0 && !errors.Is(err, syscall.EAGAIN)
	})
	return ended
}
