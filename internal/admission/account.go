package admission

import (
	"slices"
	"time"
)

// admit lets a ticket go on.
func (c *Control) admit(t *Ticket, waited bool, now time.Time) {
	c.yield(t)
	c.place(t, waited, now)
	c.send(t, now)
}

// place gives a ticket its part of what its class and its nodes may have in flight. It costs its class a turn if it waited: what
// goes at once takes nothing that something else waits for.
func (c *Control) place(t *Ticket, waited bool, now time.Time) {
	k := &c.classes[t.Class]
	if !t.Passes { // what waits for nobody takes nobody's turn
		if k.limited() {
			k.rate.spend(now)
		}
		k.sentAt = now
		k.virtual = max(k.virtual, c.virtual)
		if t.paid = 0; waited {
			t.paid = k.price(t.atNodes(), c.took)
			k.virtual += t.paid
		}
	}
	t.placed = true
	c.hold(t, 1)
}

// refund gives back what a ticket took of the turn of its class, as it waits again.
func (k *class) refund(t *Ticket) {
	if k.limited() {
		k.rate.tokens++
	}
	k.virtual -= t.paid
}

// Full reports whether something waits for room, and not for the clock.
func (c *Control) Full(now time.Time) bool {
	return c.o.Mode != Observe && slices.ContainsFunc(c.classes, func(k class) bool { return k.oldest != nil && k.may(now) })
}

// send counts a ticket as in flight.
func (c *Control) send(t *Ticket, now time.Time) {
	if t.sent.IsZero() { // one that waits again is the same one
		c.classes[t.Class].admitted++
		if t.each > 0 && !t.Passes {
			average(&c.mean, t.each)
		}
	}
	t.Verdict, t.sent = Admitted, now
	c.charge(t)
}

// hold adds what a ticket takes of the room of its class and nodes, or gives it back.
func (c *Control) hold(t *Ticket, sign float64) {
	if t.Passes {
		return
	}
	add(&c.classes[t.Class].inFlight, sign*t.atNodes())
	for _, h := range t.charges {
		add(&h.node.searches, sign*h.tasks)
	}
}

// load adds what a ticket has in flight on its nodes, or takes it from there.
func (t *Ticket) load(sign float64) {
	for _, h := range t.charges {
		add(&h.node.ours, sign*h.tasks)
	}
}

func (c *Control) charge(t *Ticket) {
	share := c.o.share()
	t.charged = true
	c.sample.sent++
	c.sample.moves++
	t.load(1)
	for _, h := range t.charges {
		h.node.raisePeak(share)
	}
}

func (c *Control) uncharge(t *Ticket) {
	t.charged = false
	c.sample.sent--
	c.sample.moves++
	t.load(-1)
	for _, h := range t.charges {
		h.node.ahead = min(h.node.ahead, h.node.ours)
	}
}

// add adds to a sum, or takes from it what was added. What rounding leaves of it is nothing.
func add(sum *float64, part float64) {
	if *sum += part; *sum < 1e-6 {
		*sum = 0
	}
}

const (
	// A sample of what tickets cost is of so many at least, and counts for
	// samplePart in the mean: at most as sampleMost times what that was.
	sampleTickets = 20
	samplePart    = 0.3
	sampleMost    = 10
)

// costSample is what is known of all tickets, to be compared with what nodes complete.
type costSample struct {
	ended float64
	sent  int    // tickets in flight
	moves uint64 // tickets that began or ended
}

// learnCost takes in what a node has completed since its last poll, if that may be of tickets: some were in flight
// meanwhile. Only the nodes show what these cost, so a sample ends when each of them has told enough. Each tells of a time of its
// own, as they are not polled at once: what it completed is compared with the tickets that ended between its polls. What
// others send to them meanwhile makes tickets dearer, to the bound that dearest sets. One that makes thousands of tasks one after
// the other, as a reindex does, says little of the others.
func (c *Control) learnCost(n *Node, completed int64, now time.Time) {
	s := &c.sample
	if n.moves != s.moves || s.sent > 0 {
		n.made += float64(completed) * c.o.share() // the other sidesteps have their part in it
	}
	n.moves, n.told = s.moves, s.ended
	cost := 0.0
	for _, n := range c.order {
		if !n.serves || n.stale(now) {
			continue
		}
		if n.told-n.from < sampleTickets {
			return
		}
		cost += n.made / (n.told - n.from)
	}
	if cost == 0 {
		return
	}
	c.mean += samplePart * (min(max(1, cost), sampleMost*c.mean) - c.mean)
	for _, n := range c.order {
		n.made, n.from = 0, n.told
	}
}

// dearest returns what a ticket of which only the nodes show what it costs is charged at
// most on each of so many nodes: half of what this sidestep may have in flight there, so
// that two always have room side by side, but no less than its part of one task. Else what
// others send would make tickets so dear that one goes at a time, and that would make them
// dearer yet.
func (c *Control) dearest(n *Node, nodes int) float64 {
	return max(1/float64(nodes), n.most()*c.o.share()/2)
}

// renewed returns a ticket that waits as it is charged now: both its cost and the limits may
// have moved.
func (c *Control) renewed(t *Ticket) *Ticket {
	if c.o.Learns && !t.charged { // what mode observe has sent stays as it was counted
		c.weigh(t, -1)
		c.spread(t)
		c.weigh(t, 1)
	}
	return t
}

// averagePart is what one value counts in a mean over searches.
const averagePart = 0.02

func average(mean *float64, v float64) {
	if *mean == 0 {
		*mean = v
	}
	*mean += averagePart * (v - *mean)
}
