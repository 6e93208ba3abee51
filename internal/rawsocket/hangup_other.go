//go:build !linux

package rawsocket

import "errors"

// Hangups tells when the other ends of connections close them. Here it cannot.
type Hangups struct{}

// NewHangups returns an error.
func NewHangups() (*Hangups, error) { return nil, errors.ErrUnsupported }

// Watch returns false.
func (*Hangups) Watch(*Conn, func()) (watched bool) { return false }

// Forget does nothing.
func (*Hangups) Forget(*Conn) {}

// Close does nothing.
func (*Hangups) Close() error { return nil }
