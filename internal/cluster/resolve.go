package cluster

import "time"

// Learn asks for the shards that target with routing stands for to be looked up
// in the background. It never blocks; what is already known or queued is not
// asked for again, and what does not fit into the queue is dropped.
func (st *Store) Learn(target, routing string) {
	s := st.Snapshot()
	if s == nil || s.table == nil {
		return
	}
	p := s.table.get(target)
	if p != nil && !s.believes(p) {
		st.targets.renew(LookUp{Target: Target{Expression: target}, Of: OfPlacement})
	}
	if p == nil && routing != "" {
		st.learnShards(s, Target{Expression: target})
	}
	if p == nil || routing != "" {
		st.learnShards(s, Target{Expression: target, Routing: routing})
	}
}

// learnShards asks for the shards of a target, and for where they are if that was
// too long ago.
func (st *Store) learnShards(s *Snapshot, t Target) {
	if l := s.target(LookUp{Target: t}); l != nil && l.joinedIn(s).whole.miss == MissUnknownTarget {
		st.targets.renew(LookUp{Target: t, Of: OfPlacement})
	}
	st.targets.enqueue(LookUp{Target: t}, s.Version)
}

// LearnLayout asks for the layout of the index with this name or alias to be
// looked up in the background, on the terms of [Store.Learn].
func (st *Store) LearnLayout(index string) {
	s := st.Snapshot()
	if s == nil || s.table == nil {
		return
	}
	about := LookUp{Target: Target{Expression: index}, Of: OfLayout}
	if l := s.target(about); l != nil && l.Layout.Index != "" {
		if p := s.table.get(l.Layout.Index); p == nil || !s.believes(p) {
			st.targets.renew(LookUp{Target: Target{Expression: l.Layout.Index}, Of: OfPlacement})
		}
	}
	st.targets.enqueue(about, s.Version)
}

// LearnAgain queues the targets in use that may stand for something else by now.
func (st *Store) LearnAgain() {
	version := st.Snapshot().Version
	for _, t := range st.targets.outdated(version, time.Now().Add(-lookUpMaxAge), outdatedAtOnce) {
		st.targets.renew(t)
	}
}

// Recall returns what is known of a target, to tell others: at the present version, if that is not soon too old, or at an
// earlier one if its cost forbids to look it up again. It is nil if it has to be looked up.
func (st *Store) Recall(t LookUp) *Resolved {
	return st.targets.recall(t, st.Snapshot().Version, time.Now().Add(-lookUpMaxAge/2))
}

// NamesIn returns the indices that a target may consist of: the one of its name, and
// those that it was found to stand for.
func (s *Snapshot) NamesIn(t Target) []string {
	var names []string
	if IsOneName(t.Expression) {
		names = append(names, t.Expression)
	}
	if l, ok := s.targets.Get(LookUp{Target: t}); ok {
		names = append(names, l.Indices()...)
	}
	return names
}

// IndicesOf returns the names of the indices that an index expression stands for, empty
// for all there are. known is false while it is not known, or what is known of it may be too old: it is looked up in the
// background, on the terms of [Store.Learn]. A target that is not there stands for none, and so does one of which not all
// indices could be seen, or that the engine refused to tell of. It does no I/O.
func (st *Store) IndicesOf(expression string) (names []string, known bool) {
	s := st.Snapshot()
	switch {
	case s == nil:
		return nil, false
	case s.Engine.Serverless():
		return nil, true
	case s.table == nil:
		return nil, false
	}
	if p := s.table.get(expression); p != nil {
		if p.use.mark(s); !s.believes(p) {
			st.Learn(expression, "")
			return nil, false
		}
		return []string{expression}, true
	}
	t := LookUp{Target: Target{Expression: expression}}
	if l := st.targets.upToDate(t, s.Version, time.Now()); l != nil {
		if l.markUsed(s.stamp); l.Incomplete {
			return nil, true // it names those alone that have shards at work
		}
		return l.names, true
	}
	if st.targets.lacks(t, s.Version) {
		return nil, true
	}
	st.Learn(expression, "")
	return nil, false
}
