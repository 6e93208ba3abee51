//go:build linux && !race && !386

package rawsocket

import (
	"syscall"
	"unsafe"
)

// read reads from a socket that does not block.
func read(fd uintptr, p []byte) (int, error) { return call(syscall.SYS_READ, fd, p, 0) }

// write writes to a socket that does not block.
func write(fd uintptr, p []byte) (int, error) { return call(syscall.SYS_WRITE, fd, p, 0) }

func peek(fd uintptr) (int, error) {
	var b [1]byte
	return call(syscall.SYS_RECVFROM, fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
}

// call makes a system call that takes a socket, a buffer with its length, and flags.
func call(number, fd uintptr, p []byte, flags uintptr) (int, error) {
	for {
		n, _, err := syscall.RawSyscall6(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), flags, 0, 0) //nolint:gosec // as package syscall does
		switch err {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, err
		}
	}
}
