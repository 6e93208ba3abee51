package proxy

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// series caches the series of a vector, so that requests do not look them up by their
// label values. Labels are from closed sets, so there are few. It is safe for concurrent
// use; only a new series takes the lock.
type series[T any] struct {
	resolve func(labels ...string) T

	mu    sync.Mutex
	known atomic.Pointer[map[[3]string]T]
}

// counters are the series of a counter.
type counters struct {
	*prometheus.CounterVec
	series[prometheus.Counter]
}

func newCounters(v *prometheus.CounterVec) *counters {
	return &counters{CounterVec: v, series: series[prometheus.Counter]{resolve: v.WithLabelValues}}
}

func newObservers(v *prometheus.HistogramVec) *series[prometheus.Observer] {
	return &series[prometheus.Observer]{resolve: v.WithLabelValues}
}

// with returns the series of these labels, at most three.
func (s *series[T]) with(labels ...string) T {
	var key [3]string
	copy(key[:], labels)
	if known := s.known.Load(); known != nil {
		if one, ok := (*known)[key]; ok {
			return one
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[[3]string]T{}
	if known := s.known.Load(); known != nil {
		next = maps.Clone(*known)
	}
	one := s.resolve(labels...)
	next[key] = one
	s.known.Store(&next)
	return one
}
