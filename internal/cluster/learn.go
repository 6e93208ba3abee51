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
	"sync/atomic"
	"time"
)

const (
	// maxTargetLength is the longest expression with routing that is learned: the
	// engines' own limit is 4 kB for the whole request line.
	maxTargetLength = 4096
	// lessonMaxAge is how long a target in use is believed although the cluster
	// state did not move: the node asked may have been behind.
	lessonMaxAge = time.Minute
	// teachers is how many targets are looked up at once. One of them looks up again what
	// is known, and nothing else: it does not wait for what clients invent.
	teachers = 3
	// lessonPause is the least time between two look-ups of one teacher: however
	// many different routings the clients use, learning stays cheap for the cluster.
	lessonPause = 10 * time.Millisecond
	// lookUpDeadline bounds the look-up of a target, which may be all indices there are.
	lookUpDeadline = 3 * time.Second
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
	// learnThrottled: too many targets that nobody knew; asked again on demand.
	learnThrottled learnResult = "throttled"
)

// topic is what can be looked up: what a target stands for.
type topic struct {
	Target
	of subject
}

// subject is what is asked about a target.
type subject int

const (
	aboutShards    subject = iota // which shards the target stands for
	aboutLayout                   // the layout of the index with that name
	aboutPlacement                // where the copies of these shards are: goes into the placement
)

// lesson is what was found out about a topic.
type lesson struct {
	shards     []ShardName
	layout     Layout
	incomplete bool // a shard without an active copy is among them, which is not named
	unknown    bool // the engine refused the target: not asked again at this version
	refused    bool // not because there is no such target
	used       atomic.Bool
	usedAt     atomic.Int64 // Snapshot.stamp of the last use
	joined     atomic.Pointer[joined]
	names      atomic.Pointer[[]string] // what indices returns, once it was asked for

	// Guarded by the school's mutex.
	version int64         // of the cluster state when it was last looked up
	at      time.Time     // when that was
	took    time.Duration // how long it took
}

// resolves reports whether the look-up found something: what does not may be
// anything that a client made up.
func (l *lesson) resolves() bool { return len(l.shards) > 0 || l.incomplete || l.layout.Index != "" }

// same reports whether two look-ups found the same.
func (l *lesson) same(o *lesson) bool {
	return l.incomplete == o.incomplete && l.unknown == o.unknown && l.layout == o.layout && slices.Equal(l.shards, o.shards)
}

// markUsed avoids the write when there is nothing to change: readers share the
// cache line.
func (l *lesson) markUsed(stamp int64) {
	if !l.used.Load() {
		l.used.Store(true)
	}
	if l.usedAt.Load() != stamp {
		l.usedAt.Store(stamp)
	}
}

// indices lists the indices that the lesson is about.
func (l *lesson) indices() []string {
	var names []string
	for i, shard := range l.shards {
		if i == 0 || l.shards[i-1].Index != shard.Index {
			names = append(names, shard.Index)
		}
	}
	if l.layout.Index != "" {
		names = append(names, l.layout.Index)
	}
	return names
}

// remind queues the targets in use that may stand for something else by now.
func (c *Cluster) remind() {
	version := c.Snapshot().Version
	for _, t := range c.school.outdated(version, time.Now().Add(-lessonMaxAge), remindAtOnce) {
		c.school.renew(t)
	}
}

// teachLoop looks up what is to be looked up again, and if there is none of that
// unknown topics.
func (c *Cluster) teachLoop(ctx context.Context, unknown <-chan topic) {
	for {
		var t topic
		select {
		case t = <-c.school.again:
		default:
			select {
			case <-ctx.Done():
				return
			case t = <-c.school.again:
			case t = <-unknown:
			}
		}
		c.teach(ctx, t)
		if !sleep(ctx, lessonPause) {
			return
		}
	}
}

func (c *Cluster) teach(ctx context.Context, t topic) {
	if t.of == aboutPlacement {
		c.teachPlacement(ctx, t)
		return
	}
	asked := c.Snapshot()
	l := &lesson{version: asked.Version, at: time.Now()}
	err := c.lookUp(ctx, t, l)
	l.took = time.Since(l.at)
	result := learnOK
	status, refused := errors.AsType[*httpError](err)
	switch {
	case refused && status.code == http.StatusNotFound:
		l.unknown, result = true, learnNotFound
	case refused && settled(err):
		l.unknown, l.refused, result = true, true, learnRefused
	case l.unknown: // a relay says so
		result = learnNotFound
	case err != nil:
		l, result = nil, learnFailed
		c.o.Logger.Debug("target not learned", "target", t.Expression, "err", err)
	case len(l.shards) == 0 && !l.incomplete && t.of == aboutShards:
		result = learnEmpty
	}
	if c.Snapshot().ClusterUUID != asked.ClusterUUID {
		l = nil // it is about another cluster
	}
	if l != nil {
		c.placeUnplaced(ctx, l.indices())
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

// teachPlacement looks up where the copies of a learned target, or of a plain index,
// are, whose placement is not believed any more.
func (c *Cluster) teachPlacement(ctx context.Context, t topic) {
	var names []string
	if isOneName(t.Expression) {
		names = append(names, t.Expression)
	}
	if l, ok := c.Snapshot().lessons.Get(topic{Target: t.Target}); ok {
		names = append(names, l.indices()...)
	}
	c.placeUnplaced(ctx, names)
	c.school.learned(t, nil)
}

// placeUnplaced fetches the placement of those indices that the snapshot does not
// know well enough.
func (c *Cluster) placeUnplaced(ctx context.Context, names []string) {
	s := c.Snapshot()
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		p := s.table.get(name)
		return p != nil && s.believes(p)
	})
	if len(missing) == 0 {
		return
	}
	if c.following() {
		c.tellUses(ctx, missing)
		return
	}
	if _, err := c.placeIndices(ctx, nil, missing); err != nil && ctx.Err() == nil {
		c.o.Logger.Debug("indices not placed", "indices", len(missing), "err", err)
	}
}

// lookUp asks about a topic.
func (c *Cluster) lookUp(ctx context.Context, t topic, l *lesson) (err error) {
	if c.following() {
		return c.askTarget(ctx, t, l)
	}
	if t.of == aboutLayout {
		l.layout, err = c.lookUpLayout(ctx, t.Expression)
		return err
	}
	_, err = c.fleet.ask(ctx, query{
		kind: pollSearchShards, path: searchShardsPath(t.Target), deadline: min(lookUpDeadline, c.o.PollTimeout),
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
	dec := json.NewDecoder(r)
	index := ""
	group := func() error {
		var copies []struct {
			Shard int    `json:"shard"`
			Index string `json:"index"`
		}
		if err := dec.Decode(&copies); err != nil {
			return err
		}
		if len(copies) == 0 {
			incomplete = true
			return nil
		}
		if copies[0].Shard < 0 || copies[0].Index == "" {
			return fmt.Errorf("[%s][%d] is not a shard", copies[0].Index, copies[0].Shard)
		}
		if copies[0].Index != index { // one string of each name: they come in order
			index = copies[0].Index
		}
		shards = append(shards, ShardName{Index: index, Number: copies[0].Shard})
		return nil
	}
	err = eachField(dec, func(key string) error {
		if key != "shards" {
			return skipValue(dec)
		}
		return eachElement(dec, group)
	})
	if err != nil {
		return nil, false, fmt.Errorf("answer of _search_shards: %w", err)
	}
	return shards, incomplete, nil
}
