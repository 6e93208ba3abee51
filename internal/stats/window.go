package stats

import (
	"sync/atomic"
	"time"
)

// windowSeconds is how far back a Window reaches.
const windowSeconds = 60

// latelySeconds is how far back Lately reaches.
const latelySeconds = 10

// parts of one are what a Window counts: fractions in whole numbers.
const parts = 1000

// Window sums what was added during the last minute, in seconds. Two
// goroutines that enter a new second at once may lose an addition: it serves a
// share shown to people, not a decision.
type Window struct {
	buckets [windowSeconds]struct {
		second atomic.Int64
		sum    atomic.Int64
	}
	all atomic.Int64
}

// Add adds v at the moment at (ns), to a thousandth.
func (w *Window) Add(at int64, v float64) {
	second := at / int64(time.Second)
	b := &w.buckets[second%windowSeconds]
	if old := b.second.Load(); old != second && b.second.CompareAndSwap(old, second) {
		b.sum.Store(0)
	}
	b.sum.Add(int64(v * parts))
	w.all.Add(int64(v * parts))
}

// All returns the sum of everything that was ever added.
func (w *Window) All() float64 { return float64(w.all.Load()) / parts }

// Total returns the sum over the minute before at (ns).
func (w *Window) Total(at int64) float64 { return w.over(windowSeconds, at) }

// Lately returns the sum over the ten seconds before at (ns).
func (w *Window) Lately(at int64) float64 { return w.over(latelySeconds, at) }

func (w *Window) over(seconds, at int64) float64 {
	second := at / int64(time.Second)
	var sum int64
	for i := range w.buckets {
		if b := &w.buckets[i]; second-b.second.Load() < seconds {
			sum += b.sum.Load()
		}
	}
	return float64(sum) / parts
}
