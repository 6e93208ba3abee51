package leg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
)

// failure is why there is no answer. It wraps the cause.
type failure struct {
	doing      string // connect, write, …
	err        error
	notSent    bool // the node cannot act on the message
	unanswered bool // the connection ended before any byte of an answer
	late       bool // no connection in time
	stale      bool // the pooled connection was of no use; nothing was written
}

// Error implements error.
func (f *failure) Error() string { return f.doing + ": " + f.err.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// NotSent reports whether err shows that nothing of the message can have reached the
// node in a form that it may act on: no connection was made, a certificate was
// refused by either side, or the connection ended before a byte was written.
func NotSent(err error) bool {
	var f *failure
	return errors.As(err, &f) && f.notSent
}

// Timeout reports whether err is that the connection was not made in time: dialing or
// the TLS handshake took longer than it may. It is false if the context of the caller
// ended.
func Timeout(err error) bool {
	var f *failure
	return errors.As(err, &f) && f.late
}

// errStale says that a pooled connection is of no use: the node has closed or reset it, or
// sent what nobody asked for.
var errStale = errors.New("the connection was closed, or not idle")

// ended returns an error that wraps that of ctx, which is done, and its cause.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// refused reports whether err, met by the first read of a connection, is that the
// node refuses our certificate, or wants one. With TLS 1.3 it says so when the
// handshake is over for us; what was written before is never decrypted.
func refused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate")
}
