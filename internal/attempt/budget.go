package attempt

import "sync/atomic"

const (
	// creditUnit is the charge for one failed repetition.
	creditUnit = 10
	// maxCredit is the charge, that of ten failed repetitions, at which failures are taken
	// to be general.
	maxCredit = 10 * creditUnit
	// successCredit is what a success returns. If one in ten searches fails, repetitions
	// continue.
	successCredit = 1
)

// Budget bounds the load that repetitions add to a cluster that fails everything. A
// repetition that succeeds is free. One that fails, too, is charged to the credit, which
// successes restore. Without credit failures are general: requests are sent once, as the
// client wrote them, until one succeeds, which allows one repetition. This is gRPC's
// throttling of retries (gRFC A6,
// https://github.com/grpc/proposal/blob/master/A6-client-retries.md). It is safe for
// concurrent use.
type Budget struct{ used atomic.Int64 }

// Allows reports whether a failed request may be repeated.
func (b *Budget) Allows() bool { return b.used.Load() <= maxCredit-creditUnit }

// Failed records that a repetition failed, too.
func (b *Budget) Failed() {
	for {
		used := b.used.Load()
		if used >= maxCredit || b.used.CompareAndSwap(used, min(maxCredit, used+creditUnit)) {
			return
		}
	}
}

// Succeeded records that a request succeeded, at any attempt.
func (b *Budget) Succeeded() {
	for {
		used := b.used.Load()
		if used == 0 || b.used.CompareAndSwap(used, max(0, min(used-successCredit, maxCredit-creditUnit))) {
			return
		}
	}
}
