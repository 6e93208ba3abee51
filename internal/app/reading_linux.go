package app

import (
	"net"

	"golang.org/x/sys/unix"
)

// States of a connection as Linux numbers them (tcp_states.h).
const (
	tcpClose     = 7
	tcpCloseWait = 8
)

// farEndOf returns the state of the other end of a connection that is open on this side.
// A system resets a connection when a socket is closed with unread data, and when data
// arrives after it was closed. A client that closes before everything has arrived does
// not acknowledge the rest.
func farEndOf(conn *net.TCPConn) (far farEnd) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return farOpen
	}
	_ = raw.Control(func(fd uintptr) { // an error: it is closed
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		switch {
		case err != nil:
		case info.State == tcpClose, info.State == tcpCloseWait && (info.Unacked > 0 || info.Notsent_bytes > 0):
			far = farUnread
		case info.State == tcpCloseWait:
			far = farRead
		}
	})
	return far
}
