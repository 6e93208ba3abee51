package admission

import (
	"math"
	"time"
)

// Fits reports whether a ticket need not wait for room on the nodes of its Parts, whatever else waits for them. The place of one
// that was admitted is free for it.
func (c *Control) Fits(t *Ticket, now time.Time) bool {
	if t.Passes || !c.enforced() {
		return true
	}
	moved := *t
	moved.charges = c.scratch
	c.spread(&moved)
	c.scratch = moved.charges
	if !t.placed {
		return c.fits(&moved, now)
	}
	c.hold(t, -1)
	t.load(-1)
	fits := c.fits(&moved, now)
	c.hold(t, 1)
	t.load(1)
	return fits
}

// fits reports whether there is room for a ticket. Of nodes of which nothing is known nothing is asked.
func (c *Control) fits(t *Ticket, now time.Time) bool {
	one, sum := c.lacks(t, now)
	return !one && !sum
}

// lacks reports whether there is no room for a ticket: on one of the nodes that it needs, or in sum
// on those among which the engine chooses. One that is larger than the limits fits where
// nothing is that had to wait for room.
func (c *Control) lacks(t *Ticket, now time.Time) (one, sum bool) {
	share := c.o.share()
	var room, cost float64
	known, idle := false, true
	t.Unmeasured = len(t.charges) == 0
	for _, h := range t.charges {
		if h.node.stale(now) {
			t.Unmeasured = true
			continue
		}
		r := h.node.room(share)
		if h.needed {
			one = one || h.node.searches > 0 && r < h.tasks
			continue
		}
		known = true
		idle = idle && h.node.searches <= 0
		room += max(r, min(0, h.node.most()*share-(h.node.ours-h.node.ahead))) // what others fill up takes none from here
		cost += h.tasks
	}
	const dust = 1e-9 // of sums of fractions
	return one, known && !idle && room+dust < cost
}

// free returns how much room of the node nothing that waits has a claim to.
func (n *Node) free(round uint64, share float64) float64 {
	if n.claimed != round {
		return n.room(share)
	}
	return n.room(share) - n.reserved
}

// awaited reports whether something that waits comes before a ticket on one of its nodes.
func (c *Control) awaited(t *Ticket) bool {
	if c.length == 0 {
		return false
	}
	share := c.o.share()
	for i := range t.charges { // mostly it is the same node as the last time
		at := (t.blocked + i) % len(t.charges)
		if h := &t.charges[at]; h.node.claimed == c.round && h.node.free(c.round, share) < h.tasks {
			t.blocked = at
			return true
		}
	}
	return false
}

// claim reserves room for a ticket that waits, unless another one comes before it: until the next pump nothing
// that comes after it takes that. It is what the ticket sends to each node; of nodes that have not enough of it in sum,
// all. It returns of how many nodes nothing is left. Nodes of which nothing is known are free.
//
// A ticket that comes after another one on some node reserves nothing: only after that one it can go. So a node that many wait for does
// not keep the others idle.
func (c *Control) claim(t *Ticket, now time.Time) (exhausted int) {
	if c.awaited(t) {
		return 0
	}
	share := c.o.share()
	_, short := c.lacks(t, now)
	for _, h := range t.charges {
		n, tasks := h.node, h.tasks
		if n.stale(now) {
			continue
		}
		if short && !h.needed {
			tasks = math.Inf(1)
		}
		if n.claimed != c.round {
			n.claimed, n.reserved = c.round, 0
		}
		n.reserved += tasks
		if n.exhausted != c.round && n.free(c.round, share) <= 0 {
			n.exhausted = c.round
			exhausted++
		}
	}
	return exhausted
}
