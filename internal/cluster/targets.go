package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/benbjohnson/immutable"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

const (
	// maxTargets and maxTargetShards bound the memory that resolved targets take, and
	// maxMissing that of targets that the engine does not know, and of those that could not be looked up.
	maxTargets      = 10_000
	maxTargetShards = 1_000_000
	maxMissing      = 2000
	queueLength     = 1000
	// keptFor is for how long a target that was used is kept before all others.
	keptFor = time.Minute
	// unknownRate is how many targets that are not known to resolve may be looked up in a
	// second: clients can make up any number. What came in at once, as after the start,
	// may be unknownBurst.
	unknownRate  = 20
	unknownBurst = 200
	// missingPause is the least time between two look-ups of a target that the engine
	// does not know. It is shorter than the usual pause between two looks at the version
	// of the cluster state: one that was created is found as soon as that is seen to move.
	missingPause = 500 * time.Millisecond
)

// Targets is a cache of what targets stand for, and the queues of those that are to be
// looked up.
type Targets struct {
	metrics *storeMetrics
	fresh   chan LookUp   // targets of which nobody knows whether they are anything
	again   chan LookUp   // those that are known to resolve
	unknown *rate.Limiter // of look-ups of the first kind

	mu       sync.Mutex
	resolved *simplelru.LRU[LookUp, *target]
	missing  *simplelru.LRU[LookUp, Absence]   // what the engine refused
	failed   *simplelru.LRU[LookUp, time.Time] // what could not be looked up, and until when it rests
	known    *immutable.Map[LookUp, *target]   // of resolved, what snapshots are to know
	shards   int                               // held by resolved
	queued   map[LookUp]bool
}

// Absence is when a target, or an index, was asked about that the engine does not know.
type Absence struct {
	Version int64 // of the cluster state
	At      time.Time
}

// Holds reports whether a target need not be looked up for it to be known that it is
// still missing at this version.
func (a Absence) Holds(version int64, now time.Time) bool {
	age := now.Sub(a.At)
	return age < missingPause || a.Version >= version && age < lookUpMaxAge
}

func newTargets(m *storeMetrics) *Targets {
	c := &Targets{
		metrics: m, fresh: make(chan LookUp, queueLength), again: make(chan LookUp, queueLength), queued: map[LookUp]bool{},
		unknown: rate.NewLimiter(unknownRate, unknownBurst),
	}
	c.known = immutable.NewMap[LookUp, *target](newHasher[LookUp]())
	resolved, err := simplelru.NewLRU(maxTargets, func(t LookUp, l *target) {
		c.shards -= len(l.Shards)
		c.known = c.known.Delete(t)
	})
	missing, errMissing := simplelru.NewLRU[LookUp, Absence](maxMissing, nil)
	failed, errFailed := simplelru.NewLRU[LookUp, time.Time](maxMissing, nil)
	if err := errors.Join(err, errMissing, errFailed); err != nil {
		panic(err) // only for a size that is not positive
	}
	c.resolved, c.missing, c.failed = resolved, missing, failed
	return c
}

// Next waits for a look-up that is to be made: one of a target that is known to
// resolve, or if there is none, and fresh allows it, of another. It reports false if
// ctx ended.
func (c *Targets) Next(ctx context.Context, fresh bool) (t LookUp, ok bool) {
	var unknown <-chan LookUp
	if fresh {
		unknown = c.fresh
	}
	select {
	case t = <-c.again:
		return t, true
	default:
	}
	select {
	case <-ctx.Done():
		return t, false
	case t = <-c.again:
	case t = <-unknown:
	}
	return t, true
}

// Waiting returns how many look-ups are queued.
func (c *Targets) Waiting() int { return len(c.fresh) + len(c.again) }

