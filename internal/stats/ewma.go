// Package stats holds averages and sums that many goroutines update and read without a
// lock. Zero values are ready for use. It is pure: time is an argument.
package stats

import (
	"math"
	"sync/atomic"
)

// alpha is the weight of a new sample in every average; the value of
// Elasticsearch's adaptive replica selection.
const alpha = 0.3

// EWMA is an exponentially weighted moving average. Its zero value has no sample.
type EWMA struct{ bits atomic.Uint64 }

// Value returns the average and whether there was a sample at all.
func (e *EWMA) Value() (float64, bool) {
	b := e.bits.Load()
	v := math.Float64frombits(b)
	if v < negligible {
		v = 0
	}
	return v, b != 0
}

// Mean returns the average, 0 if there was no sample.
func (e *EWMA) Mean() float64 {
	v, _ := e.Value()
	return v
}

// negligible is where an average has decayed to zero for all purposes.
const negligible = 1e-6

// Observe adds a sample: v ← α·sample + (1−α)·v. The first sample is taken as it is.
// Negative and non-finite samples are not averaged: they can only be mistakes.
func (e *EWMA) Observe(sample float64) {
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

// Reset removes every sample.
func (e *EWMA) Reset() { e.bits.Store(0) }

// Sample returns the sample that moved such an average from before to now.
func Sample(before, now float64) float64 { return (now - (1-alpha)*before) / alpha }

// Number is a float64.
type Number struct{ bits atomic.Uint64 }

// Value returns the number.
func (n *Number) Value() float64 { return math.Float64frombits(n.bits.Load()) }

// Set sets the number.
func (n *Number) Set(v float64) { n.bits.Store(math.Float64bits(v)) }
