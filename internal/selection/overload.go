package selection

import (
	"slices"
	"sync/atomic"
	"time"
)

// A node rejects searches from rejectsMuch of its search tasks on, in its average over
// polls, and is taken to do so for rejectMemory after. Fewer are a burst, of which the
// rest of the cluster takes what is sent again: with lists of one copy for each of five
// shards that is a tenth of the searches.
const (
	rejectsMuch  = 0.02
	rejectMemory = time.Second
)

// observeRejected takes in the share of its search tasks that a node rejected.
func (s *Selector) observeRejected(n *Node, share float64, at int64) {
	n.rejected.observe(share)
	if r, _ := n.rejected.value(); r >= rejectsMuch {
		raise(&n.rejectedAt, at)
		raise(&s.rejectedAt, at)
	}
}

// rejects reports whether the node rejects searches, its queue being full.
func (n *Node) rejects(at int64) bool { return remembers(&n.rejectedAt, at) }

// remembers reports whether the time of a rejection is set and recent.
func remembers(rejectedAt *atomic.Int64, at int64) bool {
	since := rejectedAt.Load()
	return since != 0 && at-since < int64(rejectMemory)
}

// overloaded reports whether some shard has no copy on a node that takes what is sent
// to it, and at least one on a node that rejects it.
func (s *Selector) overloaded(req Request, at int64) bool {
	if !remembers(&s.rejectedAt, at) {
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
