package cluster

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// publishPause gathers targets learned at about the same time into one snapshot.
const publishPause = 20 * time.Millisecond

// known is what the loops found out, from which snapshots are made.
type known struct {
	engine                   Engine
	clusterName, clusterUUID string
	frame                    *frame
	members                  membership // of the nodes in frame
	table                    *table     // nil while no placement is known
	source                   string
	version                  int64
	placedAt                 time.Time
	history                  []stateVersion // that were current, since trusted
	trusted                  int64
	closed                   map[string]bool // indices, as far as discovery told
}

// discovered takes in what discovery found. What was known of another cluster
// behind the same addresses is forgotten.
func (c *Cluster) discovered(found *info, nodes []*Node, members membership, unsupported map[string]bool) {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	before := c.known
	if before.clusterUUID != found.clusterUUID {
		c.known = known{}
		c.school.dismiss()
	}
	k := &c.known
	k.engine, k.clusterName, k.clusterUUID, k.members = found.engine, found.clusterName, found.clusterUUID, members
	if before.frame == nil || !reflect.DeepEqual(before.frame.nodes, nodes) || !maps.Equal(before.frame.unsupported, unsupported) {
		k.frame = newFrame(nodes, unsupported)
	} else {
		k.frame = before.frame
		if before.engine == found.engine && before.clusterUUID == found.clusterUUID {
			return
		}
	}
	c.metrics.nodes.Set(float64(len(nodes)))
	if before.frame != nil {
		c.logMembers(before.frame.nodes, nodes)
	} else {
		c.logMembers(nil, nodes)
	}
	c.announce()
	hint(c.remeasure)
	if k.table == nil {
		hint(c.replace)
	}
}

// logMembers tells which nodes came and went.
func (c *Cluster) logMembers(before, now []*Node) {
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
		c.o.Logger.Info("nodes of the cluster changed", "joined", joined, "left", left, "nodes", len(now))
	}
}

// placed takes in where some indices are: those that were asked for and are not in
// the answer are gone. What is known of a later version stays.
func (c *Cluster) placed(state *routingState, asked []string) {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	k := &c.known
	if k.clusterUUID != state.uuid || k.table == nil {
		return
	}
	k.markClosed(state)
	next := k.merge(state)
	for _, name := range asked {
		if !contains(state.indices, name) {
			next = k.drop(next, name, state.version)
		}
	}
	c.use(next)
}

// placedWhole takes in where all indices are.
func (c *Cluster) placedWhole(source string, asOf time.Time, state *routingState) {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	k := &c.known
	if k.clusterUUID != state.uuid {
		return
	}
	k.source = source
	k.markClosed(state)
	if k.table == nil {
		k.confirm(stateVersion{Version: state.version, asOf: asOf})
		c.use(newTable(state.indices, state.version))
		return
	}
	next := k.merge(state)
	k.table.each(func(p *placedIndex) bool {
		if !contains(state.indices, p.index.Name) {
			next = k.drop(next, p.index.Name, state.version)
		}
		return true
	})
	c.use(next)
}

// closedAre takes in which indices are closed.
func (c *Cluster) closedAre(uuid string, closed map[string]bool) {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	k := &c.known
	if k.clusterUUID != uuid || maps.Equal(k.closed, closed) {
		return
	}
	before := k.closed
	k.closed = closed
	if k.table == nil {
		return
	}
	next := k.table
	for _, names := range []map[string]bool{before, closed} {
		for name := range names {
			next = k.reclose(next, name)
		}
	}
	c.use(next)
}

// reclose returns the table with an index as closed as it is.
func (k *known) reclose(next *table, name string) *table {
	p := next.get(name)
	if p == nil || p.index.Closed == k.closed[name] {
		return next
	}
	if next == k.table {
		next = k.table.edited()
	}
	index := p.index
	index.Closed = k.closed[name]
	next.set(newPlacedIndex(index, p.version.Load(), p), p)
	return next
}

