package proxy

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/internal/es"
)

// heldScratch is how much of a held body fits into the exchange itself. Few bodies are
// larger, and a client that announces a body and never sends it costs no memory.
const heldScratch = 512

// Reasons for streaming a body that could be held.
const (
	reasonTooLarge = "body_too_large"   // too large to hold
	reasonNoRoom   = "held_bodies_full" // limits.held_bodies bytes are held already
)

// hold reads the body of a request that may be steered, or of a bulk that is planned, so that it can be sent again. A
// body above the limit streams. If the client stops sending, hold answers it and returns
// false: the request is over.
func (x *exchange) hold() bool {
	r := x.r
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return true
	}
	source, begin := x.widenItems(r.Body), int64(0)
	switch {
	case x.Operation == es.Bulk && x.planBulk():
		source, begin = x.bulk, bulkPrefix
	case x.steering() == es.SteerNone:
		x.streamBody(source, nil)
		return true
	}
	limit := x.p.o.MaxHeldBody
	switch {
	case r.ContentLength <= limit && x.bulk.mayRepeat():
		return x.holdRepeatable(limit)
	case r.ContentLength <= limit:
	case x.asking: // the engine tells the client to send it
		limit = 0
	case x.admitter != nil && x.mayContinue():
		limit = min(limit, heldScratch) // enough to see that it is no new search
	default:
		limit = begin
	}
	return x.holdFrom(source, limit)
}

// holdFrom reads the body as it is to be sent. A body of more than limit bytes streams.
func (x *exchange) holdFrom(source io.ReadCloser, limit int64) bool {
	start := time.Now()
	body, err := x.readBody(source, limit)
	x.reading += time.Since(start)
	return x.hasRead(source, body, err)
}

// hasRead continues after reading the body ended with err.
func (x *exchange) hasRead(source io.ReadCloser, body []byte, err error) bool {
	switch {
	case err == nil:
		x.body, x.RequestBytes = body, int64(len(body))
		x.lookForPIT()
	case errors.Is(err, errTooMuch):
		x.letThrough(source, body)
	case errors.Is(err, errNoRoom):
		if x.Reason == "" {
			x.Reason = reasonNoRoom
		}
		x.letThrough(source, body)
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.answerStalled()
		return false
	case x.malformed(err):
		x.answerMalformed()
		return false
	default: // the client has left
		panic(http.ErrAbortHandler)
	}
	return true
}

var (
	errTooMuch = errors.New("the body is larger than may be held")
	errNoRoom  = errors.New("no more bodies may be held")
)

// readBody reads the body as it arrives. Memory grows with what has arrived, not with a
// declared length. With errTooMuch and errNoRoom it returns what it has read.
func (x *exchange) readBody(source io.Reader, limit int64) ([]byte, error) {
	if limit == 0 {
		return nil, errTooMuch
	}
	x.asking = false // reading the body tells the client to send it
	body, counted := x.scratch[:0], int64(0)
	deadline := newReadDeadline(x)
	for {
		if len(body) == cap(body) {
			grown := min(2*int64(cap(body)), limit+1)
			if grown <= int64(len(body)) {
				deadline.lift()
				return body, errTooMuch
			}
			if !x.reserve(grown - counted) {
				deadline.lift()
				return body, errNoRoom
			}
			counted = grown
			body = append(make([]byte, 0, grown), body...)
		}
		deadline.push()
		n, err := source.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF) && int64(len(body)) <= limit:
			deadline.lift()
			_ = x.r.Body.Close() // or the server tries to read the rest
			return body, nil
		case int64(len(body)) > limit:
			deadline.lift()
			return body, errTooMuch
		case err != nil: // the deadline stays set, so that the server does not wait for the rest
			return nil, err
		}
	}
}

// reserve takes n bytes of the total that may be held. It reports whether that was
// possible.
func (x *exchange) reserve(n int64) bool {
	if x.p.o.Held.Add(n) > x.p.o.MaxHeldBodies {
		x.p.o.Held.Add(-n)
		return false
	}
	x.held += n
	return true
}

// letThrough streams a body that could have been held, after the part of it that was
// read.
func (x *exchange) letThrough(source io.ReadCloser, read []byte) {
	x.soft = true
	if x.Reason == "" && (x.Operation != es.Search || x.mayForbid() || !x.p.o.Open()) {
		x.Reason = reasonTooLarge // what is refused for its list of nodes could not be sent again without
	}
	x.streamBody(source, read)
	x.lookForPIT()
}

// streamBody prepares a body that streams.
func (x *exchange) streamBody(source io.ReadCloser, read []byte) {
	// Without full duplex the server closes a body that is still being read once the
	// answer begins (golang/go#40747).
	_ = http.NewResponseController(x.w).EnableFullDuplex() // HTTP/2 is so already
	x.stream = &clientBody{body: source, read: slices.Clone(read), deadline: newReadDeadline(x)}
}

// lookForPIT rules out steering of a search without an index that has, or may have, a
// point in time.
func (x *exchange) lookForPIT() {
	if x.Reason != "" || x.Target != "" || !x.Operation.TakesPIT() {
		return
	}
	pit, readable := es.HasTopLevelPIT(x.body)
	switch {
	case x.stream != nil || !readable:
		x.Reason = string(es.PassUnreadableBody)
	case pit:
		x.Reason = string(es.PassPIT)
	}
}

