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
	budget float64 // second attempts per search, and times that nodes are asked
	seed   maphash.Seed
	// kinds holds what is known of searches by target; targets share a kind when
	// their hashes do, so that memory is bounded.
	kinds  [256]kind
	second tokens        // of second attempts
	asks   tokens        // of searches of which the nodes are asked
	lost   atomic.Uint64 // share of the second attempts that lost of late: the bits of a float64

	// Searches are counted by windows of savingTime.
	windowAt    atomic.Pointer[time.Time] // when the present one began; nil: none has
	count, last atomic.Int64              // searches of the present window, of the one before
}

// tokens count what there may be of something, in thousandths.
type tokens struct{ atomic.Int64 }

// add allows for so many more, unless as many as most are saved up.
func (t *tokens) add(more, most float64) {
	if float64(t.Load()) < 1000*most {
		t.Add(int64(more * 1000))
	}
}

// left reports whether there are so many.
func (t *tokens) left(many float64) bool { return float64(t.Load()) >= 1000*many }

// spend takes so many, false if there are fewer.
func (t *tokens) spend(many float64) bool {
	for {
		left := t.Load()
		if float64(left) < 1000*many {
			return false
		}
		if t.CompareAndSwap(left, left-int64(1000*many)) {
			return true
		}
	}
}

// kind is how long searches of one kind take.
type kind struct {
	median, p95 quantile
	seen        atomic.Int64
}

// quantile is an estimate of a quantile of times in ms: the bits of a float64.
type quantile struct{ atomic.Uint64 }

const (
	// minSeen searches of a kind must have been seen before one can be overdue.
	minSeen = 50
	// A search is late after lateFactor·median + lateSlack.
	lateFactor = 2
	lateSlack  = 10 * time.Millisecond
	// A search is overdue after overdueFactor·p95 + overdueSlack.
	overdueFactor = 1.5
	overdueSlack  = 40 * time.Millisecond
	// Second attempts are saved up for savingTime, but at least minSaved: when a node
	// turns bad all searches of a moment, not one in twenty, are overdue.
	savingTime = 10 * time.Second
	minSaved   = 15
	// endedBy is how far the end of one second attempt moves the share of those that lost.
	endedBy = 0.25
	// moveBy is how far one time moves the estimate of a quantile, relatively;
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

// Delay counts one more search and returns when it is late, so that its nodes are to be asked
// whether they answer, and when it is overdue, so that they are to be probed; false while
// that is not known, or if there are to be no second attempts.
func (h *Hedges) Delay(target string, now time.Time) (late, overdue time.Duration, ok bool) {
	if h.budget <= 0 {
		return 0, 0, false
	}
	h.second.add(h.budget, max(minSaved, h.budget*h.lately(now)))
	h.asks.add(h.budget, minSaved)
	k := h.kind(target)
	if k.seen.Load() < minSeen {
		return 0, 0, false
	}
	overdue = k.p95.times(overdueFactor) + overdueSlack
	return min(k.median.times(lateFactor)+lateSlack, overdue), overdue, true
}

// lately counts one more search and returns how many there were in savingTime.
func (h *Hedges) lately(now time.Time) float64 {
	began, passed := h.windowAt.Load(), 2*savingTime
	if began != nil {
		passed = now.Sub(*began) // however the system's clock is set
	}
	if passed < savingTime {
		return float64(max(h.count.Add(1), h.last.Load()))
	}
	if at := now; h.windowAt.CompareAndSwap(began, &at) {
		n := h.count.Swap(0)
		if passed >= 2*savingTime {
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
	k.median.move(0.5, by, ms)
	k.p95.move(0.95, by, ms)
}

// move moves the estimate of quantile q by one time. It comes to rest where a share q of the
// times is shorter: the longer ones move it up by q of by, the others down by the rest.
func (e *quantile) move(q, by, ms float64) {
	for {
		old := e.Load()
		v := math.Float64frombits(old)
		switch {
		case old == 0:
			v = ms
		case ms > v:
			v *= 1 + q*by
		default:
			v *= 1 - (1-q)*by
		}
		if e.CompareAndSwap(old, math.Float64bits(v)) {
			return
		}
	}
}

// times returns the estimate multiplied by factor.
func (e *quantile) times(factor float64) time.Duration {
	return time.Duration(math.Float64frombits(e.Load()) * factor * float64(time.Millisecond))
}

// askedLook is between the first soonLooks looks at whether the nodes of a late search have
// answered. Then each is twice as long after the one before, up to maxLook.
const (
	askedLook = 10 * time.Millisecond
	soonLooks = 3
)

// Once a search is overdue, probes have firstLook to find out which node keeps it waiting.
// They are given twice as long each time, up to maxLook, until a second attempt is
// worthwhile.
const (
	firstLook = 20 * time.Millisecond
	maxLook   = 80 * time.Millisecond
)

// doubled returns first, doubled so many times, and at most maxLook.
func doubled(first time.Duration, times int) time.Duration {
	return min(first<<min(max(0, times), 8), maxLook)
}

// Left reports whether there may be a second attempt.
func (h *Hedges) Left() bool { return h.second.left(h.price()) }

// Exhausted reports whether there may be none even where they win.
func (h *Hedges) Exhausted() bool { return !h.second.left(1) }

// Spend takes a second attempt from the budget, false if too little is left.
func (h *Hedges) Spend() bool { return h.second.spend(h.price()) }

// price is what a second attempt takes from the budget: one where they win. Where most lose, as in a
// cluster that is busy everywhere, it is as much more as there are of them to one that wins. One may
// be saved up for always, which finds out whether they win again.
func (h *Hedges) price() float64 {
	return min(1/(1-math.Float64frombits(h.lost.Load())), minSaved)
}

// Ended takes in whether a second attempt was answered first, and well.
func (h *Hedges) Ended(won bool) {
	for {
		old := h.lost.Load()
		share := math.Float64frombits(old) * (1 - endedBy)
		if !won {
			share += endedBy
		}
		if h.lost.CompareAndSwap(old, math.Float64bits(share)) {
			return
		}
	}
}

// ToAsk returns what find finds to be asked for a late search, nothing if h does not allow it: as
// many searches are asked for as may have a second attempt. One counts if anything is found.
func ToAsk[T any](h *Hedges, find func() []T) []T {
	if !h.asks.left(1) {
		return nil
	}
	found := find()
	if len(found) > 0 {
		h.asks.spend(1)
	}
	return found
}
