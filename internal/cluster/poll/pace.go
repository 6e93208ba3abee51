package poll

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/internal/cluster"
)

const (
	// idleAfter is for how long no search may have been decided until the nodes are
	// measured less often.
	idleAfter = 10 * time.Second
	// touchGrain is how exactly it is known when the last search was decided.
	touchGrain = time.Second
	// calmFactor is how many times as long as usual nodes are left alone while nothing goes by what polls tell, as the
	// engine chooses all copies by itself.
	calmFactor = 4
	// retryPause follows a poll that the deadline ended: a node that answers again
	// is to be seen soon.
	retryPause = 50 * time.Millisecond
)

// activity knows whether searches are being decided, so that statistics matter.
type activity struct {
	touched atomic.Bool // a search was decided since the last look

	mu   sync.Mutex
	last time.Time // when a search was last known of
	idle bool
	wake chan struct{} // closed when a search ends idleness
}

func newActivity(now time.Time) *activity {
	return &activity{last: now, wake: make(chan struct{})}
}

// touch says that a search is being decided. All but the first after a look cost
// one atomic load.
func (a *activity) touch() {
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
func (a *activity) look(now time.Time) (idle bool, wake <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Looking more rarely keeps searches from writing what they all read.
	if now.Sub(a.last) >= touchGrain && a.touched.Swap(false) {
		a.last = now
	}
	a.idle = now.Sub(a.last) >= idleAfter
	return a.idle, a.wake
}

// Pace spaces the polls of one poller. They come at the usual interval, or the longer one that the ceiling of the node
// leaves. While nothing goes by what they tell it is calmFactor times the usual one at least. While no search is decided
// the interval doubles, up to longest, which is also that of nodes that serve nothing searched.
type Pace struct {
	activity *activity
	schedule *schedule
	ceiling  *ceiling
	longest  time.Duration
	now      time.Duration
	needed   func() bool // whether what the polls tell matters
}

// newPace returns the pace of the polls of a node; if none is named, of those of all nodes at once.
func (p *Poller) newPace(n *schedule, node ...string) *Pace {
	return &Pace{
		activity: p.activity, schedule: n, ceiling: newCeiling(),
		longest: max(p.o.StatsIdleInterval, p.o.StatsInterval), now: p.o.StatsInterval, needed: func() bool { return p.needed(node) },
	}
}

// needed reports whether anything may go by what polls of these nodes tell, or of any if none is named, here or where others
// read them.
func (p *Poller) needed(nodes []string) bool {
	if p.o.Needed == nil || time.Now().UnixNano()-p.othersAt.Load() < int64(idleAfter) {
		return true
	}
	switch s := p.Snapshot(); {
	case s == nil:
		return true // the first poll is to come as soon as something is known
	case len(nodes) == 0:
		return slices.ContainsFunc(s.Nodes, func(n *cluster.Node) bool { return p.o.Needed(n.ID) })
	}
	return slices.ContainsFunc(nodes, p.o.Needed)
}

// NewPace returns the pace of one who asks in place of the pollers: a relay's follower.
func (p *Poller) NewPace() *Pace {
	pace := p.newPace(newSchedule(p.o.StatsInterval))
	pace.needed = func() bool { return true } // a report costs no node anything
	return pace
}

// begin waits before the first poll, if so many sidesteps poll a node with so many processors that each has to do so rarely:
// all whose relay falls silent begin in the same moment. It reports false if ctx ended.
func (p *Pace) begin(ctx context.Context, sidesteps int, processors float64) bool {
	usual := time.Duration(p.schedule.usual.Load())
	p.ceiling.expect(sidesteps, processors, usual)
	p.schedule.rate.Store(math.Float64bits(p.ceiling.rate))
	longer := p.ceiling.stretch(usual)
	p.schedule.interval.Store(int64(longer))
	// What the relay told last must not be too old until then to go by.
	return longer == usual || Sleep(ctx, rand.N(min(longer, ceilingInterval/2)))
}

// Wait waits until the poll after the one that started then and ended with err. Where the account is refused it waits
// twice as long each time: each refusal costs the engine the check of a password. It reports false if ctx ended.
func (p *Pace) Wait(ctx context.Context, started time.Time, err error) bool {
	now := time.Now()
	idle, wake := p.activity.look(now)
	usual := time.Duration(p.schedule.usual.Load())
	interval := p.ceiling.stretch(usual)
	p.schedule.rate.Store(math.Float64bits(p.ceiling.rate))
	stretched := interval > usual
	refused := stateOf(err) == StateUnauthorized
	longest := p.longest
	if refused {
		longest = max(longest, ceilingInterval)
	}
	p.now = min(2*p.now, longest)
	least := time.Duration(0) // between polls that nothing goes by
	switch {
	case refused, idle:
		interval = max(interval, p.now)
	case p.schedule.rare.Load():
		interval = max(interval, p.longest)
	default:
		p.now = usual
		if !p.needed() {
			least = min(calmFactor*usual, p.longest)
		}
	}
	p.schedule.interval.Store(int64(interval)) // as it is as soon as something goes by them
	p.ceiling.spare(float64(least) / float64(interval))
	// A pause is kept also after polls that took longer than the interval.
	pause := max(Jitter(max(interval, least))-now.Sub(started), usual/5)
	if pollState(err) == cluster.PollUnresponsive && !stretched && !p.schedule.rare.Load() {
		pause = retryPause
	}
	return wait(ctx, pause, wake, p.schedule.wake) // the first search of all wakes it up, and the first that the node serves
}

// Sleep waits, and reports false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool { return wait(ctx, d, nil, nil) }

// wait waits for a while, or for one of two hints; nil is none. It reports false if ctx ended first.
func wait(ctx context.Context, d time.Duration, hint, other <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-hint:
	case <-other:
	case <-t.C:
	}
	return true
}