// enqueue queues a look-up unless it is queued or was made at this version. Targets
// that are not known to resolve are queued at a bounded rate.
func (c *Targets) enqueue(t LookUp, version int64) {
	if !t.Valid() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l, ok := c.resolved.Peek(t); c.queued[t] || c.rests(t) || ok && l.Version >= version {
		return
	}
	if a, ok := c.missing.Peek(t); ok && a.Holds(version, time.Now()) {
		return
	}
	if c.admit(t) {
		c.push(t)
	}
}

// renew queues a look-up although its result is known, unless it rests.
func (c *Targets) renew(t LookUp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.queued[t] && !c.rests(t) {
		c.push(t)
	}
}

// Admits reports whether a look-up may be made now, on the terms of those that are
// queued.
func (c *Targets) Admits(t LookUp) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.rests(t) && c.admit(t)
}

// rests reports whether the look-up of a target failed so lately that it is not to be made again yet.
func (c *Targets) rests(t LookUp) bool {
	until, ok := c.failed.Peek(t)
	return ok && time.Now().Before(until)
}

// admit tells whether there may be one more look-up of a target that is not known to resolve.
func (c *Targets) admit(t LookUp) bool {
	if c.resolves(t) || c.unknown.Allow() {
		return true
	}
	c.metrics.lookUps.WithLabelValues(lookUpThrottled).Inc()
	return false
}

// resolves reports whether a target is known to stand for something.
func (c *Targets) resolves(t LookUp) bool {
	l, ok := c.resolved.Peek(t)
	return ok && l.resolves()
}

func (c *Targets) push(t LookUp) {
	queue := c.fresh
	if t.Of == OfPlacement || c.resolves(t) {
		queue = c.again
	}
	select {
	case queue <- t:
		c.queued[t] = true
	default:
		c.metrics.lookUps.WithLabelValues(lookUpDropped).Inc()
	}
}

// LookedUp keeps what a look-up found, and reports whether that is something new. It is
// nil if that says nothing of the target.
func (c *Targets) LookedUp(t LookUp, found *Resolved) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.queued, t)
	if t.Of != OfPlacement {
		c.metrics.lookUps.WithLabelValues(found.result(t.Of)).Inc()
	}
	if found == nil {
		return false
	}
	if found.Failed {
		c.failed.Add(t, found.restsUntil())
		return false
	}
	c.failed.Remove(t)
	defer func() { c.metrics.targets.Set(float64(c.resolved.Len())) }()
	if found.Unknown {
		c.missing.Add(t, Absence{Version: found.Version, At: found.At})
		return c.resolved.Remove(t)
	}
	c.missing.Remove(t)
	before, ok := c.resolved.Peek(t)
	if ok && before.same(found) {
		before.Version, before.At, before.Took = found.Version, found.At, found.Took
		return false
	}
	l := &target{Resolved: *found, names: found.Indices()}
	if ok {
		l.usedAt.Store(before.usedAt.Load())
		c.resolved.Remove(t)
	}
	c.makeRoom(len(l.Shards))
	c.resolved.Add(t, l)
	c.known = c.known.Set(t, l)
	c.shards += len(l.Shards)
	return true
}

// makeRoom forgets targets until another one with so many shards has room. What
// was used lately goes last: others may have been made up.
func (c *Targets) makeRoom(shards int) {
	since := time.Now().Add(-keptFor).Unix()
	unseen := c.resolved.Len()
	for c.resolved.Len() > 0 && (c.resolved.Len() >= maxTargets || c.shards+shards > maxTargetShards) {
		t, l, _ := c.resolved.GetOldest()
		if unseen > 0 && l.resolves() && l.usedAt.Load() >= since {
			c.resolved.Get(t) // the others come first
		} else {
			c.resolved.Remove(t)
		}
		unseen--
	}
}

