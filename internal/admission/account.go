package admission

import "time"

// admit lets a ticket go on.
func (c *Control) admit(t *Ticket, now time.Time) {
	c.place(t, now)
	c.send(t, now)
}

// place gives a ticket its part of what its class and its nodes may have in flight.
func (c *Control) place(t *Ticket, now time.Time) {
	k := &c.classes[t.Class]
	if !t.Passes {
		k.spend(now)
	}
	k.sentAt = now
	k.virtual = max(k.virtual, c.virtual)
	if c.length > 0 { // else nobody waits for a turn
		k.virtual += k.price(t.cost, c.took)
	}
	t.placed = true
	c.hold(t, 1)
}

// send counts a ticket as in flight.
func (c *Control) send(t *Ticket, now time.Time) {
	t.Verdict, t.sent = Admitted, now
	c.classes[t.Class].admitted++
	if len(t.Parts) > 0 && !t.Passes {
		average(&c.mean, t.cost/float64(max(1, t.Searches)))
	}
	c.charge(t)
}

// hold adds what a ticket takes of the room of its class and nodes, or gives it back.
func (c *Control) hold(t *Ticket, sign float64) {
	if t.Passes {
		return
	}
	add(&c.classes[t.Class].inFlight, sign*t.cost)
	for _, h := range t.charges {
		add(&h.node.searches, sign*h.tasks)
	}
}

func (c *Control) charge(t *Ticket) {
	share := c.o.share()
	t.charged = true
	for _, h := range t.charges {
		h.node.ours += h.tasks
		h.node.raisePeak(share)
	}
}

func (c *Control) uncharge(t *Ticket) {
	t.charged = false
	for _, h := range t.charges {
		add(&h.node.ours, -h.tasks)
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
	// A sample of what tickets cost is over when so many have ended, and counts for
	// samplePart in the mean.
	sampleTickets = 20
	samplePart    = 0.3
)

// costSample is what was seen since the cost of a ticket was last looked at.
type costSample struct{ ended, completed float64 }

// learnCost takes in that a ticket has ended of which only the nodes show what it cost. What
// others send to them makes it dearer, and the limits follow the queues in any case.
func (c *Control) learnCost(t *Ticket) {
	c.sample.ended += float64(max(1, t.Searches))
	if c.sample.ended < sampleTickets {
		return
	}
	c.mean += samplePart * (max(1, c.sample.completed/c.sample.ended) - c.mean)
	c.sample = costSample{}
}

// averagePart is what one value counts in a mean over searches.
const averagePart = 0.02

func average(mean *float64, v float64) {
	if *mean == 0 {
		*mean = v
	}
	*mean += averagePart * (v - *mean)
}