// readDeadline bounds the time between two parts of a client's body.
type readDeadline struct {
	control  *http.ResponseController
	patience time.Duration
	end      time.Time // of all parts; zero: none
	set      bool
	runs     bool // it ends the body although nobody reads: a timer of HTTP/2
}

// untilDiscarded bounds the time of all parts that are read only to be thrown away.
func (d *readDeadline) untilDiscarded(now time.Time) {
	length := discardTime
	if d.patience > 0 {
		length = min(length, d.patience)
	}
	d.end = now.Add(length)
}

func newReadDeadline(x *exchange) readDeadline {
	return readDeadline{control: http.NewResponseController(x.w), patience: x.p.o.BodyTimeout, runs: x.r.ProtoMajor > 1}
}

// push sets the deadline for the next part, and returns it; zero: there is none.
func (d *readDeadline) push() (at time.Time) {
	at = d.end
	if d.patience > 0 && at.IsZero() {
		at = time.Now().Add(d.patience)
	}
	if !at.IsZero() {
		d.set = d.control.SetReadDeadline(at) == nil
	}
	return at
}

// lift removes the deadline, which is not for the next request.
func (d *readDeadline) lift() {
	if d.set {
		_ = d.control.SetReadDeadline(time.Time{})
	}
}

// clientBody is a request body that is read as it arrives. It may outlive the exchange
// for a moment, as the leg reads it on a goroutine of its own.
type clientBody struct {
	body     io.ReadCloser
	received atomic.Int64
	// begun: it was read for a node. gone: the client stopped sending. stalled: nothing arrived for too long.
	begun, ended, gone, stalled atomic.Bool

	mu       sync.Mutex // guards what follows
	read     []byte     // what was read before it was decided to stream
	deadline readDeadline
	due      time.Time // when the part that is being read is to be there; zero: none is being read, or at any time
	over     bool      // the handler is about to return: no more reads or deadlines
}

// Read implements io.Reader. It notes when the client stops sending.
func (b *clientBody) Read(p []byte) (int, error) {
	if n, err := b.before(p); n > 0 || err != nil {
		return n, err
	}
	n, err := b.body.Read(p)
	defer b.hasRead()
	b.received.Add(int64(n))
	switch {
	case errors.Is(err, io.EOF):
		b.ended.Store(true)
		b.lift()
	case err == nil && b.deadline.runs: // the node may take any time for this part
		b.lift()
	case errors.Is(err, os.ErrDeadlineExceeded): // or cut off by finish
		b.stalled.Store(true)
	case err != nil:
		b.gone.Store(true)
	}
	return n, err
}

// hasRead says that nothing is being read, and that what came of it is noted.
func (b *clientBody) hasRead() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due = time.Time{}
}

// late reports whether a part is being read that was to be there by now.
func (b *clientBody) late(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.due.IsZero() && !now.Before(b.due)
}

// lift removes the deadline, unless the handler is about to return.
func (b *clientBody) lift() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.deadline.lift()
	}
}

// before prepares a read from the client, or returns what had been read earlier.
func (b *clientBody) before(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return 0, http.ErrBodyReadAfterClose
	}
	b.begun.Store(true)
	if len(b.read) > 0 {
		n := copy(p, b.read)
		b.read = b.read[n:]
		b.received.Add(int64(n))
		return n, nil
	}
	b.due = b.deadline.push()
	return 0, nil
}

// finish closes the body, which must happen before the handler returns (golang/go#68560),
// and reads what the client is still sending. An early answer is flushed first. A client
// is not waited for if its connection is to be closed. What does not come would be taken for the
// next request.
func (b *clientBody) finish(x *exchange) {
	b.mu.Lock()
	b.over = true
	x.RequestBytes = b.received.Load() + int64(len(b.read))
	b.mu.Unlock() // from now on no other goroutine sets a deadline
	control := http.NewResponseController(x.w)
	switch {
	case b.ended.Load(), x.complete && b.deadline.runs: // in HTTP/2 the client is told to stop
	case !x.complete: // nothing is waited for, not by closing the body either
		_ = control.SetReadDeadline(time.Now())
	case x.asking && !b.begun.Load() && x.w.Header().Get("Content-Length") == "":
		// Nor here: a client that was not told to send waits for the end of its answer, which is written when the handler
		// returns. One that sends all the same gets some time to read it.
		x.hangUp()
		_ = control.SetReadDeadline(time.Now())
	default:
		if x.asking && !b.begun.Load() { // it was not told to send, but may be tired of waiting for that
			b.deadline.untilDiscarded(time.Now())
		}
		_ = control.Flush()
		b.drain(x)
	}
	_ = b.body.Close()
	if x.complete {
		b.deadline.lift()
	}
}

// drain reads the rest of the body, as the engines do: many clients look for an answer only when they have sent
// everything. net/http would read 256 KiB and close the connection. That is closed if more can come. It reads the
// body as it comes, and not as it was to be sent: of that another goroutine may still be reading a part.
func (b *clientBody) drain(x *exchange) {
	rest := buffers.Get().(*[copyBuffer]byte)
	defer buffers.Put(rest)
	for {
		b.deadline.push()
		n, err := x.r.Body.Read(rest[:])
		x.discarded += int64(n)
		switch {
		case err == nil && (b.deadline.end.IsZero() || x.discarded <= max(usualLongestBody, x.view.longestBody)): // more than the engines take is not waited for
			continue
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // the latter: the client has left
			b.ended.Store(true)
		default:
			b.stalled.Store(errors.Is(err, os.ErrDeadlineExceeded))
			x.hangUp()
		}
		return
	}
}
