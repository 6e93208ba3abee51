package admission

import (
	"fmt"
	"slices"
	"time"
)

// Mode says how limits are found, and whether anything waits for them.
type Mode string

// Modes.
const (
	Off     Mode = "off"     // nothing is looked at
	Observe Mode = "observe" // what would wait or be refused is only counted
	Auto    Mode = "auto"    // limits follow the nodes' queues
	Target  Mode = "target"  // limits follow λ·W for a target response time
)

// Modes returns the closed set.
func Modes() []Mode { return []Mode{Off, Observe, Auto, Target} }

// ParseMode returns the mode of that name; the error names the valid ones.
func ParseMode(name string) (Mode, error) {
	if m := Mode(name); slices.Contains(Modes(), m) {
		return m, nil
	}
	return "", fmt.Errorf("unknown mode %q, valid are off, observe, auto, target", name)
}

// Options configures a [Control].
type Options struct {
	Mode Mode
	// TargetResponseTime is W of [Target].
	TargetResponseTime time.Duration
	// Min and Max bound the limit of a node, in shard queries; 0: as many as it has search
	// threads, and no upper bound. Both are cut as the limit is, see Node.most.
	Min, Max float64
	// Sidesteps is how many sidesteps share the limits, at least 1.
	Sidesteps int
	Queue     QueueOptions
	// Learns has what a ticket without Parts costs learned from what the nodes complete
	// while such are in flight, as it is with writes: nobody tells into how many tasks the
	// engine cuts them. What others send meanwhile makes it too much; so it is charged at most
	// half of a node's limit.
	Learns bool
	// Classes are those that searches may be in.
	Classes []Class
	// Order is that within a class, Adaptive if empty. The others exist to be compared
	// with.
	Order Order
}

// share returns the part of each limit that is this sidestep's.
func (o *Options) share() float64 { return 1 / float64(max(1, o.Sidesteps)) }

// QueueOptions bound what waits; 0: no bound but that of the engine.
type QueueOptions struct {
	// Length in searches. Without it as many shard queries may wait for a set of nodes as
	// these would hold in their own queues.
	Length int
	Bytes  int64 // of request bodies
	Time   time.Duration
}

// Class is a kind of searches.
type Class struct {
	Name   string
	Weight float64 // its part of the work while others wait, relative to theirs; 0: 1
	// Rate is how many searches may be sent in a second; 0: any number.
	Rate float64
	// Deadline is for how long one may wait; 0: as long as its client does.
	Deadline time.Duration
	// Downgrade names the class of those that exceed Rate, or have waited for Deadline;
	// empty: the former wait, the latter are refused.
	Downgrade string
}

// Order says which of the searches of a class that wait is sent first.
type Order string

// Orders.
const (
	Adaptive    Order = ""       // the oldest while clients are patient, then the newest
	OldestFirst Order = "oldest" // always
	NewestFirst Order = "newest" // always
)

// Part is what a search is expected to send to one node.
type Part struct {
	Node  string  // its id
	Tasks float64 // shard queries
	// Needed: these can go to no other node.
	Needed bool
}

// Verdict is what becomes of a search.
type Verdict uint8

// Verdicts.
const (
	Admitted Verdict = iota
	Waits
	Refused
)

// Reason says why a search was refused. The set is closed: it is a metric label.
type Reason string

// Reasons of a refusal.
const (
	QueueFull Reason = "queue_full" // the engine would have rejected it, too, or queue.length
	NoRoom    Reason = "bytes"      // queue.bytes
	TooLate   Reason = "deadline"   // of its class, or queue.time
)

// Reasons returns the closed set.
func Reasons() []Reason { return []Reason{QueueFull, NoRoom, TooLate} }

