package cluster

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// enoughServed is how many indices that a node serves are looked for, to take one of them.
const enoughServed = 8

// Serves reports whether the node at this position of Nodes has a copy of shard
// that answers searches.
func (s *Snapshot) Serves(node int, shard ShardName) bool {
	p := s.table.get(shard.Index)
	return p != nil && s.frame.leftAlone[shard.Index] == MissNone && slices.Contains(p.serves(shard.Number, s.frame), node)
}

// AnyServed returns some shard of which the node at this position of Nodes has a
// copy that answers searches, not always the same one: of a hidden index only if
// there is no other. ok is false if there is none. It may walk over all there is: not
// for the path of a search.
func (s *Snapshot) AnyServed(node int) (shard ShardName, ok bool) {
	id, found := s.Nodes[node].ID, 0
	begin := 0 // the table has one order: anywhere in it
	if s.table != nil {
		begin = rand.IntN(s.table.indices.Len() + 1)
	}
	for _, w := range []struct {
		hidden bool
		skip   int
	}{{false, begin}, {false, 0}, {true, begin}, {true, 0}} {
		s.table.each(func(p *placedIndex) bool {
			if w.skip--; w.skip >= 0 {
				return true
			}
			name := ShardName{Index: p.index.Name}
			if name.Hidden() != w.hidden || !p.index.servedBy(id) || s.frame.leftAlone[name.Index] != MissNone {
				return true
			}
			at := slices.IndexFunc(p.in(s.frame).serving, func(nodes []int) bool { return slices.Contains(nodes, node) })
			if at < 0 { // the engine searches other copies of it
				return true
			}
			if found++; rand.IntN(found) == 0 {
				shard = ShardName{Index: name.Index, Number: p.index.Shards[at].Number}
			}
			return found < enoughServed
		})
		if found > 0 {
			return shard, true
		}
	}
	return shard, false
}

// servedBy reports whether a node has a copy that answers searches.
func (i *Index) servedBy(node string) bool {
	return slices.ContainsFunc(i.Shards, func(s Shard) bool {
		return slices.ContainsFunc(s.Copies, func(c Copy) bool { return c.Node == node && c.Serving() })
	})
}

// Hidden reports whether the shard is of an index of the engine's own or of
// its plugins. The indices behind data streams have a dot, too, and hold what
// clients search, unless the stream has one.
func (n ShardName) Hidden() bool {
	return strings.HasPrefix(strings.TrimPrefix(n.Index, ".ds-"), ".")
}
