package proxy

import (
	"sync/atomic"
	"time"
)

const (
	// suspendFor is how long rewriting rests after the cluster forbade it, unless a
	// probe finds out before that it is allowed again.
	suspendFor = time.Minute
	// askAgain is the least time between two probes that find that out.
	askAgain = 2 * time.Second
)

// suspension is the rest that rewriting takes after the cluster forbade node
// preferences: OpenSearch does so while zones have weights
// (cluster.routing.weighted.strict). Times are in Unix nanoseconds.
type suspension struct {
	until atomic.Int64 // when searches try again; 0 while nothing is forbidden
	asked atomic.Int64 // when a probe last tried
}

// holds reports whether no search is to be rewritten.
func (s *suspension) holds(now time.Time) bool { return now.UnixNano() < s.until.Load() }

// holdsProbe is holds for probes, of which one is let through now and then: no
// client pays for finding out.
func (s *suspension) holdsProbe(now time.Time) bool {
	if !s.holds(now) {
		return false
	}
	last := s.asked.Load()
	return now.UnixNano()-last < int64(askAgain) || !s.asked.CompareAndSwap(last, now.UnixNano())
}

// suspend stops rewriting for a while.
func (p *Proxy) suspend() {
	now := time.Now()
	p.suspended.asked.Store(now.UnixNano())
	if p.suspended.until.Swap(now.Add(suspendFor).UnixNano()) == 0 {
		p.o.Logger.Warn("the cluster forbids node preferences (cluster.routing.weighted.strict): searches pass unchanged until it allows them")
	}
}

// allowed notes that the cluster accepted a node preference.
func (p *Proxy) allowed() {
	if p.suspended.until.Load() != 0 && p.suspended.until.Swap(0) != 0 {
		p.o.Logger.Info("the cluster allows node preferences again: searches are steered")
	}
}
