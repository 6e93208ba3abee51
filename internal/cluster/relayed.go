package cluster

import (
	"math/rand/v2"
	"time"
)

// wholeGrace spreads the fetches of whole placements after a relay fell silent: all
// who had it for a relay begin to poll at the same moment.
const wholeGrace = 30 * time.Second

// toldPlacement is what a relay tells of the placement.
type toldPlacement struct {
	source  string
	version int64
	asOf    time.Time
	whole   bool // there are no other indices
	indices []Index
	stale   []bool // parallel to indices
	gone    []string
}

// told takes in what a relay tells of the placement. The relay knows which indices
// can be believed to be where it says: these are at version 1 or later, which is
// trusted, the others at none.
func (c *Cluster) told(p toldPlacement) {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	k := &c.known
	k.source, k.version, k.placedAt = p.source, p.version, p.asOf
	k.history, k.trusted = nil, 1
	before := k.table
	if before == nil {
		k.table = newTable(p.indices, p.version)
	}
	next := k.merged(p)
	if next != before {
		k.table = next
		c.metrics.placed(next)
	}
	c.announce()
}

// merged returns the table with what a relay tells; the present one if it is the same.
func (k *known) merged(p toldPlacement) *table {
	next := k.table
	edit := func() {
		if next == k.table {
			next = k.table.edited()
		}
	}
	there := make(map[string]bool, len(p.indices))
	for i, index := range p.indices {
		there[index.Name] = true
		version := p.version
		if p.stale[i] {
			version = 0
		}
		before := next.get(index.Name)
		if before == nil || !same(&before.index, &index) {
			edit()
			next.set(newPlacedIndex(index, version, before), before)
			continue
		}
		if (before.version.Swap(version) < k.trusted) != p.stale[i] {
			edit() // what did not believe it has to look again
		}
	}
	gone := p.gone
	if p.whole {
		k.table.each(func(p *placedIndex) bool {
			if !there[p.index.Name] {
				gone = append(gone, p.index.Name)
			}
			return true
		})
	}
	for _, name := range gone {
		if before := next.get(name); before != nil {
			edit()
			next.remove(before)
		}
	}
	return next
}

// believe makes what a relay told the beginning of what is found out from here on.
func (c *Cluster) believe() {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	k := &c.known
	if k.table == nil || c.sourceNow() != sourceRelay {
		return
	}
	k.table.each(func(p *placedIndex) bool {
		if p.version.Load() > 0 {
			p.version.Store(k.version)
		}
		return true
	})
	k.confirm(stateVersion{ClusterUUID: k.clusterUUID, Version: k.version, asOf: k.placedAt})
	c.announce()
}

// wholeKnown returns what is known of the whole placement when its fetches begin:
// what a relay told need not be fetched again before it changes.
func (c *Cluster) wholeKnown() wholeState {
	w := wholeState{catPause: firstCatPause}
	if s := c.Snapshot(); s != nil && s.table != nil && c.o.Relay.URL != nil {
		now := time.Now()
		w.version, w.at, w.after = s.Version, now, now.Add(rand.N(wholeGrace))
	}
	return w
}
