package selection

import (
	"math"
	"sync/atomic"
	"time"
)

// decaying is a count whose entries fade: each weighs e^(−age/τ). Time, in units
// of 100 µs, and value share one word, so that it is updated without a lock; the
// time wraps every five days, which matters only to a node idle for as long.
type decaying struct{ word atomic.Uint64 }

const decayingUnit = 100 * time.Microsecond

// add adds count at the moment at (ns); what was there fades with τ.
func (d *decaying) add(count float64, at int64, tau time.Duration) {
	for {
		old := d.word.Load()
		v := fade(old, at, tau) + count
		now := uint64(uint32(at / int64(decayingUnit)))
		if d.word.CompareAndSwap(old, now<<32|uint64(math.Float32bits(float32(v)))) {
			return
		}
	}
}

// value returns the count at the moment at (ns).
func (d *decaying) value(at int64, tau time.Duration) float64 { return fade(d.word.Load(), at, tau) }

func fade(word uint64, at int64, tau time.Duration) float64 {
	v := float64(math.Float32frombits(uint32(word)))
	if v == 0 || tau <= 0 {
		return 0
	}
	age := int32(uint32(at/int64(decayingUnit)) - uint32(word>>32))
	return v * math.Exp(-float64(max(0, age))*float64(decayingUnit)/float64(tau))
}

// windowSeconds is how far back a window reaches.
const windowSeconds = 60

// window sums what was added during the last minute, in seconds. Two
// goroutines that enter a new second at once may lose an addition: it serves a
// share shown to people, not a decision.
type window struct {
	buckets [windowSeconds]struct {
		second atomic.Int64
		sum    atomic.Int64
	}
}

// add adds v at the moment at (ns).
func (w *window) add(at, v int64) {
	second := at / int64(time.Second)
	b := &w.buckets[second%windowSeconds]
	if old := b.second.Load(); old != second && b.second.CompareAndSwap(old, second) {
		b.sum.Store(0)
	}
	b.sum.Add(v)
}

// total returns the sum over the minute before at (ns).
func (w *window) total(at int64) int64 {
	second := at / int64(time.Second)
	var sum int64
	for i := range w.buckets {
		if b := &w.buckets[i]; second-b.second.Load() < windowSeconds {
			sum += b.sum.Load()
		}
	}
	return sum
}
