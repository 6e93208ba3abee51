package selection

import (
	"slices"
	"time"
)

// overloaded reports whether some shard has no copy on a node that takes what is sent
// to it, and at least one on a node that rejects it.
func (s *Selector) overloaded(req Request, at int64) bool {
	if !within(&s.rejectedAt, at, time.Second) {
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
