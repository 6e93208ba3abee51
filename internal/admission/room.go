package admission

import (
	"math"
	"time"
)

// lack is what keeps a ticket from going; nothing if it is zero.
type lack struct {
	turn bool // something that waits comes before it on a node that it needs, or on two of which it may need one
	node bool // there is no room there
	sum  bool // nor is there, in sum, on the nodes among which the engine chooses
}

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
	if t.placed {
		c.hold(t, -1)
		t.load(-1)
		defer func() {
			c.hold(t, 1)
			t.load(1)
		}()
	}
	return c.lacks(&moved, now, noRound) == lack{}
}

// noRound is a pump in which nothing has laid claim to room.
const noRound = 0

// lacks returns what keeps a ticket from going, beside what has laid claim to room in a pump. Of nodes of which nothing is known
// nothing is asked. One that is larger than the limits goes where nothing is that had to wait for room.
func (c *Control) lacks(t *Ticket, now time.Time, round uint64) (l lack) {
	share := c.o.share()
	var room, cost float64
	idle, awaited, inTheWay := true, false, 0
	t.Unmeasured = len(t.charges) == 0
	for i := range t.charges {
		at := (t.blocked + i) % len(t.charges) // mostly it is the same node as the last time
		h := &t.charges[at]
		n := h.node
		if n.stale(now) {
			t.Unmeasured = true
			continue
		}
		free, claimed := n.free(round, share), n.reservedIn(round) > 0
		switch {
		case !h.needed:
			if claimed && n.room(share) < h.tasks { // it is full; where it is not, yield leaves what is reserved
				inTheWay++
			}
			if inTheWay > 1 { // some shard may have copies on these alone
				t.blocked = at
				return lack{turn: true}
			}
			idle, awaited = idle && n.searches <= 0, awaited || claimed
			room += max(free, min(0, n.most()*share-(n.ours-n.ahead))) // what others fill up takes none from here
			cost += h.tasks
		case free >= h.tasks:
		case claimed:
			t.blocked = at
			return lack{turn: true}
		case n.searches > 0:
			l.node = true
		}
	}
	const dust = 1e-9 // of sums of fractions
	l.sum = room+dust < cost && (awaited || !idle)
	return l
}

// reservedIn returns how much room of the node what waits has laid claim to in a pump.
func (n *Node) reservedIn(round uint64) float64 {
	if n.claimed != round {
		return 0
	}
	return n.reserved
}

// free returns how much room of the node nothing that waits has a claim to.
func (n *Node) free(round uint64, share float64) float64 {
	return n.room(share) - n.reservedIn(round)
}

// claim reserves room for a ticket that waits, unless another one comes before it: until the next pump nothing
// that comes after it takes that. It is what the ticket sends to each node; of nodes that have not enough of it in sum,
// all. It returns of how many nodes nothing is left. Nodes of which nothing is known are free.
//
// A ticket that comes after another one on a node that it needs, or on two that it may need, reserves nothing: only after that one it can go. So a node that many wait for does
// not keep the others idle.
func (c *Control) claim(t *Ticket, l lack, now time.Time) (exhausted int) {
	if l.turn || l == (lack{}) {
		return 0
	}
	share := c.o.share()
	for _, h := range t.charges {
		n, tasks := h.node, h.tasks
		if n.stale(now) {
			continue
		}
		if l.sum && !h.needed {
			tasks = math.Inf(1)
		}
		n.claimed, n.reserved = c.round, n.reservedIn(c.round)+tasks
		if n.exhausted != c.round && n.free(c.round, share) <= 0 {
			n.exhausted = c.round
			exhausted++
		}
	}
	return exhausted
}

// yield takes a ticket that goes off nodes that it does not need and on which something that waits needs the room: there it
// would be in the way. The engine chooses, and the others have room for it.
func (c *Control) yield(t *Ticket) {
	if !t.Passes && c.length > 0 && c.o.Mode != Off {
		t.takeOff(func(h *charge) bool {
			return h.node.reservedIn(c.round) > 0 && h.node.free(c.round, c.o.share()) < h.tasks
		})
	}
}

// takeOff moves what a ticket has on some nodes that it does not need to the others of these, if there are any.
func (t *Ticket) takeOff(off func(h *charge) bool) {
	var over, rest float64
	for i := range t.charges {
		switch h := &t.charges[i]; {
		case h.needed:
		case off(h):
			over += h.tasks
		default:
			rest += h.tasks
		}
	}
	if over == 0 || rest == 0 {
		return
	}
	for i := range t.charges {
		switch h := &t.charges[i]; {
		case h.needed:
		case off(h):
			h.tasks = 0
		default:
			h.tasks *= 1 + over/rest
		}
	}
}
