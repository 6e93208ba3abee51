package cluster

import (
	"slices"
	"strings"
)

// maxHeld bounds how many indices of a node are looked at for one that may be
// searched.
const maxHeld = 256

// Serves reports whether the node at this position of Nodes has a copy of shard
// that answers searches.
func (s *Snapshot) Serves(node int, shard ShardName) bool {
	p := s.table.get(shard.Index)
	return p != nil && p.forbids(s.frame) == MissNone && slices.Contains(p.serves(shard.Number, s.frame), node)
}

// AnyServed returns some shard of which the node at this position of Nodes has a
// copy that answers searches, not always the same one: of a hidden index only if
// there is no other. ok is false if there is none.
func (s *Snapshot) AnyServed(node int) (shard ShardName, ok bool) {
	if s.table == nil {
		return ShardName{}, false
	}
	s.table.heldBy(s.Nodes[node].ID, maxHeld, func(p *placedIndex) bool {
		hidden := ShardName{Index: p.index.Name}.Hidden()
		if p.forbids(s.frame) != MissNone || hidden && ok {
			return true
		}
		at := slices.IndexFunc(p.in(s.frame).serving, func(nodes []int) bool { return slices.Contains(nodes, node) })
		if at < 0 { // the engine searches other copies of it
			return true
		}
		shard, ok = ShardName{Index: p.index.Name, Number: p.index.Shards[at].Number}, true
		return hidden
	})
	return shard, ok
}

// Hidden reports whether the shard is of an index of the engine's own or of
// its plugins. The indices behind data streams have a dot, too, and hold what
// clients search, unless the stream has one.
func (n ShardName) Hidden() bool {
	return strings.HasPrefix(strings.TrimPrefix(n.Index, ".ds-"), ".")
}
