//go:build unix && (!linux || race || 386)

package rawsocket

import "syscall"

// read reads from a socket that does not block. The race detector follows what passes
// through package syscall.
func read(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }

// write writes to a socket that does not block.
func write(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }

func peek(fd uintptr) (int, error) {
	var b [1]byte
	n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return n, err
}
