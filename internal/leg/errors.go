package leg

import (
	"errors"
	"net"
	"strings"
)

// failure is why there is no answer. It wraps the cause.
type failure struct {
	doing      string // the step: connect, write, …
	err        error
	notSent    bool // the node cannot act on the message
	unanswered bool // the connection ended soon, before any byte of an answer
	late       bool // no connection in time
}

// Error implements error.
func (f *failure) Error() string { return f.doing + ": " + f.err.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// NotSent reports whether err shows that the node cannot act on the message: no
// connection was made, either side refused a certificate, or the connection ended before
// a byte was written.
func NotSent(err error) bool {
	var f *failure
	return errors.As(err, &f) && f.notSent
}

// Timeout reports whether a connection was not made in time: dialing or the TLS handshake
// took too long. It is false if the message was aborted.
func Timeout(err error) bool {
	var f *failure
	return errors.As(err, &f) && f.late
}

// refused reports whether err, of the first read of a connection, means that the node
// refuses our certificate, or wants one. With TLS 1.3 it says so after the handshake has
// ended for us; what was written before is never decrypted.
func refused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate")
}