// Control admits searches. See [New].
type Control struct {
	o       Options
	nodes   map[string]*Node
	order   []*Node
	classes []class
	mean    float64 // shard queries of a search, of those that tell
	took    float64 // mean over searches of what those of their class take, in seconds
	virtual float64 // time of the fair queue
	round   uint64  // of pumps
	length  int     // tickets that wait
	sought  int     // nodes that these wait for, whether these are known or have left, and tickets without a node
	bytes   int64
	turned  []*Ticket // whose verdict the last call changed
	sample  costSample
	changes map[Change]int64
	opened  int64 // tickets that were admitted because nothing is known of their nodes
	scratch []charge
}

// New returns a Control that knows no node.
func New(o Options) *Control {
	if len(o.Classes) == 0 {
		o.Classes = []Class{{Name: "default"}}
	}
	c := &Control{o: o, nodes: map[string]*Node{}, mean: 1, round: 1, changes: map[Change]int64{}}
	for _, k := range o.Classes {
		lower := slices.IndexFunc(o.Classes, func(other Class) bool { return k.Downgrade != "" && other.Name == k.Downgrade })
		c.classes = append(c.classes, newClass(k, lower))
	}
	return c
}

// SetMode changes the mode. What waits is admitted if nothing is to wait any more. It
// returns the tickets whose verdict it changed, valid until the next call.
func (c *Control) SetMode(m Mode, now time.Time) []*Ticket {
	c.turned = c.turned[:0]
	if m == c.o.Mode {
		return nil
	}
	fresh := c.o.Mode == Off
	if c.o.Mode == Observe {
		c.forgetObserved()
	}
	c.o.Mode = m
	for _, n := range c.order {
		n.beginFrame(now)
		if m == Target { // it knows nothing of pools
			n.elsewhere = 0
		}
		if fresh { // what was sent meanwhile was not counted
			n.polledAt = time.Time{}
		}
	}
	for i := range c.classes {
		for t := c.classes[i].oldest; t != nil && !c.enforced(); t = c.classes[i].oldest {
			c.remove(t)
			c.admit(t, false, now)
			c.turned = append(c.turned, t)
		}
	}
	return c.pump(now)
}

// enforced reports whether what exceeds the limits waits.
func (c *Control) enforced() bool { return c.o.Mode == Auto || c.o.Mode == Target }

// Update makes the control know exactly these nodes, by id.
func (c *Control) Update(ids []string) {
	before := c.nodes
	nodes := make(map[string]*Node, len(ids))
	c.order = c.order[:0]
	for _, id := range ids {
		n := c.nodes[id]
		if n == nil {
			n = &Node{ID: id, capacity: usualQueue, told: c.sample.ended, from: c.sample.ended}
		}
		nodes[id] = n
		c.order = append(c.order, n)
	}
	c.nodes = nodes
	for id, n := range before {
		if nodes[id] == nil {
			n.polledAt = time.Time{} // what waits for it waits no longer
		}
	}
}

// Observe takes in an answered poll of a node. It returns the tickets whose verdict it
// changed, valid until the next call.
func (c *Control) Observe(id string, p Poll, now time.Time) []*Ticket {
	c.turned = c.turned[:0]
	n := c.nodes[id]
	if n == nil {
		return nil
	}
	inPool := n.inPool
	if change := n.observe(p, &c.o, now); change != Kept {
		c.changes[change]++
	}
	if n.inPool != inPool && c.o.Mode != Target {
		c.findElsewhere(now)
	}
	if c.o.Learns {
		c.learnCost(n, p.Completed, now)
	}
	return c.pump(now)
}

// findElsewhere finds which part of what is in flight is in no pool: by the node of all that has the largest
// part in its own. A search waits for the slowest of its nodes: at the others most of what is in flight waits
// for that one, and sending more would not use them better.
func (c *Control) findElsewhere(now time.Time) {
	part := 0.0
	for _, n := range c.order {
		if n.serves && !n.stale(now) {
			part = max(part, n.inPool)
		}
	}
	if part == 0 {
		return // the polls met nothing: what was known stays
	}
	for _, n := range c.order {
		n.elsewhere = 1 - part
	}
}

