package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Connection is the connection of a client, as far as it tells whether an answer was read.
type Connection interface {
	// Unread reports whether the client is known not to have read all that was written.
	Unread() bool
	// Settle has f called once: with false when the next request comes, or with whether
	// the client is known not to have read all that was written when the connection ends.
	Settle(f func(unread bool))
}

type connectionKey struct{}

// WithConnection returns the context of the requests that come on a connection. Without
// one the answers to bulks count as read.
func WithConnection(ctx context.Context, c Connection) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// connection returns the connection of a bulk that can be repeated; nil if it cannot, or
// if the connection is not known or not for one request at a time.
func (b *bulkWrite) connection() Connection {
	if !b.repeats() || b.x.r.ProtoMajor != 1 {
		return nil
	}
	c, _ := b.x.r.Context().Value(connectionKey{}).(Connection)
	return c
}

// measure has the client told how long the answer to a bulk is, and reports whether that
// can be: it is read to its end. The end of an answer in chunks comes after its JSON, and
// clients that look at the JSON alone leave it unread.
func (a *answer) measure() bool {
	if a.resp.ContentLength >= 0 {
		return true
	}
	size := len(a.readPlain(maxResult, nil))
	if !errors.Is(a.readErr, io.EOF) || len(a.resp.Trailer) > 0 {
		return false
	}
	a.resp.ContentLength = int64(size)
	a.resp.Header.Set("Content-Length", strconv.Itoa(size))
	return true
}

// flushBulk has the answer to a bulk that can be repeated written to the connection, so
// that the connection tells what becomes of it.
func (x *exchange) flushBulk() error {
	if x.bulk != nil && x.bulk.measured && http.NewResponseController(x.w).Flush() != nil {
		return errClient
	}
	return nil
}

// awaitReading has the bulk remembered if its connection shows that the client has not
// read the answer: the client sends it again, then.
func (b *bulkWrite) awaitReading(now time.Time) {
	if !b.measured || b.x.Status != http.StatusOK { // else nothing was stored
		return
	}
	c := b.connection()
	remembered := b.x.p.metrics.bulk.repeats.with(repeatRemembered)
	settle := b.x.p.o.Bulk.Books.Ambiguous.Answered(b.again.key, b.again.minted, c.Unread, now)
	c.Settle(func(unread bool) {
		if settle(unread, time.Now()) {
			remembered.Inc()
		}
	})
}
