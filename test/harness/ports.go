package harness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Ports come from below the range the kernel hands out for outgoing connections
// (32768 and up on Linux): a node that restarts needs its port back, and no
// connection may have taken it meanwhile.
const (
	firstPort = 20000
	lastPort  = 32000
)

// freePort returns a loopback port nobody listens on. It is ours until this process ends: a
// node takes half a minute to listen on its port, and other clusters choose theirs meanwhile.
func freePort() (int, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("sidestep-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, fmt.Errorf("make the folder of ports in use: %w", err)
	}
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		reserved, err := reserve(filepath.Join(dir, strconv.Itoa(port)))
		if err != nil {
			return 0, fmt.Errorf("reserve port %d: %w", port, err)
		}
		if reserved && portFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
}

// reserve locks a file until this process ends. It reports whether nobody has locked it,
// which includes this process.
func reserve(path string) (bool, error) {
	file, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CREAT|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return false, err
	}
	if err := syscall.Flock(file, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return false, syscall.Close(file)
	}
	return true, nil
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
