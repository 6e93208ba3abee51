//go:build unix

package leg

import (
	"net"
	"syscall"
)

// socket looks at a connection without taking anything from it.
type socket struct {
	raw  syscall.RawConn // nil: it cannot be looked at
	look func(fd uintptr)
	peek *peek
}

type peek struct {
	b    [1]byte
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
	p := &peek{}
	return socket{raw: raw, peek: p, look: p.at}
}

func (p *peek) at(fd uintptr) {
	_, _, err := syscall.Recvfrom(int(fd), p.b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	p.none = err == syscall.EAGAIN
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
