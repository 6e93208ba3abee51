package harness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports come from below the range the kernel hands out for outgoing connections
// (32768 and up on Linux): a node that restarts needs its port back, and no
// connection may have taken it meanwhile.
const (
	firstPort = 20000
	lastPort  = 32000
)

// freePort returns a loopback port nobody listens on.
func freePort() (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if portFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
}

func portFree(port int) bool {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", loopback(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
