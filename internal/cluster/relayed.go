package cluster

import (
	"math"
	"math/rand/v2"
	"time"
)

// RelayedPlacement is what a relay tells of the placement.
type RelayedPlacement struct {
	Version int64
	AsOf    time.Time
	Whole   bool // there are no other indices
	Indices []Index
	Stale   []bool // parallel to Indices: it may be elsewhere by now
	Gone    []string
}

// PlacedByRelay takes in what a relay tells of the placement. The relay knows which indices
// can be believed to be where it says: these are at version 1 or later, which is
// trusted, the others at none.
func (st *Store) PlacedByRelay(p RelayedPlacement) {
	st.publishing.Lock()
	defer st.publishing.Unlock()
	k := &st.known
	k.Version, k.PlacedAt = p.Version, p.AsOf
	k.history, k.trusted = nil, 1
	before := k.table
	if before == nil {
		k.table = newTable(p.Indices, p.Version)
	}
	next := k.merged(p)
	if next != before {
		k.table = next
		st.metrics.placed(k)
	}
	st.announce()
}

// merged returns the table with what a relay tells; the present one if it is the same.
func (k *known) merged(p RelayedPlacement) *table {
	next, gone := k.table, p.Gone
	there := make(map[string]bool, len(p.Indices))
	for i := range p.Indices {
		index, version := &p.Indices[i], p.Version
		if p.Stale[i] {
			version = 0
		}
		there[index.Name] = true
		next = k.put(next, next.get(index.Name), index, version)
	}
	if p.Whole {
		k.table.each(func(p *placedIndex) bool {
			if !there[p.index.Name] {
				gone = append(gone, p.index.Name)
			}
			return true
		})
	}
	for _, name := range gone {
		next = k.drop(next, name, math.MaxInt64)
	}
	return next
}

// ContinueRelayed makes what a relay told the beginning of what polls find out from
// here on. As the relay may only have believed it, it counts as seen at the version before:
// what is in use is to be read in 10 to 30 s, by each at another moment.
func (st *Store) ContinueRelayed() {
	st.publishing.Lock()
	defer st.publishing.Unlock()
	k := &st.known
	if k.table == nil {
		return
	}
	k.table, k.trusted = k.table.edited(), k.Version-1
	k.table.each(func(p *placedIndex) bool {
		if p.version.Load() > 0 {
			p.version.Store(k.trusted)
		}
		return true
	})
	k.history = []confirmation{{version: k.trusted}, {k.Version, time.Now().Add(-rand.N(2 * BelieveFor / 3))}}
	st.announce()
}
