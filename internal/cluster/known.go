package cluster

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// BelieveFor is for how long an index that was not asked about is believed to be
// placed as it was after the version moved.
const BelieveFor = 30 * time.Second

// confirmation is a version of the cluster state that was current at a time.
type confirmation struct {
	version int64
	asOf    time.Time
}

// known is what the loops found out: the next snapshot, and what it does not tell.
type known struct {
	Snapshot
	history []confirmation // since trusted
}

// Discovered takes in what discovery found: the nodes sorted by id, and why which
// indices are left alone, nil if these are as before. What was known of another
// cluster behind the same addresses is forgotten. It reports whether anything is
// other than before.
func (st *Store) Discovered(found Identity, nodes []*Node, leftAlone map[string]Miss) (changed bool) {
	st.publishing.Lock()
	defer st.publishing.Unlock()
	k := &st.known
	before := k.Nodes
	if k.ClusterUUID != found.ClusterUUID {
		*k = known{}
		st.targets.clear()
	}
	if leftAlone == nil && k.frame != nil {
		leftAlone = k.frame.leftAlone
	}
	same := k.frame != nil && reflect.DeepEqual(k.Nodes, nodes) && maps.Equal(k.frame.leftAlone, leftAlone)
	if same && k.Identity == found {
		return false
	}
	if !same {
		k.Nodes, k.frame = nodes, newFrame(nodes, leftAlone)
	}
	k.Identity = found
	st.metrics.placed(k)
	st.metrics.nodes.Set(float64(len(nodes)))
	st.logMembers(before, nodes)
	st.announce()
	return true
}

// logMembers tells which nodes came and went, and which are about to.
func (st *Store) logMembers(before, now []*Node) {
	missing := func(from, in []*Node) (names []string) {
		for _, n := range from {
			if !slices.ContainsFunc(in, func(m *Node) bool { return m.ID == n.ID }) {
				names = append(names, n.Name)
			}
		}
		return names
	}
	joined, left := missing(now, before), missing(before, now)
	if len(joined) > 0 || len(left) > 0 {
		st.o.Logger.Info("nodes of the cluster changed", "joined", joined, "left", left, "nodes", len(now))
	}
	for _, n := range now {
		i := slices.IndexFunc(before, func(m *Node) bool { return m.ID == n.ID })
		switch {
		case n.Leaving != Stays && (i < 0 || before[i].Leaving != n.Leaving):
			st.o.Logger.Info("a node is about to leave", "node", n.Name, "as", n.Leaving)
		case n.Leaving == Stays && i >= 0 && before[i].Leaving != Stays:
			st.o.Logger.Info("a node is not about to leave any more", "node", n.Name)
		}
	}
}

// PlacedSome takes in where some indices are: those that were asked for and are not in
// the answer are gone. What is known of a later version stays.
func (st *Store) PlacedSome(state *Placement, asked []string) {
	st.publishing.Lock()
	defer st.publishing.Unlock()
	k := &st.known
	if k.ClusterUUID != state.ClusterUUID || k.table == nil {
		return
	}
	next := k.merge(state)
	for _, name := range asked {
		if !contains(state.Indices, name) {
			next = k.drop(next, name, state.Version)
		}
	}
	st.use(next)
}

// PlacedAll takes in where all indices are, as a node told at this time or later: that confirms the version, unless more is
// known.
func (st *Store) PlacedAll(asOf time.Time, state *Placement) {
	st.publishing.Lock()
	defer st.publishing.Unlock()
	k := &st.known
	if k.ClusterUUID != state.ClusterUUID {
		return
	}
	next := k.table
	if next == nil {
		next = newTable(state.Indices, state.Version)
	} else {
		next = k.merge(state)
		k.table.each(func(p *placedIndex) bool {
			if !contains(state.Indices, p.index.Name) {
				next = k.drop(next, p.index.Name, state.Version)
			}
			return true
		})
	}
	confirms := k.table == nil || state.Version >= k.Version && asOf.After(k.PlacedAt)
	if confirms {
		k.confirm(confirmation{state.Version, asOf})
	}
	if !st.use(next) && confirms {
		st.announce()
	}
}

