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

// farEndOf looks at the other end of a connection that is not closed here. To close a
// socket that has something unread resets the connection, and so does what comes to a
// socket after it was closed. Who closes before all has arrived does not acknowledge it.
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
