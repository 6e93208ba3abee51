package attempt

import "sync/atomic"

const (
	// creditUnit is one failed repetition.
	creditUnit = 10
	// maxCredit is how many repetitions may fail in the same way before failures are
	// taken to be general.
	maxCredit = 10 * creditUnit
	// successCredit is what a success adds: failures of one in ten searches are no
	// reason to stop repeating the others.
	successCredit = 1
)

// Budget bounds what repetitions add to the load of a cluster that fails everything. A
// repetition that works costs nothing; one that fails, too, takes from the credit,
// which successes restore. Without credit failures are general: requests go out once,
// as the client wrote them, until one succeeds, which allows one repetition again. It
// is the throttling of retries that gRPC has (gRFC A6), safe for concurrent use.
type Budget struct{ used atomic.Int64 }

// Allows reports whether what failed may be repeated.
func (b *Budget) Allows() bool { return b.used.Load() <= maxCredit-creditUnit }

// Failed notes that a repetition failed, too.
func (b *Budget) Failed() {
	for {
		used := b.used.Load()
		if used >= maxCredit || b.used.CompareAndSwap(used, min(maxCredit, used+creditUnit)) {
			return
		}
	}
}

// Succeeded notes that a request succeeded, at whichever attempt.
func (b *Budget) Succeeded() {
	for {
		used := b.used.Load()
		if used == 0 || b.used.CompareAndSwap(used, max(0, min(used-successCredit, maxCredit-creditUnit))) {
			return
		}
	}
}
