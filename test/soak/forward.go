package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/test/harness"
)

// forwarder terminates TLS before a node and passes on the bytes.
type forwarder struct {
	listener net.Listener
	target   string // host:port
	config   *tls.Config
	down     atomic.Bool // handshakes fail

	work   sync.WaitGroup
	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{} // of clients and to the node
}

// newIdentity returns a certificate for 127.0.0.1 with its key, and the authority that
// signed it in PEM form.
func newIdentity() (identity tls.Certificate, authority []byte, err error) {
	own, err := harness.NewAuthority("soak")
	if err != nil {
		return identity, nil, err
	}
	certificate, key, err := own.Issue("soak")
	if err != nil {
		return identity, nil, err
	}
	identity, err = tls.X509KeyPair(certificate, key)
	return identity, own.PEM, err
}

var errDown = errors.New("TLS restarts")

// forward listens on a loopback address until stop.
func forward(ctx context.Context, target string, identity tls.Certificate) (*forwarder, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &forwarder{listener: listener, target: target, open: map[net.Conn]struct{}{}}
	f.config = &tls.Config{
		Certificates: []tls.Certificate{identity}, MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			if f.down.Load() {
				return nil, errDown
			}
			return nil, nil // as it is
		},
	}
	f.work.Go(f.accept)
	return f, nil
}

func (f *forwarder) address() string { return f.listener.Addr().String() }

func (f *forwarder) accept() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.work.Go(func() { f.handle(conn) })
	}
}

// handle passes on what one client and the node send until either goes away.
func (f *forwarder) handle(conn net.Conn) {
	if !f.add(conn) {
		return
	}
	defer f.drop(conn)
	client := tls.Server(conn, f.config)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if client.HandshakeContext(ctx) != nil {
		return
	}
	node, err := new(net.Dialer).DialContext(ctx, "tcp", f.target)
	if err != nil || !f.add(node) {
		return
	}
	defer f.drop(node)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, node) // whatever ends it, it is over
		_ = conn.Close()
	})
	_, _ = io.Copy(node, client)
	_ = node.Close()
	back.Wait()
}

// add takes a connection into those that a restart closes. It reports false, and closes
// it, if the forwarder has stopped.
func (f *forwarder) add(conn net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		_ = conn.Close()
		return false
	}
	f.open[conn] = struct{}{}
	return true
}

func (f *forwarder) drop(conn net.Conn) {
	_ = conn.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, conn)
}

// restart closes all connections and lets handshakes fail for a while.
func (f *forwarder) restart(ctx context.Context, outage time.Duration) {
	f.down.Store(true)
	defer f.down.Store(false)
	f.closeAll(false)
	_ = harness.Pause(ctx, outage)
}

func (f *forwarder) closeAll(forGood bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = f.closed || forGood
	for conn := range f.open {
		_ = conn.Close()
	}
}

func (f *forwarder) stop() {
	_ = f.listener.Close()
	f.closeAll(true)
	f.work.Wait()
}

// connections returns how many connections there are, of clients and to the node.
func (f *forwarder) connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open)
}
