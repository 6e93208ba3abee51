package simcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Node is one node of a cluster: a data node and a coordinating node.
type Node struct {
	cluster *Cluster
	number  int
	id      string
	name    string
	addr    string // host:port, kept over Refuse and Kill

	condition atomic.Pointer[condition]
	life      atomic.Pointer[life]
	searches  atomic.Int64
	published atomic.Pointer[string] // nil: addr

	mu       sync.Mutex // guards server and listener, nil while closed, and addr while it opens
	server   *http.Server
	listener net.Listener
	reserved io.Closer // the port, until the cluster stops

	gets atomic.Int64

	turning sync.Mutex
	turns   map[shardRef]uint32
}

// life is what a node loses when its process ends.
type life struct {
	ctx    context.Context //nolint:containedctx // ends when the node is killed
	cancel context.CancelFunc
	since  time.Time
	pool   *pool
	seen   *collector
	counts counts
	tasks  atomic.Int64 // of the management pool
	usage  usage
}

func newNode(c *Cluster, i int) *Node {
	name := fmt.Sprintf("node-%d", i+1)
	n := &Node{
		cluster: c, number: i, name: name, turns: map[shardRef]uint32{},
		id: fmt.Sprintf("sim_%08x-%09d", hash(name), i+1), // 22 characters, as real ids
	}
	n.condition.Store(&condition{changed: make(chan struct{})})
	n.life.Store(n.newLife())
	return n
}

func (n *Node) newLife() *life {
	l := &life{
		since: time.Now(),
		pool:  &pool{threads: n.cluster.opts.Threads, bound: n.cluster.opts.QueueSize},
		seen:  newCollector(n.cluster.opts.Engine == OpenSearch),
	}
	l.usage.since = l.since
	l.ctx, l.cancel = context.WithCancel(n.cluster.ctx)
	return l
}

// ID returns the node id, as in preferences and _cat/shards.
func (n *Node) ID() string { return n.id }

// Name returns the node name.
func (n *Node) Name() string { return n.name }

// URL returns where the node serves HTTP: http://127.0.0.1:PORT.
func (n *Node) URL() string { return "http://" + n.addr }

// SetPublishAddress makes the cluster tell host:port as the address of the node, for a
// node that is reached through something else, such as a proxy that terminates TLS.
func (n *Node) SetPublishAddress(address string) { n.published.Store(&address) }

func (n *Node) publishAddress() string {
	if p := n.published.Load(); p != nil {
		return *p
	}
	return n.addr
}

// Handler answers what the node's address does, for those who need no network.
func (n *Node) Handler() http.Handler { return http.HandlerFunc(n.serveHTTP) }

// Searches returns how many shard queries the node has served since the cluster
// started. Restarts do not reset it.
func (n *Node) Searches() int64 { return n.searches.Load() }

// Gets returns how many documents the node has read by id since the cluster
// started, likewise.
func (n *Node) Gets() int64 { return n.gets.Load() }

// Alive reports whether the node is in the cluster.
func (n *Node) Alive() bool { return n.life.Load().ctx.Err() == nil }

// SetFault puts a fault in force at once, also for requests under way; the zero
// Fault ends it. It panics if the listener of a node that was refusing cannot be
// opened again.
func (n *Node) SetFault(f Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.replaceFault(f)
	if f.Refuse {
		n.closeLocked()
		return
	}
	if n.Alive() && n.server == nil {
		if err := n.openLocked(); err != nil {
			panic(err)
		}
	}
}

func (n *Node) replaceFault(f Fault) {
	n.life.Load().usage.change(n.fault(), time.Now())
	old := n.condition.Swap(&condition{Fault: f, changed: make(chan struct{})})
	close(old.changed)
}

// Kill ends the node as kill -9 does: its connections break, what it was serving
// fails, it leaves the cluster; replicas elsewhere become primaries.
func (n *Node) Kill() {
	n.life.Load().cancel()
	n.close()
	n.replaceFault(Fault{})
	c := n.cluster
	_ = c.change(func(s *state) (*state, error) { return s.withoutNode(n.id), nil }) // never fails
	for _, other := range c.nodes {
		other.life.Load().seen.forget(n.id)
	}
}

// Return starts a killed node again: same id and address, counters at zero, no
// fault. It joins, and recovers unassigned copies within Options.RecoveryTime.
func (n *Node) Return() error {
	if n.Alive() {
		return fmt.Errorf("return %s: it is alive", n.name)
	}
	n.replaceFault(Fault{})
	n.life.Store(n.newLife())
	var recovering []allocation
	_ = n.cluster.change(func(s *state) (next *state, err error) {
		next, recovering = s.withNode(n.id)
		return next, nil
	})
	n.cluster.recover(recovering...)
	return n.open()
}

func (n *Node) open() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.openLocked()
}

func (n *Node) openLocked() error {
	ln, err := n.listen()
	if err != nil {
		return fmt.Errorf("listen for %s: %w", n.name, err)
	}
	if n.addr == "" {
		n.addr = ln.Addr().String()
	}
	life := n.life.Load()
	server := &http.Server{
		Handler:           http.HandlerFunc(n.serveHTTP),
		BaseContext:       func(net.Listener) context.Context { return life.ctx },
		ReadHeaderTimeout: time.Minute,
	}
	n.server, n.listener = server, ln
	started := n.cluster.background(func() {
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			n.cluster.opts.Logger.Error("simulated node stopped serving", "node", n.name, "error", err)
		}
	})
	if !started {
		return errors.Join(errStopped, ln.Close())
	}
	return nil
}

// listen takes a port below those that the system hands out for outgoing
// connections, and that the tests give to real engines, so that a node that gave
// its port up can have it back.
func (n *Node) listen() (ln net.Listener, err error) {
	if n.addr != "" {
		return new(net.ListenConfig).Listen(n.cluster.ctx, "tcp", n.addr)
	}
	for range 100 {
		n.cluster.chance.Lock()
		port := 12000 + (int(time.Now().UnixNano()/1000)+n.cluster.rng.IntN(8000))%8000
		n.cluster.chance.Unlock()
		if ln, n.reserved, err = take(n.cluster.ctx, port); err == nil {
			return ln, nil
		}
	}
	return nil, err
}

// take listens on a port, and reserves it: until that is closed no other node gets
// it, be it of another process, though nothing listens. It holds the UDP port of
// that number.
func take(ctx context.Context, port int) (ln net.Listener, reserved io.Closer, err error) {
	var lc net.ListenConfig
	address := fmt.Sprintf("127.0.0.1:%d", port)
	if reserved, err = lc.ListenPacket(ctx, "udp", address); err != nil {
		return nil, nil, err
	}
	if ln, err = lc.Listen(ctx, "tcp", address); err != nil {
		return nil, nil, errors.Join(err, reserved.Close())
	}
	return ln, reserved, nil
}

func (n *Node) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closeLocked()
}

func (n *Node) closeLocked() {
	if n.server == nil {
		return
	}
	_ = n.server.Close() // the connections are to break
	// A server that has not begun to serve does not know its listener yet.
	_ = n.listener.Close()
	n.server, n.listener = nil, nil
}

// turn rotates the copies of a shard: it grows by one with each call.
func (n *Node) turn(ref shardRef) uint32 {
	n.turning.Lock()
	defer n.turning.Unlock()
	at, ok := n.turns[ref]
	if !ok {
		at = hash(ref.String() + n.name)
	}
	n.turns[ref] = at + 1
	return at
}
