package cluster

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// UseExpiry is for how long an index counts as in use after the last search on it.
const UseExpiry = 5 * time.Minute

// indexUse is what stays of an index while its placement changes: when it was last
// searched.
type indexUse struct {
	index  string
	at     atomic.Int64 // Snapshot.stamp of the last search, 0 if there was none
	listed atomic.Bool  // is in a list of what is in use
}

// mark says that the index is searched, or written to in bulks. It writes once a second at most: readers
// share the cache line.
func (u *indexUse) mark(s *Snapshot) {
	if s.inUse == nil || u.at.Load() == s.stamp {
		return
	}
	u.at.Store(s.stamp)
	if !u.listed.Load() && u.listed.CompareAndSwap(false, true) {
		s.inUse.add(u)
	}
}

// inUse lists the indices that requests name themselves. Those that learned targets
// stand for are known by these.
type inUse struct {
	mu   sync.Mutex // taken by the first search on an index only
	list []*indexUse
}

func (l *inUse) add(u *indexUse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, u)
}

// names returns what was used since then, and forgets the rest.
func (l *inUse) names(since time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := make([]string, 0, len(l.list))
	l.list = slices.DeleteFunc(l.list, func(u *indexUse) bool {
		if u.at.Load() < since.Unix() {
			u.listed.Store(false)
			return true
		}
		names = append(names, u.index)
		return false
	})
	return names
}
