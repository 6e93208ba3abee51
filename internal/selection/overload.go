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
		case !n.usable() || n.full() || n.rejects(at):
			return false
		default:
			room = true
		}
	}
	return room
}

// overloaded reports whether some shard has no copy on a node that takes what is sent
// to it, and at least one on a node that rejects it.
func (d *Decision) overloaded(req Request, at int64) bool {
	rejects := func(p int) bool { return req.Nodes[p].rejects(at) }
	takes := func(p int) bool { return !rejects(p) && req.Nodes[p].Alive() }
	some := slices.ContainsFunc(d.order, func(c *Candidate) bool { return rejects(c.Position) })
	return some && slices.ContainsFunc(req.Shards, func(copies []int) bool {
		return slices.ContainsFunc(copies, rejects) && !slices.ContainsFunc(copies, takes)
	})
}
