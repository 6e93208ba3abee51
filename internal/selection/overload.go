package selection

import (
	"slices"
	"time"
)

// RoomBeside reports whether d has nodes beside those with full queues, and all of them take what is sent to
// them: they reject nothing, and their CPUs are not full. Then another attempt may find room. The engine asks every
// copy of a shard until one has answered the query, but no other one if that one's queue is full when its documents
// are fetched.
func (s *Selector) RoomBeside(full []*Node, d *Decision, now time.Time) bool {
	at, room := s.since(now), false
	for i, n := range d.Nodes {
		switch {
		case n.in(full):
			if d.listed[i].sole {
				return false
			}
		case !n.usable() || n.loaded(at):
			return false
		default:
			room = true
		}
	}
	return room
}

// overloaded reports whether some shard has no copy on a node that takes what is sent
// to it, and at least one on a node that rejects it.
func (s *Selector) overloaded(req Request, at int64) bool {
	if !lately(&s.rejectedAt, at) {
		return false // nobody rejects anything: no shard is looked at
	}
	return slices.ContainsFunc(req.Shards, func(copies []int) bool {
		rejects := false
		for _, p := range copies {
			n := req.Nodes[p]
			switch {
			case n.rejects(at):
				rejects = true
			case !n.out():
				return false
			}
		}
		return rejects
	})
}
