//go:build unix

package leg

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// socket looks at a connection without taking anything from it.
type socket struct {
	raw  syscall.RawConn // nil: it cannot be looked at
	look func(fd uintptr)
	peek *peek
	turn *turn
}

type peek struct {
	none bool // there is nothing to read, and it may still come
}

// watch returns the socket of nc.
func watch(nc net.Conn) socket {
	s, ok := nc.(syscall.Conn)
	if !ok {
		return socket{}
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return socket{}
	}
	p, t := &peek{}, &turn{}
	t.step = t.at
	return socket{raw: raw, peek: p, look: p.at, turn: t}
}

func (p *peek) at(fd uintptr) { p.none = !readable(fd) }

// readable reports whether reading would not wait.
func readable(fd uintptr) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return !errors.Is(err, syscall.EAGAIN)
}

// readable reports whether reading would not wait: there are bytes, the end of the
// connection, or an error.
func (s socket) readable() bool {
	if s.raw == nil {
		return false
	}
	s.peek.none = false
	err := s.raw.Control(s.look)
	return err != nil || !s.peek.none
}

// turn is a write and the read of what is answered to it.
type turn struct {
	step    func(fd uintptr) (done bool)
	out, in []byte
	pooled  bool // anything that can be read before out is written makes it stale
	stale   bool
	written bool
	wrote   int
	read    int
	err     error // of writing, while written is false, or of reading
}

// at is called when the connection is first looked at, and whenever something can be
// read from it.
func (t *turn) at(fd uintptr) (done bool) {
	if !t.written {
		// Looked at from here nothing is missed: what comes later is told of.
		if t.pooled && readable(fd) {
			t.stale = true
			return true
		}
		t.wrote, t.err = syscall.Write(int(fd), t.out)
		t.written = t.wrote == len(t.out)
		return !t.written
	}
	t.read, t.err = syscall.Read(int(fd), t.in)
	return !errors.Is(t.err, syscall.EAGAIN) && !errors.Is(t.err, syscall.EINTR)
}

// send writes out and waits for what comes then, of which it reads as much as fits into
// in. To write and to read one after the other would look for an answer at once, which
// is never there. It reports false if it did less than that: nothing is read then, and
// wrote bytes are written. A pooled connection that is stale is not written to: errStale.
func (s socket) send(out, in []byte, pooled bool) (wrote, read int, whole bool, err error) {
	t := s.turn
	*t = turn{step: t.step, out: out, in: in, pooled: pooled}
	err = s.raw.Read(t.step)
	t.out, t.in = nil, nil
	switch {
	case t.stale:
		return 0, 0, true, errStale
	case !t.written: // the caller goes on, and meets the error if there is one
		return max(t.wrote, 0), 0, false, nil
	case err != nil:
	case t.err != nil:
		err = os.NewSyscallError("read", t.err)
	case t.read == 0:
		err = io.EOF
	}
	return t.wrote, max(t.read, 0), true, err
}

// sends reports whether send can be called.
func (s socket) sends() bool { return s.raw != nil }