// contains finds a name in indices that are sorted by name.
func contains(indices []Index, name string) bool {
	_, found := slices.BinarySearchFunc(indices, name, func(i Index, name string) int { return strings.Compare(i.Name, name) })
	return found
}

// merge returns the table with what an answer says of its indices, but of those of which more is known than its version.
func (k *known) merge(state *Placement) *table {
	next := k.table
	for i := range state.Indices {
		index := &state.Indices[i]
		if before := k.table.get(index.Name); before == nil || before.version.Load() <= state.Version {
			next = k.put(next, before, index, state.Version)
		}
	}
	return next
}

// put returns the table with an index that was seen to be placed like this at a version; before is what it was, nil if it
// is new. It is the present one where nothing changed, and so that plans stay, one with all that did not.
func (k *known) put(next *table, before *placedIndex, index *Index, version int64) *table {
	if before == nil || !before.index.PlacedAs(index) {
		next = k.edit(next)
		next.set(newPlacedIndex(*index, version, before), before)
	} else if (before.version.Swap(version) < k.trusted) != (version < k.trusted) {
		next = k.edit(next) // what did not believe it, or did, has to look again
	}
	return next
}

// drop returns the table without an index that was gone at this version.
func (k *known) drop(next *table, name string, version int64) *table {
	if p := next.get(name); p != nil && p.version.Load() <= version {
		next = k.edit(next)
		next.remove(p)
	}
	return next
}

// edit returns a table that may be changed, in place of the present one.
func (k *known) edit(next *table) *table {
	if next == k.table {
		return k.table.edited()
	}
	return next
}

// use publishes a table, unless it is the present one. It reports whether it is another.
func (st *Store) use(next *table) bool {
	if next == st.known.table {
		return false
	}
	st.known.table = next
	st.metrics.placed(&st.known)
	st.announce()
	return true
}

// Confirmed says that the placement of what is in use is up to date with a version of
// the cluster state that was current at a time.
func (st *Store) Confirmed(clusterUUID string, version int64, asOf time.Time) {
	st.publishing.Lock()
	defer st.publishing.Unlock()
	if st.known.ClusterUUID != clusterUUID || st.known.table == nil {
		return
	}
	st.known.confirm(confirmation{version, asOf})
	st.announce()
}

// confirm notes that a version is current. Indices that were last seen at one that
// was not current any more BelieveFor ago are not trusted from now on.
func (k *known) confirm(v confirmation) {
	n := len(k.history)
	if n > 0 && k.history[n-1].version != v.version && v.asOf.Sub(k.PlacedAt) >= BelieveFor {
		k.history, n = nil, 0 // for that long nobody knows what was current
	}
	k.Version, k.PlacedAt = v.version, v.asOf
	if n == 0 || k.history[n-1].version != v.version {
		k.history = append(k.history, v)
	}
	for k.expires(v.asOf) {
		k.history = k.history[1:]
	}
	k.trusted = k.history[0].version
}

// expires reports whether what was last seen at the earliest version of the history is not to be trusted any longer.
func (k *known) expires(now time.Time) bool {
	return len(k.history) > 1 && now.Sub(k.history[1].asOf) >= BelieveFor
}

// ForgetVersions makes everything known of the cluster older than any answer: it has gone
// back to a lower version. Of another cluster than is known now it says nothing.
func (st *Store) ForgetVersions(clusterUUID string) {
	st.publishing.Lock()
	defer st.publishing.Unlock()
	k := &st.known
	if k.ClusterUUID != clusterUUID || k.table == nil {
		return
	}
	k.Version, k.history, k.trusted = 0, nil, 0
	k.table = k.table.edited() // what was found out of it is void
	k.table.each(func(p *placedIndex) bool {
		p.version.Store(0)
		return true
	})
}

// announce is Publish for the one who holds the mutex.
func (st *Store) announce() {
	s := st.known.Snapshot
	s.targets, s.inUse, s.stamp = st.targets.forSnapshot(), &st.inUse, time.Now().Unix()
	st.snapshot.Store(&s)
	st.o.OnSnapshot(&s)
}
