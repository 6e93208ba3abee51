package admission

import (
	"maps"
	"time"
)

// Load is what an operator sees of the limit of a node.
type Load struct {
	// Limit is how many shard queries all clients may have in flight on the node; nil
	// while nothing is known of its load.
	Limit *float64 `json:"limit"`
	// Admitted and Waiting are shard queries of this sidestep, by their expected share.
	Admitted float64 `json:"admitted"`
	Waiting  float64 `json:"waiting"`
	// Others is the load of other clients.
	Others float64 `json:"other_clients"`
}

// View describes a node.
func (c *Control) View(id string, now time.Time) Load {
	n := c.nodes[id]
	if n == nil {
		return Load{}
	}
	v := Load{Admitted: n.ours, Others: n.foreign(c.o.share())}
	if c.o.Mode != Observe {
		v.Waiting = n.waiting
	}
	if !n.stale(now) {
		limit := n.most()
		v.Limit = &limit
	}
	return v
}

// ClassView is what waits of a class, and what became of it.
type ClassView struct {
	Name     string
	Waiting  int
	Admitted int64
	// Downgraded counts those that the class gave to its lower one, in mode observe those
	// that it would have.
	Downgraded int64
	// WouldWait counts what mode observe let go that would have waited, WouldRefuse those of
	// them that would have been refused, by why.
	WouldWait   int64
	WouldRefuse map[Reason]int64
}

// Classes describes all classes.
func (c *Control) Classes() []ClassView {
	out := make([]ClassView, len(c.classes))
	for i := range c.classes {
		k := &c.classes[i]
		out[i] = ClassView{Name: k.Name, Admitted: k.admitted, Downgraded: k.downgraded, WouldWait: k.wouldWait, WouldRefuse: maps.Clone(k.wouldRefuse)}
		if c.o.Mode != Observe {
			out[i].Waiting = k.length
		}
	}
	return out
}

// LimitChanges returns how often limits moved, by why.
func (c *Control) LimitChanges(why Change) int64 { return c.changes[why] }

// Opened returns how many tickets that are done were admitted because nothing is known of the load of some of their nodes.
func (c *Control) Opened() int64 { return c.opened }

// Utilisation returns how much of the search threads of all nodes that serve searches is
// at work, λ·S over their number, from 0 to 1, and how many nodes that is of: 0 while nothing is known.
func (c *Control) Utilisation(now time.Time) (part float64, nodes int) {
	var busy, threads float64
	for _, n := range c.order {
		if n.serves && !n.stale(now) {
			busy += n.busy
			threads += n.threads
			nodes++
		}
	}
	return min(1, busy/max(1, threads)), nodes
}

// Open returns how many nodes nothing is known of although searches go there.
func (c *Control) Open(now time.Time) int {
	open := 0
	for _, n := range c.order {
		if n.stale(now) && (n.ours > 0 || n.serves) {
			open++
		}
	}
	return open
}
