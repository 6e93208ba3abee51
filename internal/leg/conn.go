package leg

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"sidestep/internal/rawsocket"
)

// copied bounds the messages whose head and body are copied into one buffer and written
// at once. Longer ones are written from where they are.
const copied = 16 << 10

// conn is one connection to the node. It belongs to the pool while it is idle and to
// one exchange while it is in use.
type conn struct {
	pool   *Pool
	nc     net.Conn
	secure *tls.Conn       // nc if it speaks TLS, else nil
	socket *rawsocket.Conn // nil: it cannot be looked at
	abort  func()          // closes nc
	proven bool            // an answer was read
	// idleSince is zero if it never was idle.
	idleSince time.Time

	// Of the exchange, for the goroutine that reads:
	begun  time.Time
	br     *bufio.Reader
	limit  int64       // that may still be read
	heard  atomic.Bool // a byte was read
	broken bool        // reading failed or came to an end

	// Of writing:
	wrote    int64
	writeErr error
}

// Read implements io.Reader for br.
func (c *conn) Read(p []byte) (int, error) {
	if c.limit <= 0 {
		return 0, fmt.Errorf("the head of the answer is longer than %d bytes", c.pool.maxHead)
	}
	if int64(len(p)) > c.limit {
		p = p[:c.limit]
	}
	n, err := c.nc.Read(p)
	c.limit -= int64(n)
	if n > 0 {
		c.heard.Store(true)
	}
	c.broken = c.broken || err != nil
	return n, err
}

// readable reports whether reading from the socket would not wait.
func (c *conn) readable() bool { return c.socket != nil && c.socket.Readable() }

// stale reports whether c, which is idle, cannot be used: the node has closed or reset
// it, or sent something unexpectedly.
func (c *conn) stale() bool {
	readable := c.readable()
	switch {
	case c.secure == nil || readable && c.proven:
		return readable
	case readable:
		return c.decrypted(time.Now().Add(ticketPatience))
	default:
		return c.decrypted(time.Unix(1, 0))
	}
}

// ticketPatience is how long reading what a server sends of its own accord after a TLS handshake may take:
// tickets for other sessions. They are still to be read where no answer was.
const ticketPatience = time.Millisecond

// decrypted reports whether TLS has data before the deadline, or has ended. With a deadline in the past nothing
// is read from the socket: what is found then has left it already, in records that came together with the end
// of the last answer.
func (c *conn) decrypted(deadline time.Time) bool {
	_ = c.secure.SetReadDeadline(deadline)
	var b [1]byte
	n, err := c.secure.Read(b[:])
	_ = c.secure.SetReadDeadline(time.Time{})
	return n > 0 || !errors.Is(err, os.ErrDeadlineExceeded)
}

// begin prepares c for a message and its answer.
func (c *conn) begin() {
	c.limit = c.pool.maxHead
	c.begun = time.Now()
	c.heard.Store(false)
	c.wrote, c.writeErr = 0, nil
}

// isNew reports whether c was never idle.
func (c *conn) isNew() bool { return c.idleSince.IsZero() }

// rest returns c to the pool.
func (c *conn) rest() {
	c.proven = true
	c.br.Reset(nil)
	c.pool.readers.Put(c.br)
	c.br = nil
	c.pool.put(c)
}

// inTurn reports whether a message is written together with the wait for its answer.
func (c *conn) inTurn(m *Message) bool {
	return m.Stream == nil && len(m.Head)+len(m.Body) <= copied && c.secure == nil && c.socket != nil
}

// write writes a message, but for a stream. If it is short it also waits for the answer.
func (c *conn) write(m *Message) {
	if len(m.Head)+len(m.Body) > copied {
		both := net.Buffers{m.Head, m.Body}
		c.wrote, c.writeErr = both.WriteTo(c.nc)
		return
	}
	b := c.pool.buffers.Get().(*[]byte)
	defer c.pool.buffers.Put(b)
	*b = append(append((*b)[:0], m.Head...), m.Body...)
	wrote := 0
	if c.inTurn(m) {
		wrote, c.writeErr = c.socket.Send(*b, !c.isNew())
		c.wrote = int64(wrote)
	}
	if c.writeErr == nil && wrote < len(*b) {
		wrote, c.writeErr = c.nc.Write((*b)[wrote:])
		c.wrote += int64(wrote)
	}
}

// readHead reads the head of the answer to m and what comes before it.
func (c *conn) readHead(m *Message, u *upload) (*http.Response, error) {
	defer u.ends()
	c.br = c.pool.readers.Get().(*bufio.Reader) // not before: waiting takes no buffer
	c.br.Reset(c)
	var request *http.Request // a nil request is a GET
	if m.Method == http.MethodHead {
		request = &http.Request{Method: http.MethodHead}
	}
	for {
		resp, err := http.ReadResponse(c.br, request)
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols && !m.Upgrade:
			return nil, errors.New("the node switches protocols, which it was not asked for")
		case resp.StatusCode < 100 || resp.StatusCode > 199 || resp.StatusCode == http.StatusSwitchingProtocols:
			c.limit = math.MaxInt64
			return resp, nil
		case resp.StatusCode != http.StatusContinue && m.Interim != nil:
			m.Interim(resp.StatusCode, resp.Header)
		}
		u.asks()
	}
}
