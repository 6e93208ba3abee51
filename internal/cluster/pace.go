package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// idleAfter is for how long no search may have been decided until the nodes are
	// measured less often.
	idleAfter = 10 * time.Second
	// touchGrain is how exactly it is known when the last search was decided.
	touchGrain = time.Second
	// retryPause follows a poll that the deadline ended: a node that answers again
	// is to be seen soon.
	retryPause = 50 * time.Millisecond
)

// attention knows whether searches are being decided, so that statistics matter.
type attention struct {
	touched atomic.Bool // a search was decided since the last look

	mu   sync.Mutex
	last time.Time // when a search was last known of
	idle bool
	wake chan struct{} // closed when a search ends idleness
}

func newAttention(now time.Time) *attention {
	return &attention{last: now, wake: make(chan struct{})}
}

// touch says that a search is being decided. All but the first after a look cost
// one atomic load.
func (a *attention) touch() {
	if a.touched.Load() {
		return
	}
	a.touched.Store(true)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.idle {
		return
	}
	a.idle, a.last = false, time.Now()
	close(a.wake)
	a.wake = make(chan struct{})
}

// look reports whether there has been no search for a while, and returns what is
// closed at the first one after that.
func (a *attention) look(now time.Time) (idle bool, wake <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Looking more rarely keeps searches from writing what they all read.
	if now.Sub(a.last) >= touchGrain && a.touched.Swap(false) {
		a.last = now
	}
	a.idle = now.Sub(a.last) >= idleAfter
	return a.idle, a.wake
}

// pace spaces the polls of one poller: at the usual interval while searches are
// decided, else at intervals that double up to the longest.
type pace struct {
	attention      *attention
	usual, longest time.Duration
	now            time.Duration
}

func (c *Cluster) newPace() *pace {
	return &pace{
		attention: c.attention,
		usual:     c.o.StatsInterval, longest: max(c.o.StatsIdleInterval, c.o.StatsInterval),
		now: c.o.StatsInterval,
	}
}

// wait waits until the poll after the one that started then and ended like this.
// It reports false if ctx ended.
func (p *pace) wait(ctx context.Context, started time.Time, state PollState) bool {
	now := time.Now()
	idle, wake := p.attention.look(now)
	if idle {
		p.now = min(2*p.now, p.longest)
	} else {
		p.now = p.usual
	}
	if state == PollUnresponsive {
		return waitHint(ctx, retryPause, wake)
	}
	// A pause is kept also after polls that took longer than the interval.
	return waitHint(ctx, max(jitter(p.now)-now.Sub(started), p.usual/5), wake)
}
