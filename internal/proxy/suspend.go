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
// weights (cluster.routing.weighted.strict). The times are not moved when the system's clock is set.
type suspension struct {
	until atomic.Pointer[time.Time] // when searches try again; nil while nothing is forbidden
	asked atomic.Pointer[time.Time] // when a probe last tried; nil: never
}

// holds reports whether rewriting is suspended.
func (s *suspension) holds(now time.Time) bool { return isBefore(now, &s.until) }

// isBefore reports whether there is a moment, and now is before it.
func isBefore(now time.Time, moment *atomic.Pointer[time.Time]) bool {
	at := moment.Load()
	return at != nil && now.Before(*at)
}

// holdsProbe is holds for probes. One is let through from time to time, so that no
// client's search is used for finding out.
func (s *suspension) holdsProbe(now time.Time) bool {
	if !s.holds(now) {
		return false
	}
	return !isDue(now, &s.asked, askAgain)
}

// isDue reports whether so much time has passed since the last time that it was due. Of several callers at once one is
// told so.
func isDue(now time.Time, last *atomic.Pointer[time.Time], after time.Duration) bool {
	before := last.Load()
	if before != nil && now.Sub(*before) < after {
		return false
	}
	at := now // only here it needs memory of its own
	return last.CompareAndSwap(before, &at)
}

// suspend suspends rewriting.
func (p *Proxy) suspend() {
	now := time.Now()
	p.suspended.asked.Store(&now)
	if p.suspended.until.Swap(new(now.Add(suspendFor))) == nil {
		p.o.Logger.Warn("the cluster forbids node preferences (cluster.routing.weighted.strict): searches pass unchanged until it allows them")
	}
}

// allowed records that the cluster accepted a node preference.
func (p *Proxy) allowed() {
	if p.suspended.until.Load() == nil {
		return
	}
	p.o.Selector.Permitted() // before searches are steered
	if p.suspended.until.Swap(nil) != nil {
		p.o.Logger.Info("the cluster allows node preferences again: searches are steered")
	}
}