// markClosed tells an answer which of its indices are closed: the engines show their
// copies as they show those of others.
func (k *known) markClosed(state *routingState) {
	for i := range state.indices {
		state.indices[i].Closed = k.closed[state.indices[i].Name]
	}
}

// contains finds a name in indices that are sorted by name.
func contains(indices []Index, name string) bool {
	_, found := slices.BinarySearchFunc(indices, name, func(i Index, name string) int { return strings.Compare(i.Name, name) })
	return found
}

// merge returns the table with what an answer says of its indices. It is the present
// one where nothing changed, and so that plans stay, one with all that did not.
func (k *known) merge(state *routingState) *table {
	next := k.table
	for i := range state.indices {
		index := &state.indices[i]
		before := k.table.get(index.Name)
		switch {
		case before == nil:
		case before.version.Load() > state.version:
			continue
		case same(&before.index, index):
			if before.version.Swap(state.version) < k.trusted && next == k.table {
				next = k.table.edited() // what did not believe it has to look again
			}
			continue
		}
		if next == k.table {
			next = k.table.edited()
		}
		next.set(newPlacedIndex(*index, state.version, before), before)
	}
	return next
}

// drop returns the table without an index that was gone at this version.
func (k *known) drop(next *table, name string, version int64) *table {
	p := next.get(name)
	if p == nil || p.version.Load() > version {
		return next
	}
	if next == k.table {
		next = k.table.edited()
	}
	next.remove(p)
	return next
}

// use publishes a table, unless it is the present one.
func (c *Cluster) use(next *table) {
	if next == c.known.table {
		return
	}
	c.known.table = next
	c.metrics.placed(next)
	c.announce()
}

// confirmed says that the placement of what is in use is up to date with a version.
func (c *Cluster) confirmed(v stateVersion) {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	if c.known.clusterUUID != v.ClusterUUID || c.known.table == nil {
		return
	}
	c.known.confirm(v)
	c.announce()
}

// confirm notes that a version is current. Indices that were last seen at one that
// was not current any more believeFor ago are not trusted from now on.
func (k *known) confirm(v stateVersion) {
	k.version, k.placedAt = v.Version, v.asOf
	if n := len(k.history); n == 0 || k.history[n-1].Version != v.Version {
		k.history = append(k.history, v)
	}
	for len(k.history) > 1 && v.asOf.Sub(k.history[1].asOf) >= believeFor {
		k.history = k.history[1:]
	}
	k.trusted = min(k.history[0].Version, v.Version)
}

// forgetVersions makes everything known older than any answer: the cluster has gone
// back to a lower version.
func (c *Cluster) forgetVersions() {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	k := &c.known
	k.version, k.history, k.trusted = 0, nil, 0
	k.table.each(func(p *placedIndex) bool {
		p.version.Store(0)
		return true
	})
}

// announce publishes all that is known.
func (c *Cluster) announce() {
	k := &c.known
	c.publish(&Snapshot{
		Engine: k.engine, ClusterName: k.clusterName, ClusterUUID: k.clusterUUID, Nodes: k.frame.nodes,
		PlacedAt: k.placedAt, Version: k.version, Source: k.source,
		frame: k.frame, table: k.table, lessons: c.school.forSnapshot(), inUse: &c.inUse,
		trusted: k.trusted, stamp: time.Now().Unix(),
	})
}

func (c *Cluster) publish(s *Snapshot) {
	c.snapshot.Store(s)
	c.o.OnSnapshot(s)
}

// membersKnown returns the members that the node list was made from.
func (c *Cluster) membersKnown() membership {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	return c.known.members
}

// retargetLoop publishes what was learned of targets.
func (c *Cluster) retargetLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.retarget:
		}
		if !sleep(ctx, publishPause) {
			return
		}
		c.publishing.Lock()
		c.announce()
		c.publishing.Unlock()
	}
}

// sleep reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
