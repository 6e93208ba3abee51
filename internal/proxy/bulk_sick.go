package proxy

import (
	"math/rand/v2"
	"slices"
	"time"

	"sidestep/internal/bulk"
	"sidestep/internal/cluster"
	"sidestep/internal/selection"
)

// sickness knows which shards of an index are better not written to. A write waits for
// all copies. So these are shards with a copy on a node in trouble, and shards on which
// bulks take longer than on others, for whatever reason. One without a primary copy is
// down. If the book is about slots, a slot is as its worst shard.
type sickness struct {
	p    *Proxy
	v    *view
	slow []bulk.Slowness
	size int // shards in each part: 1, or a slot's
	// index has the copies; nil if they are not known.
	index *cluster.Index
	// certain: they are where they are said to be. Else that a primary copy was missing says nothing any more.
	certain bool
	fit     []bulk.Fitness // of each part
	// ignored are the troubles that do not count, as every shard would be sick otherwise.
	// While a cluster is busy the write pools of all nodes queue and healthy nodes are
	// slow to answer. Even then bulks should avoid the shards on which they take long.
	ignored []string
}

// troubleWrites says that a node's write pool is overloaded, troubleUnknown that the node
// is not known.
const (
	troubleWrites  = "writes_queue"
	troubleUnknown = "not_known"
)

// loadTroubles are those of nodes that have more to do than others.
var loadTroubles = []string{troubleWrites, selection.Busy.String()}

// sickShards finds which shards of an index are sick now.
func (p *Proxy) sickShards(v *view, book *bulk.Book, index *cluster.Index, now time.Time) *sickness {
	s := &sickness{p: p, v: v, slow: book.Slow(now), size: book.Size(), index: index, fit: make([]bulk.Fitness, book.Parts())}
	s.certain = index != nil && v.snapshot.Believes(index.Name) && !p.tooOld(v.snapshot, now)
	for more := range 3 { // until some is well
		switch more {
		case 1:
			s.ignored = loadTroubles
		case 2:
			s.ignored = allTroubles()
		}
		for shard := range s.fit {
			s.fit[shard] = s.fitness(shard)
		}
		if slices.Contains(s.fit, bulk.Well) {
			break
		}
	}
	return s
}

// pickShard chooses a shard of an index for a bulk.
func (p *Proxy) pickShard(v *view, book *bulk.Book, index *cluster.Index, now time.Time) (int, bulk.Choice) {
	for {
		sick := p.sickShards(v, book, index, now)
		shard, how := book.Pick(rand.Float64(), sick.fit)
		// A sick shard is chosen only if there is no other. A shard that is not sick may
		// have been tried by another bulk meanwhile, and is sick then.
		if !p.o.Bulk.Avoid || sick.is(shard) || book.Try(shard, now) {
			return shard, how
		}
		book.Wrote(shard, 0, 0) // it is not chosen
	}
}

// allTroubles returns those of any node.
func allTroubles() []string {
	all := []string{troubleWrites, troubleUnknown}
	for _, state := range selection.States() {
		all = append(all, state.String())
	}
	return all
}

// is reports whether a shard is to be avoided.
func (s *sickness) is(shard int) bool { return s.fit[shard] != bulk.Well }

// fitness finds whether a shard is to be written to.
func (s *sickness) fitness(shard int) bulk.Fitness {
	switch {
	case !s.p.o.Bulk.Avoid:
		return bulk.Well
	case s.down(shard):
		return bulk.Down
	case s.slowness(shard) != "" || slices.ContainsFunc(s.copies(shard), func(c cluster.Copy) bool {
		trouble := s.p.troubleOf(s.v, c.Node)
		return c.Serving() && trouble != "" && !slices.Contains(s.ignored, trouble)
	}):
		return bulk.Sick
	}
	return bulk.Well
}

// down reports whether a shard has no primary copy. The engine has writes to it wait for one,
// for a minute, and refuses them then.
func (s *sickness) down(shard int) bool {
	copies, primaries := s.copies(shard), 0
	for _, c := range copies {
		if c.Kind == 'p' && c.Serving() {
			primaries++
		}
	}
	return s.certain && len(copies) > 0 && primaries < s.size
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
	if s.index == nil || (shard+1)*s.size > len(s.index.Shards) {
		return nil
	}
	copies := s.index.Shards[shard*s.size].Copies
	for _, other := range s.index.Shards[shard*s.size+1 : (shard+1)*s.size] {
		copies = append(copies[:len(copies):len(copies)], other.Copies...)
	}
	return copies
}

// troubleOf returns why the node with this id is better not written to: its state, or its
// write pool; empty if it may be.
func (p *Proxy) troubleOf(v *view, id string) string {
	at, ok := v.snapshot.Position(id)
	if !ok {
		return troubleUnknown
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
