//go:build unix

package app

import (
	"net"
	"syscall"
)

// sharedListener is a listener of a socket that other processes have, too. Whether an accept
// on it may block is a flag of the socket, which all share: a supervisor that starts another
// process with it, as systemd does, sets it to blocking. An accept that then waited in the
// system for a connection would keep Close, and so the end of sidestep, waiting. That can
// still happen if the socket becomes blocking within an accept and another process takes the
// connection that woke it: two processes have to serve it while a third is started.
type sharedListener struct {
	net.Listener
	socket syscall.RawConn
}

// share returns l with accepts that do not block.
func share(l net.Listener) (net.Listener, error) {
	socket, err := l.(syscall.Conn).SyscallConn() // net.FileListener returns no other kind
	if err != nil {
		return nil, err
	}
	return &sharedListener{l, socket}, nil
}

// Accept implements net.Listener.
func (l *sharedListener) Accept() (net.Conn, error) {
	// An error is that of a closed socket, which the accept returns as well.
	_ = l.socket.Control(func(fd uintptr) { _ = syscall.SetNonblock(int(fd), true) })
	return l.Listener.Accept()
}
