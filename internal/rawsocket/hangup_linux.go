package rawsocket

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

// edge is EPOLLET, which package syscall declares with the wrong sign: each end of a
// connection is told of once.
const edge = 1 << 31

// Hangups tells when the other ends of connections close them, or only their own side. One
// goroutine waits for all connections. Go's poller tells of that only a goroutine that reads,
// and one for each connection would take 8 KiB.
type Hangups struct {
	file *os.File // of epoll
	raw  syscall.RawConn
	done chan struct{}

	mu   sync.Mutex
	tell map[int32]func() // what is called, by the number of the socket
}

// NewHangups returns a Hangups that watches no connection yet. It must be closed.
func NewHangups() (*Hangups, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch connections: %w", os.NewSyscallError("epoll_create1", err))
	}
	_ = syscall.SetNonblock(fd, true) // so that Go's poller waits for it, and no thread
	h := &Hangups{file: os.NewFile(uintptr(fd), "epoll"), done: make(chan struct{}), tell: map[int32]func(){}}
	if h.raw, err = h.file.SyscallConn(); err != nil {
		_ = h.file.Close()
		return nil, fmt.Errorf("watch connections: %w", err)
	}
	go h.run()
	return h, nil
}

// Watch has f called when the other end of c closes it, or its own side. Then there may still
// be something to read. f may be called once more than needed; it must not wait. Watch
// reports whether it can be done: not if h is nil or closed, or the system has no room for it.
func (h *Hangups) Watch(c *Conn, f func()) (watched bool) {
	if h == nil {
		return false
	}
	_ = c.raw.Control(func(socket uintptr) {
		h.mu.Lock()
		h.tell[int32(socket)] = f //nolint:gosec // descriptors are small
		h.mu.Unlock()
		event := syscall.EpollEvent{Events: syscall.EPOLLRDHUP | edge, Fd: int32(socket)} //nolint:gosec // as above
		var refused error
		err := h.raw.Control(func(epoll uintptr) {
			refused = syscall.EpollCtl(int(epoll), syscall.EPOLL_CTL_ADD, int(socket), &event)
		})
		if watched = err == nil && refused == nil; !watched {
			h.forget(socket)
		}
	})
	return watched
}

// Forget ends the watching of c. It must be called before c is closed.
func (h *Hangups) Forget(c *Conn) {
	if h != nil {
		_ = c.raw.Control(h.forget) // an error: c is closed
	}
}

// forget has the number of a socket mean nothing. epoll itself forgets what is closed.
func (h *Hangups) forget(socket uintptr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.tell, int32(socket)) //nolint:gosec // descriptors are small
}

// Close ends all watching. When it returns no function is called any more.
func (h *Hangups) Close() error {
	if h == nil {
		return nil
	}
	err := h.file.Close()
	<-h.done
	return err
}

// run calls the functions until h is closed, or Go's poller does not take it: then Watch must
// not promise anything either.
func (h *Hangups) run() {
	defer close(h.done)
	defer func() { _ = h.file.Close() }()
	var events [64]syscall.EpollEvent
	for {
		n := 0
		err := h.raw.Read(func(epoll uintptr) (done bool) {
			n, _ = syscall.EpollWait(int(epoll), events[:], 0)
			return n != 0
		})
		if err != nil {
			return
		}
		for _, e := range events[:max(n, 0)] { // -1: a signal came
			h.mu.Lock()
			f := h.tell[e.Fd]
			h.mu.Unlock()
			if f != nil {
				f()
			}
		}
	}
}
