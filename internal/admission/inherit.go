package admission

import (
	"slices"
	"time"
)

// Inherit takes over what another control has learned of the nodes that both know, and of the classes of the same name. What
// that one has sent is load of another client here. Where either is switched off nothing was learned, or need be known.
func (c *Control) Inherit(from *Control, now time.Time) {
	if c.o.Mode == Off || from.o.Mode == Off {
		return
	}
	c.mean, c.took = from.mean, from.took
	for i := range c.classes {
		k := &c.classes[i]
		if at := slices.IndexFunc(from.classes, func(other class) bool { return other.Name == k.Name }); at >= 0 {
			k.took, k.learned = from.classes[at].took, from.classes[at].learned
		}
	}
	for _, n := range c.order {
		if known := from.nodes[n.ID]; known != nil && !known.stale(now) {
			n.inherit(known, &c.o, now)
		}
	}
}

func (n *Node) inherit(from *Node, o *Options, now time.Time) {
	n.threads, n.capacity, n.polledAt = from.threads, from.capacity, from.polledAt
	n.others, n.busy, n.idle, n.serves, n.base = from.others+from.ours, from.busy, from.idle, from.serves, from.base
	n.gathers, n.inPool, n.flown = from.gathers, from.inPool, from.flown
	if o.Mode != Target { // it knows nothing of pools
		n.elsewhere = from.elsewhere
	}
	n.limit = n.frame(o).bounded(from.limit)
	n.beginFrame(now)
}
