package cluster

import (
	"strings"

	"sidestep/internal/es"
)

// Layout says how the documents of an index are spread over its shards, or why
// reads of them by id are left alone.
type Layout struct {
	Index   string // the concrete index that a name stands for
	Routing es.Routing
	// Miss is [MissNone] where Routing tells the shard of a document and any copy of
	// it may be read.
	Miss Miss
}

// Locate returns what reading these documents touches: each shard that holds one
// of them, once. It does no I/O and takes no lock. [MissUnknownTarget] says that a
// layout is not known yet: call [Store.LearnLayout] with the name of each index.
func (s *Snapshot) Locate(docs []es.Document) (*Plan, Miss) {
	switch {
	case s.Engine.Serverless():
		return nil, MissUnsupported
	case s.table == nil:
		return nil, MissNoPlacement
	case len(docs) == 0:
		return nil, MissEmptyTarget
	}
	plan := &Plan{Exact: true}
	var seen map[ShardName]bool
	if len(docs) > 1 {
		seen = make(map[ShardName]bool)
	}
	for _, doc := range docs {
		name, copies, miss := s.locate(doc)
		if miss != MissNone {
			return nil, miss
		}
		if seen[name] {
			continue
		}
		if seen != nil {
			seen[name] = true
		}
		plan.Names = append(plan.Names, name)
		plan.Shards = append(plan.Shards, copies)
	}
	return plan, MissNone
}

// locate finds the shard of a document and the positions of the nodes that serve it.
func (s *Snapshot) locate(doc es.Document) (ShardName, []int, Miss) {
	if !IsOneName(doc.Index) {
		return ShardName{}, nil, MissNotOneIndex
	}
	l := s.target(LookUp{Target: Target{Expression: doc.Index}, Of: OfLayout})
	if l == nil {
		return ShardName{}, nil, MissUnknownTarget
	}
	layout := l.Layout
	if layout.Miss != MissNone {
		return ShardName{}, nil, layout.Miss
	}
	p := s.table.get(layout.Index)
	// Deleted, and perhaps created again with other shards, since it was learned.
	if p == nil || len(p.index.Shards) != layout.Routing.Shards {
		return ShardName{}, nil, MissUnknownTarget
	}
	p.use.mark(s)
	if !s.believes(p) {
		return ShardName{}, nil, MissUnknownTarget
	}
	if miss := s.frame.leftAlone[layout.Index]; miss != MissNone {
		return ShardName{}, nil, miss
	}
	number := layout.Routing.Shard(doc.ID, doc.Routing)
	serving := p.serves(number, s.frame)
	if len(serving) == 0 {
		return ShardName{}, nil, MissShardUnavailable
	}
	return ShardName{Index: layout.Index, Number: number}, serving, MissNone
}

// IsIndexName reports whether both engines may have an index of that name, by what names and index expressions
// begin with, and what they may hold.
func IsIndexName(name string) bool {
	return IsOneName(name) && len(name) <= 255 && strings.IndexByte("-_+", name[0]) < 0 && !strings.ContainsAny(name, "\\/?\"<>| #")
}

// IsOneName tells what may be the name of one index or alias from index
// expressions, which reads by id do not take.
func IsOneName(index string) bool {
	return index != "" && index != "_all" && !strings.ContainsAny(index, "*,<:")
}
