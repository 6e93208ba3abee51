//go:build !unix

package app

import "net"

// share returns l: sockets are inherited on Unix only.
func share(l net.Listener) (net.Listener, error) { return l, nil }
