//go:build unix

package leg

import (
	"net"
	"syscall"

	"sidestep/internal/rawsocket"
)

// watched looks at a connection without taking anything from it.
type watched struct {
	raw  syscall.RawConn // nil: it cannot be looked at
	look func(fd uintptr)
	peek *peek
	turn *turn
}

type peek struct {
	none bool // there is nothing to read, and it may still come
}

// watch returns the socket of nc.
func watch(nc net.Conn) watched {
	s, ok := nc.(syscall.Conn)
	if !ok {
		return watched{}
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return watched{}
	}
	p, t := &peek{}, &turn{}
	t.step = t.at
	return watched{raw: raw, peek: p, look: p.at, turn: t}
}

func (p *peek) at(fd uintptr) { p.none = !rawsocket.Readable(fd) }

// readable reports whether reading would not wait: there are bytes, the end of the
// connection, or an error.
func (s watched) readable() bool {
	if s.raw == nil {
		return false
	}
	s.peek.none = false
	err := s.raw.Control(s.look)
	return err != nil || !s.peek.none
}

// turn is a write, and the wait for what is answered to it.
type turn struct {
	step    func(fd uintptr) (done bool)
	out     []byte
	pooled  bool // anything that can be read before out is written makes it stale
	stale   bool
	written bool
	wrote   int
}

// at is called when the connection is first looked at, and when something can be read
// from it.
func (t *turn) at(fd uintptr) (done bool) {
	if t.written {
		return true
	}
	// Looked at from here nothing is missed: what comes later is told of.
	if t.pooled && rawsocket.Readable(fd) {
		t.stale = true
		return true
	}
	wrote, err := rawsocket.Write(fd, t.out)
	t.wrote, t.written = max(wrote, 0), err == nil && wrote == len(t.out)
	return !t.written
}

// send writes out and waits until something can be read, or reading fails. To read at
// once would look for an answer that is never there. What is not written when it returns
// is left to the caller, who meets the error if there is one. A pooled connection that is
// stale is not written to: errStale.
func (s watched) send(out []byte, pooled bool) (wrote int, err error) {
	t := s.turn
	*t = turn{step: t.step, out: out, pooled: pooled}
	_ = s.raw.Read(t.step) // reading meets the error
	t.out = nil
	if t.stale {
		return 0, errStale
	}
	return t.wrote, nil
}

// sends reports whether send can be called.
func (s watched) sends() bool { return s.raw != nil }