// Offer decides about a search. One that waits gets its verdict from a later call.
// Offering may refuse others that wait: it returns the tickets whose verdict changed
// besides t's own, valid until the next call.
func (c *Control) Offer(t *Ticket, now time.Time) []*Ticket {
	c.turned = c.turned[:0]
	t.began, t.Verdict, t.Reason = now, Admitted, ""
	c.spread(t)
	if lower := c.enters(t, now); lower != t.Class {
		c.classes[t.Class].downgraded++
		t.Class = lower
	}
	k := &c.classes[t.Class]
	if !t.Passes {
		k.came(now)
	}
	lacks, over, due := c.look(t, now)
	switch {
	case due && lacks == (lack{}):
		c.admit(t, false, now)
	case c.o.Mode == Observe:
		c.follow(t, now)
	default:
		c.queue(t, now)
		if t.Verdict == Waits && due { // what its class holds back reserves nothing, as in a pump
			c.claim(t, lacks, now)
		}
		k.held = k.held || t.Verdict == Waits && over
		if t.Verdict == Waits && (k.limited() || len(c.turned) > 0) { // the clock alone may have brought its turn, and what was refused in its place may have had a claim
			c.pumpBut(t, now)
		}
	}
	return c.turned
}

// look returns what room a new ticket lacks, whether it exceeds the share of its class, and
// whether nothing but room keeps it from going.
func (c *Control) look(t *Ticket, now time.Time) (lacks lack, over, due bool) {
	if t.Passes || c.o.Mode == Off {
		return lack{}, false, true
	}
	k := &c.classes[t.Class]
	lacks, over = c.lacks(t, now, c.round), k.inFlight > 0 && k.exceeds(t, c.shareOf(k, now))
	return lacks, over, k.inTurn(now) && !k.held && !over
}

// Preview returns what would be decided about a ticket now that is not offered. In mode
// [Observe] that is what [Auto] would decide. The ticket gets the class that it would be in.
func (c *Control) Preview(t *Ticket, now time.Time) (Verdict, Reason) {
	c.spread(t)
	t.Class = c.enters(t, now)
	if lacks, _, due := c.look(t, now); due && lacks == (lack{}) {
		return Admitted, ""
	}
	if why := c.full(t); why != "" && c.inPlaceOf(t, why, now) == nil {
		return Refused, why
	}
	return Waits, ""
}

// Done ends the stay of a ticket: its answer has begun, none will come, or its client is gone. Further calls do nothing. It
// returns the tickets, besides t, of which it changed the verdict, valid until the next call.
func (c *Control) Done(t *Ticket, now time.Time) []*Ticket {
	c.turned = c.turned[:0]
	switch {
	case t.charged:
		c.giveBack(t)
		c.sample.ended++
		if t.Unmeasured {
			c.opened++
		}
		if k := &c.classes[t.Class]; !t.Passes && !t.Failed {
			k.learn(now.Sub(t.sent).Seconds())
			average(&c.took, k.took)
		}
	case t.queued:
		c.remove(t)
		t.Verdict = Refused
	default:
		return nil
	}
	return c.pump(now) // what waited may have had a claim
}

// Abandon is [Control.Done] for a ticket whose client left before its answer came.
func (c *Control) Abandon(t *Ticket, now time.Time) []*Ticket {
	t.Failed = true
	if t.queued || t.charged && t.Waited() > 0 {
		c.classes[t.Class].gaveUp(now.Sub(t.began), now)
	}
	return c.Done(t, now)
}

// Awaiting returns the tickets that wait for a node.
func (c *Control) Awaiting(id string) []*Ticket {
	c.turned = c.turned[:0]
	if !c.enforced() {
		return nil // what mode observe queues has been sent
	}
	for i := range c.classes {
		for t := c.classes[i].oldest; t != nil; t = t.next {
			if slices.ContainsFunc(t.charges, func(h charge) bool { return h.node.ID == id }) {
				c.turned = append(c.turned, t)
			}
		}
	}
	return c.turned
}

