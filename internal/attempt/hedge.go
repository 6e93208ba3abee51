package attempt

import (
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"
)

// Hedges says when a search is overdue and how many second attempts may be made.
// It is safe for concurrent use without locks.
type Hedges struct {
	budget float64 // second attempts per search
	seed   maphash.Seed
	// kinds holds what is known of searches by target; targets share a kind when
	// their hashes do, so that memory is bounded.
	kinds  [256]kind
	tokens atomic.Int64 // thousandths of a second attempt

	// Searches are counted by windows of savingTime.
	windowAt    atomic.Int64 // Unix ns: when the present one began
	count, last atomic.Int64 // searches of the present window, of the one before
}

// kind is the 95th percentile of the time that searches of one kind take.
type kind struct {
	p95  atomic.Uint64 // float64 bits, ms
	seen atomic.Int64
}

const (
	// minSeen searches of a kind must have been seen before one can be overdue.
	minSeen = 50
	// A search is overdue after overdueFactor·p95 + overdueSlack.
	overdueFactor = 1.5
	overdueSlack  = 40 * time.Millisecond
	// Second attempts are saved up for savingTime, but at least minSaved: when a node
	// turns bad all searches of a moment, not one in twenty, are overdue.
	savingTime = 10 * time.Second
	minSaved   = 15
	// moveBy is how far one time moves the estimate of the percentile, relatively;
	// moveFirstBy holds for the first firstTimes, which a cold engine makes long.
	moveBy, moveFirstBy = 0.05, 0.5
	firstTimes          = 200
)

// NewHedges returns Hedges with a budget of second attempts per search; 0 means
// there are to be none.
func NewHedges(budget float64) *Hedges { return &Hedges{budget: budget, seed: maphash.MakeSeed()} }

func (h *Hedges) kind(target string) *kind {
	return &h.kinds[maphash.String(h.seed, target)%uint64(len(h.kinds))]
}

// Delay counts one more search and returns when it is overdue; false while that
// is not known, or if there are to be no second attempts.
func (h *Hedges) Delay(target string, now time.Time) (time.Duration, bool) {
	if h.budget <= 0 {
		return 0, false
	}
	if float64(h.tokens.Load()) < 1000*max(minSaved, h.budget*h.lately(now)) {
		h.tokens.Add(int64(h.budget * 1000))
	}
	k := h.kind(target)
	if k.seen.Load() < minSeen {
		return 0, false
	}
	ms := math.Float64frombits(k.p95.Load())
	return time.Duration(ms*overdueFactor*float64(time.Millisecond)) + overdueSlack, true
}

// lately counts one more search and returns how many there were in savingTime.
func (h *Hedges) lately(now time.Time) float64 {
	began := h.windowAt.Load()
	if passed := now.UnixNano() - began; passed >= int64(savingTime) && h.windowAt.CompareAndSwap(began, now.UnixNano()) {
		n := h.count.Swap(0)
		if passed >= int64(2*savingTime) {
			n = 0
		}
		h.last.Store(n)
	}
	return float64(max(h.count.Add(1), h.last.Load()))
}

// Observe takes in how long a search on target took.
func (h *Hedges) Observe(target string, took time.Duration) {
	k := h.kind(target)
	by := moveBy
	if k.seen.Add(1) < firstTimes {
		by = moveFirstBy
	}
	ms := float64(took) / float64(time.Millisecond)
	for {
		old := k.p95.Load()
		v := math.Float64frombits(old)
		switch {
		case old == 0:
			v = ms
		case ms > v:
			v *= 1 + 0.95*by // one time in twenty …
		default:
			v *= 1 - 0.05*by // … against nineteen
		}
		if k.p95.CompareAndSwap(old, math.Float64bits(v)) {
			return
		}
	}
}

// Once a search is overdue, probes have firstLook to find out which node keeps it waiting.
// They are given twice as long each time, up to maxLook, until a second attempt is
// worthwhile.
const (
	firstLook = 20 * time.Millisecond
	maxLook   = 80 * time.Millisecond
)

// untilLook returns how long to wait until the look (0, 1, …) at whether a second attempt
// is worthwhile.
func untilLook(look int) time.Duration { return min(firstLook<<min(look, 8), maxLook) }

// Spend takes one second attempt from the budget, false if there is none left.
func (h *Hedges) Spend() bool {
	for {
		t := h.tokens.Load()
		if t < 1000 {
			return false
		}
		if h.tokens.CompareAndSwap(t, t-1000) {
			return true
		}
	}
}
