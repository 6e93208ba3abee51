package proxy

import (
	"sync/atomic"
	"time"
)

const (
	// suspendFor is how long rewriting is suspended after the cluster forbade
	// preferences, unless a probe finds earlier that they are allowed again.
	suspendFor = time.Minute
	// askAgain is the least time between two such probes.
	askAgain = 2 * time.Second
)

// suspension is the state of that. OpenSearch forbids node preferences while zones have
// weights (cluster.routing.weighted.strict). Times are in Unix nanoseconds.
type suspension struct {
	until atomic.Int64 // when searches try again; 0 while nothing is forbidden
	asked atomic.Int64 // when a probe last tried
}

// holds reports whether rewriting is suspended.
func (s *suspension) holds(now time.Time) bool { return now.UnixNano() < s.until.Load() }

// holdsProbe is holds for probes. One is let through from time to time, so that no
// client's search is used for finding out.
func (s *suspension) holdsProbe(now time.Time) bool {
	if !s.holds(now) {
		return false
	}
	last := s.asked.Load()
	return now.UnixNano()-last < int64(askAgain) || !s.asked.CompareAndSwap(last, now.UnixNano())
}

// suspend suspends rewriting.
func (p *Proxy) suspend() {
	now := time.Now()
	p.suspended.asked.Store(now.UnixNano())
	if p.suspended.until.Swap(now.Add(suspendFor).UnixNano()) == 0 {
		p.o.Logger.Warn("the cluster forbids node preferences (cluster.routing.weighted.strict): searches pass unchanged until it allows them")
	}
}

// allowed records that the cluster accepted a node preference.
func (p *Proxy) allowed() {
	if p.suspended.until.Load() != 0 && p.suspended.until.Swap(0) != 0 {
		p.o.Logger.Info("the cluster allows node preferences again: searches are steered")
	}
}
