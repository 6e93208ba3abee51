//go:build unix

package proxy

import (
	"errors"
	"net"
	"syscall"
)

// closedByPeer reports whether the other side has closed or reset c, as far as
// this machine knows. It takes nothing from the connection and does not wait.
func closedByPeer(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err == nil {
			closed = n == 0
		} else {
			closed = !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
		}
	})
	return err != nil || closed // closed on this side: the transport has noticed
}
