package selection

// A quota tells how much CPU a node has. A node of which the quota runs out stands still until its next period, at
// another moment than its peers, and that is no fault. But one that uses up all of it, while they do not, is to get less.
// A node that is short of CPU has less than one part in useFactor of what its peers have. It is starved when its
// quota runs out. As soon as it gets no searches it answers probes as well as they do.

// standstill returns for how long (ms) the node may stand still at a time for want of quota.
func (n *Node) standstill(at int64) float64 {
	if !n.ranOut(at) {
		return 0
	}
	return n.throttled.Value()
}

// mayStandStill returns for how long (ms) it may do so without a fault.
func (n *Node) mayStandStill(at int64) float64 {
	if n.short.Load() {
		return 0
	}
	return n.standstill(at)
}

// exhausted reports whether n alone uses up its quota: its process uses all of it, and most data nodes have CPU left.
func (s *Selector) exhausted(n *Node, at int64) bool {
	return n.ranOut(at) && n.used.Value() > fullLoad*n.processors() &&
		usual(*s.data.Load(), func(m *Node) (float64, bool) { return m.utilisation(), true }) <= fullLoad
}

// ranOut reports whether the quota of n ran out of late. The engines tell of it anew once a second. Of a
// node that is polled more rarely, the last poll counts until the next one.
func (n *Node) ranOut(at int64) bool {
	return n.counts(n.throttledAt.Load(), at, roundLife)
}

// starved reports whether n is short of CPU, and has used up what it has.
func (n *Node) starved(at int64) bool { return n.short.Load() && n.ranOut(at) }

// short reports whether the quota of n leaves it less than one part in useFactor of the CPU that
// data nodes have, by the median.
func (s *Selector) short(n *Node, at int64) bool {
	return n.quota.Value() > 0 && n.Processors > 0 && !n.NoData && useFactor*n.processors() < s.usualProcessors(at)
}

// usualProcessors returns the median of the processors of data nodes that have told of their
// quotas, found out anew every second.
func (s *Selector) usualProcessors(at int64) float64 {
	if elapsed(&s.processorsAt, at, ProbeTimeout) {
		s.processors.Set(usual(*s.data.Load(), func(n *Node) (float64, bool) {
			return n.processors(), n.Processors > 0 && n.polledAt.Load() > 0
		}))
	}
	return s.processors.Value()
}
