package leg

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// A body larger than inline is written by a goroutine of its own while the answer is
	// awaited: a node that answers early may not read the rest.
	inline = 64 << 10
	// writerPatience is how long the end of an answer waits for that goroutine to finish,
	// so that the connection can be kept. As in http.Transport.
	writerPatience = 50 * time.Millisecond
	// soon is how long after a message is begun a connection may end that the node had closed while it was
	// idle. One that ends later was closed while the node worked.
	soon = time.Second
	// longHead is a length of heads in bytes that the engines take by default: they take 8 KiB of headers, or 16. If it is more
	// they answer 400 and leave the connection open, but read nothing more of it (seen on OpenSearch 3.6.0):
	// the next message on it would never be answered.
	longHead = 7 << 10
)

// exchange is a message and its answer on a connection. It is the body of the answer.
type exchange struct {
	conn *conn
	m    *Message

	written chan struct{} // closed when the message is written by a goroutine of its own; nil: there is none
	upload  *upload       // of a stream; nil: there is none

	body    io.Reader // of http.ReadResponse
	keep    bool      // the answer leaves the connection open
	refuses bool      // it is an error
	chunked bool      // it comes in chunks
	err     error     // of the next Read: the body has ended, or was closed, and the connection is kept or closed
}

// exchange sends m and reads the head of the answer.
func (c *conn) exchange(m *Message) (*http.Response, *failure) {
	x := &exchange{conn: c, m: m}
	c.begin()
	m.Abort.watch(c.abort)
	if len(m.Body) > inline {
		x.written = make(chan struct{})
		go x.write()
	} else if c.write(m); c.writeErr != nil && c.wrote == 0 {
		return nil, x.fail("write", c.writeErr)
	}
	if m.Stream != nil && c.writeErr == nil {
		x.upload = c.upload(m.Stream)
		x.written = x.upload.done
	}
	// Where a part was written the node may have answered and closed the connection.
	resp, err := c.readHead(m, x.upload)
	if err != nil {
		return nil, x.fail("read", err)
	}
	x.keep = !resp.Close && resp.StatusCode >= http.StatusOK && !unread(len(m.Head), resp.StatusCode)
	x.refuses = resp.StatusCode >= http.StatusBadRequest
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		resp.Body = &switched{Conn: c.nc, x: x}
	case resp.Body == http.NoBody:
		x.finish(x.reusable())
	default:
		x.chunked = len(resp.TransferEncoding) > 0
		x.body, resp.Body = resp.Body, x
	}
	return resp, nil
}

// switched is a connection on which the node speaks another protocol.
type switched struct {
	net.Conn
	x *exchange
}

// Read implements io.Reader. What came together with the head is in the buffer.
func (s *switched) Read(p []byte) (int, error) { return s.x.conn.br.Read(p) }

// Close implements io.Closer.
func (s *switched) Close() error { return s.x.Close() }

// CloseWrite tells the node that nothing more comes.
func (s *switched) CloseWrite() error { return s.Conn.(interface{ CloseWrite() error }).CloseWrite() }

// unread reports whether a node that answers with this status may have read nothing of a head of this length, and read
// nothing more of the connection. What else it answers tells that it has read the head.
func unread(length, status int) bool {
	return length > longHead && (status >= http.StatusBadRequest && status <= http.StatusForbidden ||
		status == http.StatusRequestHeaderFieldsTooLarge)
}

// write writes the message while the answer is awaited.
func (x *exchange) write() {
	x.conn.write(x.m)
	close(x.written)
}

// fail closes the connection and returns the error.
func (x *exchange) fail(doing string, err error) *failure {
	x.finish(false)
	c := x.conn
	f := &failure{doing: doing, err: x.m.because(err), unanswered: !c.heard.Load() && time.Since(c.begun) < soon}
	f.notSent = c.writeErr != nil && c.wrote == 0 || !c.proven && !c.heard.Load() && x.m.Stream == nil && refused(err)
	return f
}

// Read implements io.Reader. At the end of the body the connection is given back.
func (x *exchange) Read(p []byte) (int, error) {
	if x.err != nil {
		return 0, x.err
	}
	n, err := x.body.Read(p)
	if err == nil {
		return n, nil
	}
	whole := errors.Is(err, io.EOF)
	if x.err = err; !whole {
		x.err = x.m.because(err)
	}
	x.finish(whole && x.reusable())
	return n, x.err
}

// Close implements io.Closer. Before the end of the body it closes the connection. The message's bytes are free
// afterwards. A Read that waits is ended by aborting the message.
func (x *exchange) Close() error {
	if x.err == nil {
		x.finish(false)
	}
	x.err = http.ErrBodyReadAfterClose
	return nil
}

// reusable reports whether the connection can carry another message, now that the
// answer has been read. A node that refuses a body for which it has not asked, then or later, may take it for messages.
func (x *exchange) reusable() bool {
	c := x.conn
	if !x.keep || c.broken || c.br.Buffered() > 0 {
		return false
	}
	if x.written != nil {
		patience := time.NewTimer(c.pool.writerPatience)
		defer patience.Stop()
		select {
		case <-x.written:
		case <-patience.C:
			return false
		}
	}
	return c.writeErr == nil && (x.upload == nil || x.upload.err == nil && (!x.upload.unasked || !x.refuses || len(x.upload.interim) > 0))
}

// finish returns the connection to the pool if keep and the message was not aborted; else it closes
// it. It is called once.
func (x *exchange) finish(keep bool) {
	x.m.Abort.watch(nil)
	if keep && !x.m.Abort.happened() {
		x.conn.rest()
	} else {
		x.conn.abort()
	}
	if x.written != nil && x.upload == nil {
		<-x.written // the message is no longer in use
	}
}

// Ready reports whether something of the body can be read without
// waiting. With TLS it is false while a record is still in the socket: it may not be whole. Of chunks it is false
// where no more than the end of one may be there: reading on would wait for the next one.
func (x *exchange) Ready() bool {
	c := x.conn
	switch {
	case x.err != nil:
		return false
	case x.chunked:
		if c.br.Buffered() == 0 && c.secure == nil && c.readable() {
			_, _ = c.br.Peek(1) // an error comes back: chunks that do not end are one in any case
		}
		return c.br.Buffered() > len("\r\n")
	}
	return c.br.Buffered() > 0 || c.secure == nil && c.readable()
}