// Move changes where a ticket is sent to that was admitted or waits, as it was decided anew: at once, or it waits for room there, by
// the time of its arrival. It returns the tickets that got another verdict by it besides t, valid until the next call: there is room
// again where the ticket was to be sent before.
func (c *Control) Move(t *Ticket, now time.Time) []*Ticket {
	c.turned = c.turned[:0]
	switch {
	case t.placed:
		var off []*Node // where something that waits needs the room, see yield
		for _, h := range t.charges {
			if h.tasks == 0 {
				off = append(off, h.node)
			}
		}
		c.giveBack(t)
		c.spread(t)
		if !c.enforced() || c.lacks(t, now, noRound) == (lack{}) {
			t.takeOff(func(h *charge) bool { return slices.Contains(off, h.node) })
			t.placed = true
			c.hold(t, 1)
			c.charge(t)
		} else {
			c.classes[t.Class].refund(t)
			c.push(t)
		}
	case t.Verdict == Waits:
		c.weigh(t, -1)
		c.spread(t)
		c.weigh(t, 1)
	default:
		return nil
	}
	return c.pumpBut(t, now)
}

// Turn admits what may be sent by now, and refuses what has waited for too long. To be called at [Control.Next].
func (c *Control) Turn(now time.Time) []*Ticket {
	c.turned = c.turned[:0]
	return c.pump(now)
}

// Next returns when something is to be done with what waits although nothing happens: the rate of its class lets it go, it has
// waited for as long as it may, or a node has told nothing for so long that nothing waits for it. Zero if nothing waits.
func (c *Control) Next(now time.Time) time.Time {
	var next time.Time
	sooner := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if c.length == 0 {
		return next
	}
	for i := range c.classes {
		k := &c.classes[i]
		if k.oldest == nil {
			continue
		}
		if !k.may(now) { // else it waits for room
			sooner(k.rate.ready())
		}
		if patience := c.Patience(i); patience > 0 {
			sooner(k.oldest.began.Add(patience))
		}
	}
	for _, n := range c.order {
		if !n.stale(now) {
			sooner(n.polledAt.Add(staleAfter + time.Microsecond))
		}
	}
	return next
}

// Patience returns for how long a ticket may wait in a class; 0: as long as its client does.
func (c *Control) Patience(class int) time.Duration {
	d := c.classes[class].Deadline
	if d == 0 || c.o.Queue.Time > 0 && c.o.Queue.Time < d {
		return c.o.Queue.Time
	}
	return d
}

// atOnce is how many shard queries of one search a node has at a time, however many it is
// to answer: the engines' default of max_concurrent_shard_requests.
const atOnce = 5

// itemsPerNode is how many searches of a multi-search the engines have at a time for each node, if that has as many search
// threads.
const itemsPerNode = 10

// atATime returns how many searches of a ticket the engine has at a time.
func (c *Control) atATime(t *Ticket) float64 {
	if t.Searches <= 1 {
		return 1
	}
	all, most := float64(t.Searches), float64(t.AtOnce)
	if most <= 0 {
		for _, n := range c.order {
			most += min(n.threads, itemsPerNode)
		}
	}
	return min(all, max(1, most))
}

// spread finds the nodes of a ticket, and what it costs.
func (c *Control) spread(t *Ticket) {
	t.charges, t.cost, t.each = t.charges[:0], 0, 0
	all, running := float64(max(1, t.Searches)), c.atATime(t)
	most, part := atOnce*running, running/all
	for _, p := range t.Parts {
		if n := c.nodes[p.Node]; n != nil {
			t.charges = append(t.charges, charge{n, min(p.Tasks*part, most), p.Needed})
		}
		t.cost += p.Tasks
	}
	if len(t.Parts) > 0 {
		t.each = t.cost / all
		return
	}
	t.cost = c.mean * all
	serving := 0
	for _, n := range c.order {
		if n.serves {
			serving++
		}
	}
	for _, n := range c.order {
		if !n.serves {
			continue
		}
		if c.o.Learns { // atOnce is of searches
			most = c.dearest(n, serving)
		}
		t.charges = append(t.charges, charge{n, min(t.cost*part/float64(serving), most), false})
	}
}
