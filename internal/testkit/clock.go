package testkit

import (
	"time"
	"unsafe"
)

// SetBack returns t as it is read once the system's clock was set back by whole seconds: its monotonic reading is the same.
func SetBack(t time.Time, by time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t)) //nolint:gosec // package time has no other way; seconds are above 30 bits of nanoseconds
	*wall -= uint64(by/time.Second) << 30
	return t
}
