package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// maxTargets and maxTargetShards bound the memory that learned targets take.
	maxTargets      = 10_000
	maxTargetShards = 1_000_000
	// maxTargetLength is the longest expression with routing that is learned: the
	// engines' own limit is 4 kB for the whole request line.
	maxTargetLength = 4096
	// lessonMaxAge is how long a target in use is believed although the cluster
	// state did not move: the node asked may have been behind.
	lessonMaxAge = time.Minute
	// teachers is how many targets are looked up at once.
	teachers = 2
	// lessonPause is the least time between two look-ups of one teacher: however
	// many different routings the clients use, learning stays cheap for the cluster.
	lessonPause = 10 * time.Millisecond
	queueLength = 1000
	// remindAtOnce is how many targets in use are looked up again at each tick
	// after the cluster state moved.
	remindAtOnce = 50
)

// learnResult says how a look-up ended. The set is closed: used as a metric label.
type learnResult string

const (
	learnOK       learnResult = "ok"
	learnEmpty    learnResult = "empty"     // no shards
	learnNotFound learnResult = "not_found" // the engine knows no such target
	learnRefused  learnResult = "refused"   // another 4xx: not a target, or not for us
	learnFailed   learnResult = "failed"    // no answer, overload; asked again on demand
	learnDropped  learnResult = "dropped"   // the queue was full
)

// topic is what can be looked up: the shards that a target stands for, or the
// layout of the index with that name.
type topic struct {
	Target
	layout bool
}

// lesson is what was found out about a topic.
type lesson struct {
	shards     []ShardName
	layout     Layout
	incomplete bool // a shard without an active copy is among them, which is not named
	unknown    bool // the engine refused the target: not asked again at this version
	used       atomic.Bool

	// Guarded by the school's mutex.
	version int64     // of the cluster state when it was last looked up
	at      time.Time // when that was
}

// same reports whether two look-ups found the same.
func (l *lesson) same(o *lesson) bool {
	return l.incomplete == o.incomplete && l.unknown == o.unknown && l.layout == o.layout && slices.Equal(l.shards, o.shards)
}

// markUsed avoids the write when there is nothing to change: readers share the
// cache line.
func (l *lesson) markUsed() {
	if !l.used.Load() {
		l.used.Store(true)
	}
}

// school keeps what was learned of targets, and what is to be learned.
type school struct {
	metrics *metrics
	queue   chan topic

	mu      sync.Mutex
	lessons *simplelru.LRU[topic, *lesson]
	shards  int // held by lessons
	queued  map[topic]bool
}

func newSchool(m *metrics) *school {
	s := &school{metrics: m, queue: make(chan topic, queueLength), queued: map[topic]bool{}}
	lessons, err := simplelru.NewLRU(maxTargets, func(_ topic, l *lesson) { s.shards -= len(l.shards) })
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	s.lessons = lessons
	return s
}

// enrol queues a topic unless it is queued or was looked up at this version.
func (s *school) enrol(t topic, version int64) {
	if len(t.Expression)+len(t.Routing) > maxTargetLength {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.lessons.Peek(t); s.queued[t] || ok && l.version >= version {
		return
	}
	s.push(t)
}

// renew queues a topic although it is known.
func (s *school) renew(t topic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.queued[t] {
		s.push(t)
	}
}

func (s *school) push(t topic) {
	select {
	case s.queue <- t:
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
	if before, ok := s.lessons.Peek(t); ok {
		if before.same(l) {
			before.version, before.at = l.version, l.at
			return false
		}
		s.shards -= len(before.shards) // replacing is not evicting
	}
	s.lessons.Add(t, l)
	s.shards += len(l.shards)
	for s.shards > maxTargetShards && s.lessons.Len() > 1 {
		s.lessons.RemoveOldest()
	}
	s.metrics.learnedTarget.Set(float64(s.lessons.Len()))
	return true
}

// targets returns the lessons for a snapshot. Targets of an earlier snapshot with
// the same placement are kept with the plans they hold; nil if there is none.
func (s *school) targets(before map[Target]*target) map[Target]*target {
	s.mu.Lock()
	defer s.mu.Unlock()
	targets := make(map[Target]*target, s.lessons.Len())
	for _, key := range s.lessons.Keys() {
		l, ok := s.lessons.Peek(key)
		if !ok || l.unknown || key.layout {
			continue
		}
		if t := before[key.Target]; t != nil && t.lesson == l {
			targets[key.Target] = t
			continue
		}
		targets[key.Target] = &target{lesson: l}
	}
	return targets
}

// layouts returns the lessons about layouts, by name, for a snapshot.
func (s *school) layouts() map[string]*lesson {
	s.mu.Lock()
	defer s.mu.Unlock()
	layouts := map[string]*lesson{}
	for _, key := range s.lessons.Keys() {
		if l, ok := s.lessons.Peek(key); ok && key.layout && !l.unknown {
			layouts[key.Expression] = l
		}
	}
	return layouts
}

// dismiss forgets everything.
func (s *school) dismiss() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lessons.Purge()
	s.shards = 0
	s.metrics.learnedTarget.Set(0)
}

// outdated returns up to limit topics in use that were last looked up before
// this version or this time. What was used since the last call becomes the most
// recently used.
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
		if len(due) < limit && !s.queued[key] {
			due = append(due, key)
		}
	}
	return due
}

