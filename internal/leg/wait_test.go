package leg

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// giveUp sends a message and gives it up once the node has been connected to.
func giveUp(t *testing.T, n *node, p *Pool) {
	t.Helper()
	before := n.accepted.Load()
	m, abort := abortable(get())
	go func() {
		for n.accepted.Load() == before {
			time.Sleep(time.Millisecond)
		}
		abort()
	}()
	_, err := p.Do(m)
	requireAborted(t, err)
	require.True(t, NotSent(err))
}

// ticketsLast is a server's connection below TLS that holds back the last record of its handshake, until the
// client's is over: many servers send tickets only then.
type ticketsLast struct {
	net.Conn
	held  []byte
	shook bool
}

func (c *ticketsLast) Write(p []byte) (int, error) {
	if c.shook {
		return c.Conn.Write(p)
	}
	last := 0
	for from := 0; from < len(p); from += 5 + int(p[from+3])<<8 + int(p[from+4]) {
		last = from
	}
	c.held = append(c.held, p[last:]...)
	n, err := c.Conn.Write(p[:last])
	return n + len(p) - last, err
}

func (c *ticketsLast) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if len(c.held) > 0 && !c.shook {
		c.shook = true
		_, _ = c.Conn.Write(c.held)
	}
	return n, err
}

// What is made for a message that was given up is for the next one.
func TestNoHandshakeIsInVain(t *testing.T) {
	shake, goOn := context.WithCancel(t.Context())
	n := start(t, serving(), func(p *peer) {
		<-shake.Done()
		answering(hello)(p)
	})
	p := n.pool(nil)
	giveUp(t, n, p)
	giveUp(t, n, p)
	goOn()
	require.Eventually(t, func() bool { return p.kept() == 2 }, patience, time.Millisecond)
	held := hold(t, p, 2)
	require.EqualValues(t, 2, n.accepted.Load())
	for _, resp := range held {
		finish(t, resp)
	}
}

// Tickets that come after the handshake do not make a connection stale that was never used.
func TestTicketsAreNoAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	p := New(Options{Address: l.Addr().String(), Dial: dial, HandshakeTimeout: patience, MaxIdle: 1, TLS: trusting()})
	p.o.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(1) // a server of Go sends none else
	t.Cleanup(p.Close)
	m, abort := abortable(get())
	given := make(chan error, 1)
	go func() {
		_, err := p.Do(m)
		given <- err
	}()
	c, err := l.Accept()
	require.NoError(t, err)
	abort()
	requireAborted(t, <-given)
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer c.Close()
		answering(hello)(newPeer(&node{}, tls.Server(&ticketsLast{Conn: c}, serving()), 1))
	}()
	require.Eventually(t, func() bool { return p.kept() == 1 }, patience, time.Millisecond)
	arrived(t, p)
	_, body := ask(t, p, get())
	require.Equal(t, "hello", body)
	require.Equal(t, 1, p.kept())
	p.Close()
	<-served
}

// What nobody waits for is bounded, and ends with the pool.
func TestSparesAreBounded(t *testing.T) {
	n := start(t, serving(), func(p *peer) { _, _ = io.Copy(io.Discard, p.NetConn()) })
	p := n.pool(func(o *Options) { o.MaxIdle = 2 })
	for range 4 {
		giveUp(t, n, p)
	}
	require.Eventually(t, func() bool { return n.open.Load() == 2 }, patience, time.Millisecond)
	require.Never(t, func() bool { return n.open.Load() < 2 }, 50*time.Millisecond, time.Millisecond)
	p.Close()
	n.closed()
	giveUp(t, n, p)
	n.closed()
}

// A pool that keeps no connections closes one that nobody waits for.
func TestNoneIsKept(t *testing.T) {
	n := start(t, serving(), func(p *peer) { _, _ = io.Copy(io.Discard, p.NetConn()) })
	p := n.pool(func(o *Options) { o.MaxIdle = 0 })
	giveUp(t, n, p)
	n.closed()
}

// buffered is one side of a pipe that can be written to while nobody reads.
type buffered struct {
	net.Conn
	last chan struct{} // closed once what was written is read
}

func (b *buffered) Write(p []byte) (int, error) {
	before, written, data := b.last, make(chan struct{}), slices.Clone(p)
	b.last = written
	go func() {
		defer close(written)
		if before != nil {
			<-before
		}
		_, _ = b.Conn.Write(data)
	}()
	return len(p), nil
}

