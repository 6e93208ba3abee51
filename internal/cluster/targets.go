package cluster

import (
	"errors"
	"sync"
	"time"

	"github.com/benbjohnson/immutable"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

const (
	// maxTargets and maxTargetShards bound the memory that learned targets take, and
	// maxMissing that of targets that the engine does not know.
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

// school keeps what was learned of targets, and what is to be learned.
type school struct {
	metrics *metrics
	queue   chan topic    // topics of which nobody knows whether they are anything
	again   chan topic    // those that are known to resolve
	unknown *rate.Limiter // of look-ups of the first kind

	mu      sync.Mutex
	lessons *simplelru.LRU[topic, *lesson]
	missing *simplelru.LRU[topic, absence] // what the engine refused
	known   *immutable.Map[topic, *lesson] // of lessons, what snapshots are to know
	shards  int                            // held by lessons
	queued  map[topic]bool
}

// absence is when a topic was looked up that the engine does not know.
type absence struct {
	version int64 // of the cluster state
	at      time.Time
	refused bool // it may be there
}

// holds reports whether a topic need not be looked up for it to be known that it is
// still missing at this version.
func (a absence) holds(version int64, now time.Time) bool {
	age := now.Sub(a.at)
	return age < missingPause || a.version >= version && age < lessonMaxAge
}

func newSchool(m *metrics) *school {
	s := &school{
		metrics: m, queue: make(chan topic, queueLength), again: make(chan topic, queueLength), queued: map[topic]bool{},
		unknown: rate.NewLimiter(unknownRate, unknownBurst),
	}
	s.known = immutable.NewMap[topic, *lesson](newHasher[topic]())
	lessons, err := simplelru.NewLRU(maxTargets, func(t topic, l *lesson) {
		s.shards -= len(l.shards)
		s.known = s.known.Delete(t)
	})
	missing, errMissing := simplelru.NewLRU[topic, absence](maxMissing, nil)
	if err != nil || errMissing != nil {
		panic(errors.Join(err, errMissing)) // only for a size that is not positive
	}
	s.lessons, s.missing = lessons, missing
	return s
}

// enrol queues a topic unless it is queued or was looked up at this version. Topics
// that are not known to resolve are queued at a bounded rate.
func (s *school) enrol(t topic, version int64) {
	if len(t.Expression)+len(t.Routing) > maxTargetLength {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.lessons.Peek(t); s.queued[t] || ok && l.version >= version {
		return
	}
	if a, ok := s.missing.Peek(t); ok && a.holds(version, time.Now()) {
		return
	}
	if s.admit(t) {
		s.push(t)
	}
}

// renew queues a topic although it is known.
func (s *school) renew(t topic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.queued[t] {
		s.push(t)
	}
}

// admits reports whether a topic may be looked up now.
func (s *school) admits(t topic) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admit(t)
}

// admit is admits for who holds the mutex.
func (s *school) admit(t topic) bool {
	if s.resolves(t) || s.unknown.Allow() {
		return true
	}
	s.metrics.learns.WithLabelValues(string(learnThrottled)).Inc()
	return false
}

// resolves reports whether a topic is known to stand for something.
func (s *school) resolves(t topic) bool {
	l, ok := s.lessons.Peek(t)
	return ok && l.resolves()
}

func (s *school) push(t topic) {
	queue := s.queue
	if t.of == aboutPlacement || s.resolves(t) {
		queue = s.again
	}
	select {
	case queue <- t:
		s.queued[t] = true
	default:
		s.metrics.learns.WithLabelValues(string(learnDropped)).Inc()
	}
}

// learned keeps a lesson, and reports whether it tells something new. It is nil
// if the look-up failed: what was known stays.
func (s *school) learned(t topic, l *lesson) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.queued, t)
	if l == nil {
		return false
	}
	defer func() { s.metrics.learnedTarget.Set(float64(s.lessons.Len())) }()
	if l.unknown {
		s.missing.Add(t, absence{version: l.version, at: l.at, refused: l.refused})
		return s.lessons.Remove(t)
	}
	s.missing.Remove(t)
	if before, ok := s.lessons.Peek(t); ok {
		if before.same(l) {
			before.version, before.at, before.took = l.version, l.at, l.took
			return false
		}
		l.usedAt.Store(before.usedAt.Load())
		s.lessons.Remove(t)
	}
	s.makeRoom(len(l.shards))
	s.lessons.Add(t, l)
	s.known = s.known.Set(t, l)
	s.shards += len(l.shards)
	return true
}

// makeRoom forgets targets until another one with so many shards has room. What
// was used lately goes last: others may have been made up.
func (s *school) makeRoom(shards int) {
	since := time.Now().Add(-keptFor).Unix()
	unseen := s.lessons.Len()
	for s.lessons.Len() > 0 && (s.lessons.Len() >= maxTargets || s.shards+shards > maxTargetShards) {
		t, l, _ := s.lessons.GetOldest()
		if unseen > 0 && l.resolves() && l.usedAt.Load() >= since {
			s.lessons.Get(t) // the others come first
		} else {
			s.lessons.Remove(t)
		}
		unseen--
	}
}

// forSnapshot returns what was learned.
func (s *school) forSnapshot() *immutable.Map[topic, *lesson] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

// recall returns a lesson that was looked up at this version or later, and after
// this time, or that the engine does not know the topic; nil if there is none. It also
// returns at which version.
func (s *school) recall(t topic, version int64, after time.Time) (*lesson, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.missing.Peek(t); ok && a.at.After(after) && a.holds(version, time.Now()) {
		return &lesson{unknown: true}, a.version
	}
	l, ok := s.lessons.Get(t)
	if !ok || l.version < version || l.at.Before(after) {
		return nil, 0
	}
	return l, l.version
}

// usedSince adds the indices that lessons in use are about to names.
func (s *school) usedSince(since time.Time, names map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lessons.Values() {
		if l.usedAt.Load() < since.Unix() {
			l.joined.Store(nil) // plans are for what is searched
			continue
		}
		for _, name := range l.indices() {
			names[name] = true
		}
	}
}

// dismiss forgets everything.
func (s *school) dismiss() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lessons.Purge()
	s.missing.Purge()
	s.known, s.shards = immutable.NewMap[topic, *lesson](newHasher[topic]()), 0
	s.metrics.learnedTarget.Set(0)
}

// outdated returns up to limit topics in use that were last looked up before
// this version or this time, and as many that did not resolve as may be looked up.
// What was used since the last call becomes the most recently used.
func (s *school) outdated(version int64, before time.Time, limit int) []topic {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []topic
	for _, key := range s.lessons.Keys() {
		l, ok := s.lessons.Peek(key)
		if !ok || !l.used.Load() {
			continue
		}
		s.lessons.Get(key)
		if l.version >= version && l.at.After(before) {
			l.used.Store(false)
			continue
		}
		if s.queued[key] || time.Since(l.at) < costFactor*l.took {
			continue
		}
		if resolves := l.resolves(); resolves && limit > 0 {
			due = append(due, key)
			limit--
		} else if !resolves && s.unknown.Allow() {
			due = append(due, key)
		}
	}
	return due
}