// remind queues the targets in use that may stand for something else by now.
func (c *Cluster) remind() {
	version := c.Snapshot().Version
	for _, t := range c.school.outdated(version, time.Now().Add(-lessonMaxAge), remindAtOnce) {
		c.school.renew(t)
	}
}

// teachLoop looks up queued topics.
func (c *Cluster) teachLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-c.school.queue:
			c.teach(ctx, t)
		}
		if !sleep(ctx, lessonPause) {
			return
		}
	}
}

func (c *Cluster) teach(ctx context.Context, t topic) {
	asked := c.Snapshot()
	l := &lesson{version: asked.Version, at: time.Now()}
	err := c.lookUp(ctx, t, l)
	result := learnOK
	status, refused := errors.AsType[*httpError](err)
	switch {
	case refused && status.code == http.StatusNotFound:
		l.unknown, result = true, learnNotFound
	case refused && settled(err):
		l.unknown, result = true, learnRefused
	case err != nil:
		l, result = nil, learnFailed
		c.o.Logger.Debug("target not learned", "target", t.Expression, "err", err)
	case len(l.shards) == 0 && !l.incomplete && !t.layout:
		result = learnEmpty
	}
	if c.Snapshot().ClusterUUID != asked.ClusterUUID {
		l = nil // it is about another cluster
	}
	news := c.school.learned(t, l)
	if ctx.Err() != nil {
		return
	}
	c.metrics.learns.WithLabelValues(string(result)).Inc()
	if news {
		hint(c.retarget)
	}
}

// lookUp asks about a topic.
func (c *Cluster) lookUp(ctx context.Context, t topic, l *lesson) (err error) {
	if t.layout {
		l.layout, err = c.lookUpLayout(ctx, t.Expression)
		return err
	}
	_, err = c.fleet.ask(ctx, query{
		kind: pollSearchShards, path: searchShardsPath(t.Target), deadline: min(localDeadline, c.o.PollTimeout),
		decode: func(r io.Reader) (err error) {
			l.shards, l.incomplete, err = parseSearchShards(r)
			return err
		},
	})
	return err
}

// searchShardsPath asks for the shards of a target as a search would find them.
func searchShardsPath(t Target) string {
	path := "_search_shards?local=true&filter_path=shards"
	if t.Expression != "" {
		path = url.PathEscape(t.Expression) + "/" + path
	}
	if t.Routing != "" {
		path += "&routing=" + url.QueryEscape(t.Routing)
	}
	return path
}

// parseSearchShards reads which shards are named. A shard without an active copy
// is listed as an empty group that does not say which shard it is.
func parseSearchShards(r io.Reader) (shards []ShardName, incomplete bool, err error) {
	var answer struct {
		Shards [][]routedCopy `json:"shards"`
	}
	if err := json.NewDecoder(r).Decode(&answer); err != nil {
		return nil, false, fmt.Errorf("answer of _search_shards: %w", err)
	}
	names := map[string]string{}
	for _, group := range answer.Shards {
		if len(group) == 0 {
			incomplete = true
			continue
		}
		index, number := group[0].Index, group[0].Shard
		if number < 0 || index == "" {
			return nil, false, fmt.Errorf("answer of _search_shards: [%s][%d] is not a shard", index, number)
		}
		if _, ok := names[index]; !ok {
			names[index] = index
		}
		shards = append(shards, ShardName{Index: names[index], Number: number})
	}
	return shards, incomplete, nil
}
