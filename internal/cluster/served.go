package cluster

import (
	"slices"
	"strings"
)

// Serves reports whether the node at this position of Nodes has a copy of shard
// that answers searches.
func (s *Snapshot) Serves(node int, shard ShardName) bool {
	if s.table == nil {
		return false
	}
	p, ok := s.table.indices[shard.Index]
	if !ok || p.unsupported || shard.Number >= len(p.serving) {
		return false
	}
	return p.index.Shards[shard.Number].Number == shard.Number && slices.Contains(p.serving[shard.Number], node)
}

// AnyServed returns some shard of which the node at this position of Nodes has a
// copy that answers searches, not always the same one: of a hidden index only if
// there is no other. ok is false if there is none.
func (s *Snapshot) AnyServed(node int) (shard ShardName, ok bool) {
	if s.table == nil {
		return ShardName{}, false
	}
	for name, p := range s.table.indices {
		hidden := isHidden(name)
		if p.unsupported || hidden && ok {
			continue
		}
		for i, nodes := range p.serving {
			if !slices.Contains(nodes, node) {
				continue
			}
			shard, ok = ShardName{Index: name, Number: p.index.Shards[i].Number}, true
			if !hidden {
				return shard, true
			}
			break
		}
	}
	return shard, ok
}

// isHidden reports whether the name is that of an index of the engine's own or of
// its plugins. The indices behind data streams have a dot, too, and hold what
// clients search.
func isHidden(index string) bool {
	return strings.HasPrefix(index, ".") && !strings.HasPrefix(index, ".ds-")
}
