package admission

import "time"

// In mode observe everything is sent at once. What would wait takes its place in the queue
// all the same, and leaves it as if it had been held back: when there is room for it, when
// it has waited for as long as it may, or for one that comes before it. Nodes answer as
// many searches in either case, so each answer that comes is taken for the end of one of
// those that there was room for.

// follow sends a ticket that would wait, and queues it.
func (c *Control) follow(t *Ticket, now time.Time) {
	c.classes[t.Class].wouldWait++
	c.queue(t, now)
	c.send(t, now)
	for _, h := range t.charges {
		h.node.ahead += h.tasks
	}
	c.pump(now)
}

// catchUp notes that a ticket that was sent would be sent now.
func (c *Control) catchUp(t *Ticket, now time.Time) {
	t.fallBack()
	c.place(t, true, now)
}

// fallBack takes the shard queries of a ticket out of those that nodes were sent before
// there was room for them.
func (t *Ticket) fallBack() {
	for _, h := range t.charges {
		add(&h.node.ahead, -h.tasks)
	}
}

// giveBack takes a ticket out of what is in flight, and out of the queue in which mode
// observe has put it.
func (c *Control) giveBack(t *Ticket) {
	if t.queued {
		c.remove(t)
		t.fallBack()
	}
	if t.placed {
		c.hold(t, -1)
		t.placed = false
	}
	c.uncharge(t)
}

// Rejected says that the engine answered a ticket that was admitted that its queues are
// full, to be called before [Control.Done]. No node has worked for it. What mode observe
// would still have waiting counts as refused.
func (c *Control) Rejected(t *Ticket, now time.Time) {
	if c.o.Mode != Observe || !t.charged || t.placed {
		return
	}
	if t.queued {
		c.drop(t, QueueFull, now)
	}
	t.fallBack()
}

// forgetObserved empties the queue of what was sent: that takes its place as it is.
func (c *Control) forgetObserved() {
	for i := range c.classes {
		for t := c.classes[i].oldest; t != nil; t = c.classes[i].oldest {
			c.remove(t)
			t.placed = true
			c.hold(t, 1)
		}
	}
	for _, n := range c.order {
		n.ahead = 0
	}
}
