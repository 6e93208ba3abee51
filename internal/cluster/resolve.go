package cluster

import "time"

// IndicesOf returns the names of the indices that an index expression stands for, empty
// for all there are. known is false while it is not known: it is looked up in the
// background, on the terms of [Cluster.Learn]. A target that is not there stands for none,
// and so does one of which not all indices could be seen. It does no I/O.
func (c *Cluster) IndicesOf(expression string) (names []string, known bool) {
	s := c.Snapshot()
	switch {
	case s == nil:
		return nil, false
	case s.Engine.Serverless():
		return nil, true
	case s.table == nil:
		return nil, false
	case s.table.get(expression) != nil:
		return []string{expression}, true
	}
	t := topic{Target: Target{Expression: expression}}
	if l := s.lesson(t); l != nil {
		if l.incomplete {
			return nil, true // it names those alone that have shards at work
		}
		return l.indicesOnce(), true
	}
	if c.school.lacks(t, s.Version) {
		return nil, true
	}
	c.Learn(expression, "")
	return nil, false
}

// indicesOnce is indices, which it asks once.
func (l *lesson) indicesOnce() []string {
	if names := l.names.Load(); names != nil {
		return *names
	}
	names := l.indices()
	l.names.Store(&names)
	return names
}

// lacks reports whether there is no such topic at this version.
func (s *school) lacks(t topic, version int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.missing.Peek(t)
	return ok && !a.refused && a.holds(version, time.Now())
}
