//go:build !unix

package leg

import "net"

// socket cannot be looked at here without reading from it.
type socket struct{}

func watch(net.Conn) socket { return socket{} }

func (socket) readable() bool { return false }
