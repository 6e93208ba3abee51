package selection

import (
	"math"
	"sync/atomic"
)

// alpha is the weight of a new sample in every average; the value of
// Elasticsearch's adaptive replica selection.
const alpha = 0.3

// ewma is an exponentially weighted moving average that many goroutines update
// without a lock. The zero value has seen no sample.
type ewma struct{ bits atomic.Uint64 }

// value returns the average and whether there was a sample at all.
func (e *ewma) value() (float64, bool) {
	b := e.bits.Load()
	v := math.Float64frombits(b)
	if v < negligible {
		v = 0
	}
	return v, b != 0
}

// negligible is where an average has faded to nothing for anybody's purposes.
const negligible = 1e-6

// observe adds a sample: v ← α·sample + (1−α)·v. The first sample is taken as it is.
// Negative and non-finite samples are not averaged: they can only be mistakes.
func (e *ewma) observe(sample float64) {
	if !(sample >= 0) || math.IsInf(sample, 1) {
		return
	}
	for {
		old := e.bits.Load()
		v := sample
		if old != 0 {
			v = alpha*sample + (1-alpha)*math.Float64frombits(old)
		}
		// Zero bits mean "no sample", so an average of zero is stored as the
		// smallest number above it.
		v = max(v, math.SmallestNonzeroFloat64)
		if e.bits.CompareAndSwap(old, math.Float64bits(v)) {
			return
		}
	}
}

// reset forgets every sample.
func (e *ewma) reset() { e.bits.Store(0) }

// number is a float64 that many goroutines read and write without a lock.
type number struct{ bits atomic.Uint64 }

func (n *number) value() float64 { return math.Float64frombits(n.bits.Load()) }
func (n *number) set(v float64)  { n.bits.Store(math.Float64bits(v)) }
