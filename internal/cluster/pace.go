package cluster

import (
	"context"
	"math"
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

// pace spaces the polls of one poller: at the usual interval, or the longer one that
// the ceiling of the node leaves, while searches are decided that it serves; else
// more rarely, while none is decided at all at intervals that double up to longest.
type pace struct {
	attention *attention
	need      *need
	ceiling   *ceiling
	longest   time.Duration
	now       time.Duration
}

func (c *Cluster) newPace(n *need) *pace {
	return &pace{
		attention: c.attention, need: n, ceiling: newCeiling(),
		longest: max(c.o.StatsIdleInterval, c.o.StatsInterval), now: c.o.StatsInterval,
	}
}

// wait waits until the poll after the one that started then and ended like this.
// It reports false if ctx ended.
func (p *pace) wait(ctx context.Context, started time.Time, state PollState) bool {
	now := time.Now()
	idle, wake := p.attention.look(now)
	usual := time.Duration(p.need.usual.Load())
	interval := p.ceiling.stretch(usual)
	p.need.rate.Store(math.Float64bits(p.ceiling.rate))
	stretched := interval > usual
	p.now = min(2*p.now, p.longest)
	switch {
	case idle:
		interval = max(interval, p.now)
	case p.need.rare.Load():
		interval = max(interval, p.longest)
	default:
		p.now = usual
	}
	p.need.interval.Store(int64(interval))
	if state == PollUnresponsive && !stretched && !p.need.rare.Load() {
		return p.pause(ctx, retryPause, wake)
	}
	// A pause is kept also after polls that took longer than the interval.
	return p.pause(ctx, max(jitter(interval)-now.Sub(started), usual/5), wake)
}

// pause waits for a while, for the first search of all or for the first that the
// node serves. It reports false if ctx ended.
func (p *pace) pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-p.need.wake:
	case <-t.C:
	}
	return true
}
