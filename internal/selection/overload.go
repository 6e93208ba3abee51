package selection

import "slices"

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
