package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Connection is the connection of a client. It knows whether the client has left, and
// whether an answer was read.
type Connection interface {
	// Left reports whether the client has closed or reset the connection, as far as the
	// context of the request does not tell yet. It looks at the connection.
	Left() bool
	// Unread reports whether the client is known not to have read everything that was
	// written.
	Unread() bool
	// Settle has f called once. The argument is false when the next request arrives. When
	// the connection ends it says whether the client is known not to have read
	// everything.
	Settle(f func(unread bool))
}

type connectionKey struct{}

// WithConnection returns a context for the requests of a connection. Without it answers
// to bulks count as read.
func WithConnection(ctx context.Context, c Connection) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// client returns the connection of the client; nil if it is unknown or multiplexed.
func (x *exchange) client() Connection {
	if x.r.ProtoMajor != 1 {
		return nil
	}
	c, _ := x.r.Context().Value(connectionKey{}).(Connection)
	return c
}

// measure gives the answer to a bulk a Content-Length, and reports whether that is
// possible. Then the client reads to the end. The end of a chunked answer comes after its
// JSON, and clients that stop at the end of the JSON leave it unread.
func (t *try) measure() bool {
	if t.resp.ContentLength >= 0 {
		return true
	}
	size := len(t.readPlain(maxResult, t.beyondRoom(1, 0)))
	if !errors.Is(t.readErr, io.EOF) || len(t.resp.Trailer) > 0 {
		return false
	}
	t.resp.ContentLength = int64(size)
	t.resp.Header.Set("Content-Length", strconv.Itoa(size))
	return true
}

// flushBulk writes the answer to a bulk that can be repeated to the connection, which can
// then tell whether it is read.
func (x *exchange) flushBulk() error {
	if x.bulk != nil && x.bulk.measured && http.NewResponseController(x.w).Flush() != nil {
		return errClient
	}
	return nil
}

// awaitReading remembers the bulk if its connection shows that the client has not read
// the answer: then the client will repeat it.
func (b *bulkWrite) awaitReading(now time.Time) {
	if !b.measured || b.x.Status != http.StatusOK { // else nothing was stored
		return
	}
	c := b.x.client()
	remembered := b.x.p.metrics.bulk.repeats.WithLabelValues(repeatRemembered)
	settle := b.x.p.o.Bulk.Books.Ambiguous.Answered(b.again.key, b.again.minted, c.Unread, now)
	c.Settle(func(unread bool) {
		if settle(unread, time.Now()) {
			remembered.Inc()
		}
	})
}