// A node that refuses our certificate is tried once more, as there may be another one by now, and not for ever, although each
// connection was begun for another message.
func TestARefusedCertificateEnds(t *testing.T) {
	for name, message := range map[string]func() *Message{
		"get": get, "repeatable": func() *Message { return repeatable(get()) }, "long body": func() *Message { return post(1 << 20) },
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { refuseCertificates(t, message()) }) })
	}
}

// refuseCertificates sends m to a node that refuses our certificate, while connections are made for others.
func refuseCertificates(t *testing.T, m *Message) {
	refusing := serving()
	refusing.ClientAuth = tls.RequireAnyClientCert
	var dials atomic.Int32
	p := New(Options{Address: "127.0.0.1:9200", HandshakeTimeout: patience, MaxIdle: 10, TLS: trusting(), Dial: func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		time.Sleep(10 * time.Millisecond)
		client, server := net.Pipe()
		go func() {
			_ = tls.Server(&buffered{Conn: server}, refusing).HandshakeContext(context.Background()) // the alert is written
			_, _ = io.Copy(io.Discard, server)
			server.Close()
		}()
		return client, nil
	}})
	defer p.Close()
	for range 2 {
		spare, abort := abortable(get())
		go func() { _, _ = p.Do(spare) }()
		time.Sleep(2 * time.Millisecond)
		abort()
	}
	m, abort := abortable(m)
	time.AfterFunc(time.Second, abort)
	_, err := p.Do(m)
	require.True(t, NotSent(err), err)
	require.NotErrorIs(t, err, context.Canceled)
	require.LessOrEqual(t, dials.Load(), int32(4))
	time.Sleep(2 * time.Second)
}

// A message gets the first connection that is there, not the one that was begun for it.
func TestAMessageGetsTheFirstConnection(t *testing.T) {
	shake, goOn := context.WithCancel(t.Context())
	defer goOn()
	n := start(t, serving(), func(p *peer) {
		if p.number > 1 {
			<-shake.Done()
		}
		answering(hello)(p)
	})
	p := n.pool(nil)
	held := hold(t, p, 1)
	waits := make(chan error)
	go func() { waits <- read(t, p) }()
	require.Eventually(t, func() bool { return n.accepted.Load() == 2 }, patience, time.Millisecond)
	finish(t, held[0])
	require.NoError(t, <-waits)
	goOn()
	require.Eventually(t, func() bool { return p.kept() == 2 }, patience, time.Millisecond, "the other one is kept, too")
}

// dialed is a pool of which connections are made, or fail, after the given times; and how many were begun.
func dialed(dial func(number int32) (time.Duration, error)) (*Pool, *atomic.Int32) {
	p, dials := piped(Options{MaxIdle: 10}, answering(hello)), new(atomic.Int32)
	connect := p.o.Dial
	p.o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		takes, err := dial(dials.Add(1))
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		return connect(ctx, network, address)
	}
	return p, dials
}

var errDial = errors.New("no connection")

// A message fails by the connection that is made for it, and by no other.
func TestEachFailsByItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dials := dialed(func(number int32) (time.Duration, error) {
			return time.Duration(number) * time.Second, map[int32]error{2: errDial, 3: errDial}[number]
		})
		outcomes := make([]chan error, 3)
		for i := range outcomes {
			outcomes[i] = make(chan error, 1)
			go func() { outcomes[i] <- read(t, p) }()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		require.NoError(t, <-outcomes[0])
		require.NoError(t, <-outcomes[1], "by what the first gave back")
		require.NoError(t, <-outcomes[2])
		require.EqualValues(t, 3, dials.Load())
		p.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		p, _ := dialed(func(number int32) (time.Duration, error) {
			return 2 * time.Second / time.Duration(number), map[int32]error{2: errDial}[number]
		})
		first := make(chan error, 1)
		go func() { first <- read(t, p) }()
		time.Sleep(time.Millisecond)
		err := read(t, p)
		require.ErrorIs(t, err, errDial)
		require.True(t, NotSent(err))
		require.NoError(t, <-first)
		p.Close()
	})
}

// read sends a message and reads its answer.
func read(t *testing.T, p *Pool) error {
	resp, err := p.Do(get())
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// A message that waits while the pool is closed is sent.
func TestCloseWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := dialed(func(int32) (time.Duration, error) { return time.Second, nil })
		time.AfterFunc(time.Millisecond, p.Close)
		require.NoError(t, read(t, p))
		require.Zero(t, p.kept())
	})
}
