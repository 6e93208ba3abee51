package leg

import (
	"errors"
	"io"
	"strconv"
	"sync"
	"time"
)

// Stream is a body that is read as it is sent, on a goroutine that may outlive the message. It is read once there is a
// connection, and the head was written.
type Stream struct {
	io.Reader
	// Length is how long the body is; if it is less than 0 the body is sent in chunks.
	Length int64
	// Trailer returns the trailers of a body in chunks, as lines, once that has been read.
	Trailer func() []byte
	// Asked: the body is read only once the node has asked for it with an interim answer, or has said nothing for
	// [Options.ContinueTimeout].
	Asked bool
}

// upload is a stream on its way to the node.
type upload struct {
	stream   *Stream
	conn     *conn
	interim  chan struct{} // of one: the node has sent an interim answer
	answered chan struct{} // closed when the head of its answer has come, or none will
	done     chan struct{} // closed when nothing more is written
	err      error         // from then on: why it was not written as a whole
	unasked  bool          // from then on: the node was to ask for it, and had not when it was written
}

// Errors of uploads.
var (
	errUnasked = errors.New("the node answered without asking for the body")
	errLength  = errors.New("the body has another length")
)

// upload begins to send a stream.
func (c *conn) upload(s *Stream) *upload {
	u := &upload{stream: s, conn: c, interim: make(chan struct{}, 1), answered: make(chan struct{}), done: make(chan struct{})}
	go u.run()
	return u
}

// asks notes an interim answer.
func (u *upload) asks() {
	if u == nil {
		return
	}
	select {
	case u.interim <- struct{}{}:
	default:
	}
}

// ends notes that the head of the answer has come, or that none will.
func (u *upload) ends() {
	if u != nil {
		close(u.answered)
	}
}

// run sends the stream.
func (u *upload) run() {
	defer close(u.done)
	if u.err = errUnasked; !u.stream.Asked || u.wanted() {
		u.err = u.send()
	}
}

// wanted waits until the body may be sent; false if it is not to be.
func (u *upload) wanted() bool {
	patience := time.NewTimer(u.conn.pool.o.ContinueTimeout)
	defer patience.Stop()
	late := patience.C
	for {
		select {
		case <-u.interim:
			return true
		case <-u.answered:
			return false
		case <-late:
			if !u.conn.heard.Load() {
				u.unasked = true
				return true
			}
			late = nil // it has begun to say something
		}
	}
}

// buffer has room for a part of a stream and what surrounds a chunk.
type buffer [chunkHead + partSize + chunkEnd]byte

const (
	partSize  = 32 << 10
	chunkHead = len("8000\r\n")
	chunkEnd  = len("\r\n")
)

// buffers lends them.
var buffers = sync.Pool{New: func() any { return new(buffer) }} //nolint:gochecknoglobals // a pool is shared by nature

// send reads and writes the stream. The node must notice if that ends early, and must get no more than Length: that
// would be another message. A node that does not take it may have answered.
func (u *upload) send() error {
	b, left := buffers.Get().(*buffer), u.stream.Length
	defer buffers.Put(b)
	for {
		n, err := u.stream.Read(b[chunkHead : chunkHead+partSize])
		part, ended := b[chunkHead:chunkHead+n], errors.Is(err, io.EOF)
		switch {
		case u.stream.Length >= 0:
			if left -= int64(n); left < 0 || ended && left != 0 {
				err, ended = errLength, false
			}
			if left < 0 {
				part = nil
			}
		case n > 0:
			head := append(strconv.AppendInt(b[:0], int64(n), 16), "\r\n"...)
			start := chunkHead - copy(b[chunkHead-len(head):], head)
			end := chunkHead + n + copy(b[chunkHead+n:], "\r\n")
			part = b[start:end]
		}
		if ended && u.stream.Length < 0 {
			part = append(append(append(part, "0\r\n"...), u.stream.Trailer()...), "\r\n"...)
		}
		if _, failed := u.conn.nc.Write(part); failed != nil {
			return failed
		}
		switch {
		case ended:
			return nil
		case err != nil:
			u.conn.abort()
			return err
		}
	}
}