// forSnapshot returns what was resolved.
func (c *Targets) forSnapshot() *immutable.Map[LookUp, *target] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// recall returns what was found at this version or later, and after this time, or so lately for what it costs that it is
// not to be looked up again, or that the engine does not know the target; nil if none of that is known.
func (c *Targets) recall(t LookUp, version int64, after time.Time) *Resolved {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if a, ok := c.missing.Peek(t); ok && a.At.After(after) && a.Holds(version, now) {
		return &Resolved{Unknown: true, Version: a.Version, At: a.At}
	}
	l, ok := c.resolved.Get(t)
	if !ok || (l.Version < version || l.At.Before(after)) && !l.tooDear(now) {
		return nil
	}
	found := l.Resolved
	return &found
}

// triedAt returns when the target was last looked up, or was to be.
func (l *target) triedAt() time.Time {
	if l.tried.After(l.At) {
		return l.tried
	}
	return l.At
}

// upToDate returns what was found at this version or later, or just now, or what is in use, and so looked up again whenever
// the version moves; nil if that is not so. It does not mark it as used. Where much is in use the turn of each may be long
// to come: what is asked for here is looked up again at once.
func (c *Targets) upToDate(t LookUp, version int64, now time.Time) *target {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.resolved.Peek(t)
	if !ok {
		return nil
	}
	switch age := now.Sub(l.At); {
	case l.Version >= version, age < justNow:
	case !l.used.Load(), age >= lookUpMaxAge:
		return nil
	case now.Sub(l.triedAt()) >= justNow && c.mayAgain(t, l, now) && c.admit(t):
		l.tried = now
		c.push(t)
	}
	return l
}

// mayAgain reports whether a target that is known may be looked up again: it is not queued, and neither failed lately nor
// is too dear.
func (c *Targets) mayAgain(t LookUp, l *target, now time.Time) bool {
	return !c.queued[t] && !c.rests(t) && !l.tooDear(now)
}

// lacks reports whether the engine knows no such target at this version, or refused to tell.
func (c *Targets) lacks(t LookUp, version int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.missing.Peek(t)
	return ok && a.Holds(version, time.Now())
}

// usedSince adds the indices that targets in use stand for to names.
func (c *Targets) usedSince(since time.Time, names map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.resolved.Values() {
		if l.usedAt.Load() >= since.Unix() {
			for _, name := range l.names {
				names[name] = true
			}
		}
	}
}

// clear forgets everything.
func (c *Targets) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resolved.Purge()
	c.missing.Purge()
	c.failed.Purge()
	c.known, c.shards = immutable.NewMap[LookUp, *target](newHasher[LookUp]()), 0
	c.metrics.targets.Set(0)
}

// outdated returns up to limit look-ups of targets in use that were last made before
// this version or this time, and as many that did not resolve as may be made.
// What was used since the last call becomes the most recently used. What is not in use any
// more keeps no plan.
func (c *Targets) outdated(version int64, before time.Time, limit int) []LookUp {
	c.mu.Lock()
	defer c.mu.Unlock()
	type one struct {
		LookUp
		*target
	}
	var known []one
	var due []LookUp
	unused := time.Now().Add(-UseExpiry).Unix()
	for _, key := range c.resolved.Keys() {
		l, _ := c.resolved.Peek(key)
		if l.usedAt.Load() < unused {
			l.joined.Store(nil) // plans are for what is searched
		}
		if !l.used.Load() {
			continue
		}
		c.resolved.Get(key)
		if l.Version >= version && l.At.After(before) {
			l.used.Store(false)
			continue
		}
		if !c.mayAgain(key, l, time.Now()) {
			continue
		}
		if l.resolves() {
			known = append(known, one{key, l})
		} else if c.unknown.Allow() {
			due = append(due, key)
		}
	}
	slices.SortStableFunc(known, func(a, b one) int { return a.triedAt().Compare(b.triedAt()) }) // each has its turn, however fast the version moves
	for _, k := range known[:min(len(known), limit)] {
		k.tried = time.Now()
		due = append(due, k.LookUp)
	}
	return due
}
