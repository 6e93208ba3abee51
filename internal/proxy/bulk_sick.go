package proxy

import (
	"math/rand/v2"
	"slices"
	"time"

	"sidestep/internal/bulk"
	"sidestep/internal/cluster"
	"sidestep/internal/selection"
)

// sickness knows which shards of an index had better not be written to: a write waits
// for all copies, so those with a copy on a node in trouble, and those that take longer
// than the others whatever the reason.
type sickness struct {
	p    *Proxy
	v    *view
	slow []bulk.Slowness
	// index has the copies; nil if they are not known.
	index *cluster.Index
	// ignored is what does not count, as no shard would be well: while a cluster is busy
	// the write pools of all nodes queue, and nodes that are well are slow to answer.
	// That must not hide the shards whose bulks take long.
	ignored []string
}

// troubleWrites says that a node's write pool has more to do than it can, troubleAway
// that the node is not known.
const (
	troubleWrites = "writes_queue"
	troubleAway   = "not_known"
)

// sickShards finds which shards of an index are sick now.
func (p *Proxy) sickShards(v *view, book *bulk.Book, index *cluster.Index, now time.Time) *sickness {
	s := &sickness{p: p, v: v, slow: book.Slow(now), index: index}
	if s.someWell() {
		return s
	}
	if s.ignored = []string{troubleWrites}; s.someWell() {
		return s
	}
	s.ignored = allTroubles()
	return s
}

// pickShard chooses a shard of an index for a bulk.
func (p *Proxy) pickShard(v *view, book *bulk.Book, index *cluster.Index, now time.Time) (int, bulk.Choice) {
	for {
		sick := p.sickShards(v, book, index, now)
		shard, how := book.Pick(rand.Float64(), sick.is)
		// What is sick was chosen for want of better; what is not may be tried by another
		// bulk since, and is sick by now.
		if !p.o.Bulk.Avoid || sick.is(shard) || book.Try(shard, now) {
			return shard, how
		}
		book.Wrote(shard, 0, 0) // it is not chosen
	}
}

// allTroubles returns everything that speaks against a node.
func allTroubles() []string {
	all := []string{troubleWrites, troubleAway}
	for _, state := range selection.States() {
		all = append(all, state.String())
	}
	return all
}

// someWell reports whether some shard is not sick.
func (s *sickness) someWell() bool {
	if s.index == nil {
		return true // only slowness is known
	}
	for shard := range s.index.Shards {
		if !s.is(shard) {
			return true
		}
	}
	return false
}

// is reports whether a shard is to be avoided.
func (s *sickness) is(shard int) bool {
	return s.p.o.Bulk.Avoid && (s.slowness(shard) != "" || slices.ContainsFunc(s.copies(shard), func(c cluster.Copy) bool {
		trouble := s.p.troubleOf(s.v, c.Node)
		return c.Serving() && trouble != "" && !slices.Contains(s.ignored, trouble)
	}))
}

// slowness tells whether bulks take long on a shard.
func (s *sickness) slowness(shard int) bulk.Slowness {
	if shard >= len(s.slow) {
		return ""
	}
	return s.slow[shard]
}

// copies returns the copies of a shard, as far as they are known.
func (s *sickness) copies(shard int) []cluster.Copy {
	if s.index == nil || shard >= len(s.index.Shards) {
		return nil
	}
	return s.index.Shards[shard].Copies
}

// troubleOf says why the node with this id had better not be written to: the state that it
// is in, or its write pool; empty if it may.
func (p *Proxy) troubleOf(v *view, id string) string {
	at, ok := v.snapshot.Position(id)
	if !ok {
		return troubleAway
	}
	switch state := v.nodes[at].State(); state {
	case selection.Fine, selection.Ramping, selection.Unknown:
	default:
		return state.String()
	}
	if p.o.Bulk.Queues != nil && p.o.Bulk.Queues(id) {
		return troubleWrites
	}
	return ""
}
