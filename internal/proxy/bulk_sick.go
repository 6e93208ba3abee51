package proxy

import (
	"math/rand/v2"
	"slices"
	"time"

	"sidestep/internal/bulk"
	"sidestep/internal/cluster"
	"sidestep/internal/selection"
)

// sickness knows which slots of an index are better not written to. A write waits for
// all copies. So these are slots with a copy on a node in trouble, and slots on which
// bulks take longer than on others, for whatever reason. One of which a shard has no
// primary copy is down.
type sickness struct {
	p    *Proxy
	v    *view
	slow []bulk.Slowness
	size int // of each, in shards
	// index has the copies; nil if they are not known.
	index *cluster.Index
	// certain: they are where they are said to be. Else that a primary copy was missing says nothing any more.
	certain bool
	fit     []bulk.Fitness // of each
	// ignored are the troubles that do not count, as every slot would be sick otherwise.
	// While a cluster is busy the write pools of all nodes queue and healthy nodes are
	// slow to answer. Even then bulks should avoid the slots on which they take long.
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

// sickSlots finds which slots of an index are sick now.
func (p *Proxy) sickSlots(v *view, book *bulk.Book, index *cluster.Index, now time.Time) *sickness {
	s := &sickness{p: p, v: v, slow: book.Slow(now), size: book.Size(), index: index, fit: make([]bulk.Fitness, book.Parts())}
	s.certain = index != nil && v.snapshot.Believes(index.Name) && !p.tooOld(v.snapshot, now)
	for more := range 3 { // until some is well
		switch more {
		case 1:
			s.ignored = loadTroubles
		case 2:
			s.ignored = allTroubles()
		}
		for slot := range s.fit {
			s.fit[slot] = s.fitness(slot)
		}
		if slices.Contains(s.fit, bulk.Well) {
			break
		}
	}
	return s
}

// pickSlot chooses a slot of an index for a bulk.
func (p *Proxy) pickSlot(v *view, book *bulk.Book, index *cluster.Index, now time.Time) (int, bulk.Choice) {
	p.o.Selector.Chose(now)
	for {
		sick := p.sickSlots(v, book, index, now)
		slot, how := book.Pick(rand.Float64(), sick.fit)
		// A sick slot is chosen only if there is no other. One that is not sick may
		// have been tried by another bulk meanwhile, and is sick then.
		if !p.o.Bulk.Avoid || sick.is(slot) || book.Try(slot, now) {
			return slot, how
		}
		book.Wrote(slot, 0, 0) // it is not chosen
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

// is reports whether a slot is to be avoided.
func (s *sickness) is(slot int) bool { return s.fit[slot] != bulk.Well }

// fitness finds whether a slot is to be written to.
func (s *sickness) fitness(slot int) bulk.Fitness {
	switch {
	case !s.p.o.Bulk.Avoid:
		return bulk.Well
	case s.down(slot):
		return bulk.Down
	case s.slowness(slot) != "" || slices.ContainsFunc(s.copies(slot), func(c cluster.Copy) bool {
		trouble := s.p.troubleAt(s.v, c)
		return trouble != "" && !slices.Contains(s.ignored, trouble)
	}):
		return bulk.Sick
	}
	return bulk.Well
}

// down reports whether a shard of a slot has no primary copy. The engine has writes to it wait for one,
// for a minute, and refuses them then.
func (s *sickness) down(slot int) bool {
	copies, primaries := s.copies(slot), 0
	for _, c := range copies {
		if c.Kind == 'p' && c.Serving() {
			primaries++
		}
	}
	return s.certain && len(copies) > 0 && primaries < s.size
}

// slowness tells whether bulks take long on a slot.
func (s *sickness) slowness(slot int) bulk.Slowness {
	if slot >= len(s.slow) {
		return ""
	}
	return s.slow[slot]
}

// copies returns the copies of the shards of a slot, as far as they are known.
func (s *sickness) copies(slot int) []cluster.Copy {
	if s.index == nil || (slot+1)*s.size > len(s.index.Shards) {
		return nil
	}
	copies := s.index.Shards[slot*s.size].Copies
	for _, other := range s.index.Shards[slot*s.size+1 : (slot+1)*s.size] {
		copies = append(copies[:len(copies):len(copies)], other.Copies...)
	}
	return copies
}

// troubleAt returns why a write had better not wait for a copy, by its node; empty if it may, or does not: to search-only
// copies nothing is written.
func (p *Proxy) troubleAt(v *view, c cluster.Copy) string {
	if !c.Serving() || c.Kind == 's' {
		return ""
	}
	return p.troubleOf(v, c.Node)
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
