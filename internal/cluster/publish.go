package cluster

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"
)

const (
	// publishPause gathers targets learned at about the same time into one snapshot.
	publishPause = 20 * time.Millisecond
	// publishShare bounds the share of time that publishing targets may take: with
	// thousands of them and new ones all the time, the pause grows.
	publishShare = 20
)

// known is what the loops found out, from which snapshots are made.
type known struct {
	contents Contents
	members  membership // of the node list in contents
}

// placement is one fetch of where the copies are.
type placement struct {
	source  string
	version int64
	asOf    time.Time // when the version was read
	indices []Index
}

// discovered takes in what discovery found. What was known of another cluster
// behind the same addresses is forgotten.
func (c *Cluster) discovered(found *info, nodes []*Node, members membership, unsupported map[string]bool) {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	before := c.known.contents
	next := before
	if before.ClusterUUID != found.clusterUUID {
		next = Contents{}
		c.school.dismiss()
	}
	next.Engine, next.ClusterName, next.ClusterUUID = found.engine, found.clusterName, found.clusterUUID
	next.Nodes, next.Unsupported = nodes, unsupported
	c.known = known{contents: next, members: members}
	if c.snapshot.Load() != nil && reflect.DeepEqual(before.Nodes, nodes) &&
		maps.Equal(before.Unsupported, unsupported) && before.Engine == found.engine && before.ClusterUUID == found.clusterUUID {
		return
	}
	c.metrics.nodes.Set(float64(len(nodes)))
	c.logMembers(before.Nodes, nodes)
	c.rebuild()
	hint(c.remeasure)
	if next.Indices == nil {
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

// placed takes in a placement of the cluster with this uuid.
func (c *Cluster) placed(uuid string, p placement) {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	known := &c.known.contents
	if known.ClusterUUID != uuid {
		return
	}
	known.Indices, known.Version, known.Source, known.PlacedAt = p.indices, p.version, p.source, p.asOf
	c.metrics.placed(p.indices)
	c.rebuild()
}

// confirmed renews the age of the placement: its version was unchanged at this time.
func (c *Cluster) confirmed(at time.Time) {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	next := *c.snapshot.Load()
	next.PlacedAt = at
	c.known.contents.PlacedAt = at
	c.publish(&next)
}

// rebuild publishes all that is known.
func (c *Cluster) rebuild() {
	s := build(c.known.contents)
	s.targets, s.layouts = c.school.targets(nil), c.school.layouts()
	c.publish(s)
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
	pause := publishPause
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.retarget:
		}
		if !sleep(ctx, pause) {
			return
		}
		started := time.Now()
		c.publishTargets()
		pause = max(publishPause, publishShare*time.Since(started))
	}
}

func (c *Cluster) publishTargets() {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	next := *c.snapshot.Load()
	next.targets, next.layouts = c.school.targets(next.targets), c.school.layouts()
	c.publish(&next)
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
