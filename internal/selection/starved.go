package selection

import "sidestep/internal/stats"

// A quota tells how much CPU a node has. Nodes of one size whose quotas run out are busy: each stands
// still until its next period, at another moment than its peers, and that is no fault. A node with
// far less CPU than its peers is starved when its quota runs out. As soon as it gets no searches it
// answers probes as well as they do.

// standstill returns for how long (ms) the node may stand still at a time for want of quota.
func (n *Node) standstill(at int64) float64 {
	if !n.ranOut(at) || n.short.Load() {
		return 0
	}
	return n.throttled.Value()
}

// ranOut reports whether the quota of n ran out of late. The engines tell of it anew once a second.
func (n *Node) ranOut(at int64) bool {
	told := n.throttledAt.Load()
	return told != 0 && at-told <= int64(roundLife)
}

// starved reports whether n has far less CPU than its peers, and has used it up.
func (n *Node) starved(at int64) bool { return n.short.Load() && n.ranOut(at) }

// idles reports whether n was starved when it was ejected, or has been since, and has far less CPU
// than its peers yet: its probes only tell how fast it is while it has nothing to do.
func (n *Node) idles() bool {
	return n.health.excluded() && n.short.Load() && n.throttledAt.Load() >= n.health.since.Load()-int64(roundLife)
}

// heldFor returns how long (ns) n stays ejected after what last spoke against it.
func (n *Node) heldFor() int64 {
	if n.idles() {
		return int64(holdMemory)
	}
	return n.health.hold.Load()
}

// usualProcessors returns the median of the processors of data nodes that have told of their
// quotas, found out anew every second.
func (s *Selector) usualProcessors(at int64) float64 {
	if elapsed(&s.processorsAt, at, ProbeTimeout) {
		var all []float64
		for _, n := range *s.all.Load() {
			if !n.NoData && n.Processors > 0 && n.polledAt.Load() > 0 {
				all = append(all, n.processors())
			}
		}
		if len(all) > 0 {
			s.processors.Set(stats.Median(all))
		}
	}
	return s.processors.Value()
}
