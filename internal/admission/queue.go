package admission

import (
	"slices"
	"time"
)

const (
	// scan is how many tickets of a class that do not fit are looked past for one that does.
	scan = 1000
	// Of the searches of a class that waited, left those that lost their clients, or that had waited for as long as
	// they may. From leftMuch on, waiting is as long as that, and the newest go first.
	leftMuch = 0.02
	leftPart = 0.02
	// patiencePart is what one that left counts in the time after which they do.
	patiencePart = 0.1
	// forgetLeft is after which time those that left are forgotten.
	forgetLeft = time.Minute
	// fastest is the part of a class's searches that tells how long they take.
	fastest = 0.2
	// activeFor is for how long a class that has nothing to do keeps its share.
	activeFor = time.Second
	// burst is for how long a class may catch up on its rate.
	burst = 0.1
)

// class is what is known of a class of searches. Its tickets are a list from the oldest to
// the newest.
type class struct {
	Class
	oldest, newest *Ticket
	length         int
	cost           float64 // shard queries that wait
	admitted       int64
	lower          int   // position of the class that Downgrade names, -1: none
	downgraded     int64 // to that class
	wouldWait      int64 // what mode observe found
	wouldRefuse    map[Reason]int64
	inFlight       float64   // shard queries
	sentAt         time.Time // when one was last admitted
	virtual        float64   // seconds of work, by its weight
	took           float64   // seconds within which the fastest fifth of its searches are answered
	learned        float64   // how many searches that is of
	rate           bucket    // of what is sent or, if there is a lower class, of what comes

	left     float64       // share of what waited that left
	leftAt   time.Time     // when one last did
	patience time.Duration // for how long those waited

	cursor *Ticket // of the pump
	newer  bool    // the pump goes from the newest to the oldest
	missed int     // tickets that the pump has looked past
	share  float64 // see shareOf
	over   bool    // the pump has looked at all, or may send no more
	held   bool    // something that waits is held back by the share of the class: nothing that comes later goes before it
}

func newClass(k Class, lower int) class {
	if k.Weight <= 0 {
		k.Weight = 1
	}
	return class{Class: k, rate: newBucket(k.Rate), lower: lower, wouldRefuse: map[Reason]int64{}}
}

// bucket lets so many pass in a second, and for burst catches up on what has not passed.
type bucket struct {
	rate, tokens float64 // rate 0: any number pass
	filledAt     time.Time
}

func newBucket(rate float64) bucket { return bucket{rate: rate, tokens: max(1, burst*rate)} }

// fill adds the tokens of the time that has passed.
func (b *bucket) fill(now time.Time) {
	if now.Before(b.filledAt) {
		return
	}
	if !b.filledAt.IsZero() {
		b.tokens = min(max(1, burst*b.rate), b.tokens+b.rate*max(0, now.Sub(b.filledAt).Seconds()))
	}
	b.filledAt = now
}

// may reports whether another one may pass.
func (b *bucket) may(now time.Time) bool {
	if b.rate == 0 {
		return true
	}
	b.fill(now)
	return b.tokens >= 1
}

// ready returns when another one may pass.
func (b *bucket) ready() time.Time {
	return b.filledAt.Add(time.Duration(max(0, 1-b.tokens)/b.rate*float64(time.Second)) + time.Microsecond)
}

func (b *bucket) spend(now time.Time) {
	if b.rate > 0 {
		b.fill(now)
		b.tokens = max(0, b.tokens-1) // what is only observed is no debt
	}
}

// limited reports whether what exceeds the rate of the class waits for the clock. If there is a lower class it is one of
// that as it comes, and the others wait for room alone: once nodes have been full as many come as the clock would let go.
func (k *class) limited() bool { return k.Rate > 0 && k.lower < 0 }

// may reports whether the rate of the class lets another search be sent.
func (k *class) may(now time.Time) bool { return !k.limited() || k.rate.may(now) }

// takes reports whether the rate of the class lets another search come.
func (k *class) takes(now time.Time) bool { return k.limited() || k.rate.may(now) }

// came notes that a search has come.
func (k *class) came(now time.Time) {
	if !k.limited() {
		k.rate.spend(now)
	}
}

// inTurn reports whether a new search of the class may be sent before those that wait.
func (k *class) inTurn(now time.Time) bool {
	return !k.limited() || k.oldest == nil && k.may(now)
}

// learn takes in how long a search of the class took. It keeps the time within which the
// fastest fifth are answered: the mean grows with what waits in the nodes, for all classes
// alike, and would hide which class does more work. The first ones count for more: the very first may be an exception.
func (k *class) learn(took float64) {
	k.learned++
	part := max(averagePart, 1/k.learned)
	switch {
	case k.took == 0:
		k.took = took
	case took < k.took:
		k.took *= 1 - part*(1-fastest)
	default:
		k.took *= 1 + part*fastest
	}
}

// price returns what a search costs its class: the shard queries that nodes have of it at a time, times the time that
// searches of the class take, by its weight. all is what searches of any class take.
func (k *class) price(tasks, all float64) float64 {
	took := k.took
	if took == 0 {
		took = max(all, 0.001)
	}
	return tasks * took / k.Weight
}

// gaveUp takes in that a search left the class before its turn, after it had waited.
func (k *class) gaveUp(waited time.Duration, now time.Time) {
	if now.Sub(k.leftAt) > forgetLeft {
		k.left, k.patience = 0, waited
	}
	k.leftAt = now
	k.left += leftPart * (1 - k.left)
	k.patience += time.Duration(patiencePart * float64(waited-k.patience))
}

// queue makes a ticket wait, if there is room for it. If not, one of the class that has
// most waiting for its weight is refused, so that a flood of one refuses no other.
func (c *Control) queue(t *Ticket, now time.Time) {
	if why := c.full(t); why != "" {
		out := c.inPlaceOf(t, why, now)
		if out == nil {
			c.refuse(t, why, now)
			return
		}
		c.drop(out, why, now)
	}
	c.push(t)
}

// drop refuses a ticket that waits. In mode observe it has been sent.
func (c *Control) drop(t *Ticket, why Reason, now time.Time) {
	c.remove(t)
	c.refuse(t, why, now)
	if c.o.Mode != Observe {
		c.turned = append(c.turned, t)
	}
}

// full returns why there is no place for a ticket in the queue, nothing if there is.
func (c *Control) full(t *Ticket) Reason {
	switch {
	case c.o.Queue.Bytes > 0 && c.bytes+t.Bytes > c.o.Queue.Bytes:
		return NoRoom
	case c.overflows(t):
		return QueueFull
	}
	return ""
}

// inPlaceOf returns the ticket that waits and is refused in place of t; nil if t itself is. It is one of the class that
// has most waiting: of those that make room the one that would be sent last.
func (c *Control) inPlaceOf(t *Ticket, why Reason, now time.Time) *Ticket {
	worst := c.worst(t)
	newestFirst := c.newestFirst(worst, now)
	if !newestFirst && worst == &c.classes[t.Class] {
		return nil
	}
	out := worst.first(!newestFirst)
	for range scan {
		if out == nil || c.makesRoom(out, t, why) {
			return out
		}
		out = out.after(!newestFirst)
	}
	return nil
}

// refuse gives a ticket its verdict. In mode observe that is only counted.
func (c *Control) refuse(t *Ticket, why Reason, now time.Time) {
	if c.o.Mode == Observe {
		c.classes[t.Class].wouldRefuse[why]++
		return
	}
	t.Verdict, t.Reason, t.sent = Refused, why, now
}

// makesRoom reports whether there is room for t without another ticket that waits.
func (c *Control) makesRoom(out, t *Ticket, why Reason) bool {
	if why == NoRoom {
		return c.bytes-out.Bytes+t.Bytes <= c.o.Queue.Bytes
	}
	if c.o.Queue.Length > 0 {
		return true
	}
	return slices.ContainsFunc(out.charges, func(theirs charge) bool {
		return slices.ContainsFunc(t.charges, func(own charge) bool { return own.node == theirs.node })
	})
}

// overflows reports whether more would wait than may.
func (c *Control) overflows(t *Ticket) bool {
	if c.o.Queue.Length > 0 {
		return c.length >= c.o.Queue.Length
	}
	var waits, own, size float64
	share := c.o.share()
	for _, h := range t.charges {
		own += h.tasks
		waits += h.node.waiting
		size += h.node.capacity
	}
	return len(t.charges) > 0 && waits+own > max(size*share, own)
}

// worst returns the class that has most waiting for its weight, if t waited, too.
func (c *Control) worst(t *Ticket) *class {
	worst := &c.classes[t.Class]
	most := (worst.cost + t.cost) / worst.Weight
	for i := range c.classes {
		if k := &c.classes[i]; k.cost/k.Weight > most {
			most, worst = k.cost/k.Weight, k
		}
	}
	return worst
}

// pump admits what waits and fits, class by class in the order of the work done for each.
// What does not fit lays claim to room on its nodes: nothing that comes after it takes that.
func (c *Control) pump(now time.Time) []*Ticket {
	c.round++
	c.expire(now)
	if c.length == 0 || c.o.Mode == Off {
		return c.turned
	}
	for i := range c.classes {
		k := &c.classes[i]
		if k.begin(c.newestFirst(k, now)); k.oldest != nil {
			k.share = c.shareOf(k, now)
		}
	}
	for exhausted := 0; exhausted < c.sought; {
		k := c.turn(now)
		if k == nil {
			break
		}
		t := k.cursor
		k.cursor = t.after(k.newer)
		if k.holdsBack(t) {
			continue
		}
		if lacks := c.lacks(c.renewed(t), now, c.round); lacks != (lack{}) {
			exhausted += c.claim(t, lacks, now)
			k.missed++
			k.over = k.missed >= scan
			continue
		}
		c.virtual = max(c.virtual, k.virtual)
		k.left -= leftPart * k.left // it stayed
		c.remove(t)
		if c.o.Mode == Observe { // it has been sent
			c.catchUp(t, now)
			continue
		}
		c.admit(t, true, now)
		c.turned = append(c.turned, t)
	}
	if c.length > 0 {
		c.holdRest()
	}
	return c.turned
}

// pumpBut is pump, but returns no ticket that the caller looks at in any case.
func (c *Control) pumpBut(t *Ticket, now time.Time) []*Ticket {
	c.turned = slices.DeleteFunc(c.pump(now), func(other *Ticket) bool { return other == t })
	return c.turned
}

// turn returns the class whose turn it is, nil if none has anything to send.
func (c *Control) turn(now time.Time) *class {
	var best *class
	for i := range c.classes {
		k := &c.classes[i]
		if k.cursor == nil || k.over {
			continue
		}
		if !k.may(now) {
			k.over = true
			continue
		}
		if best == nil || k.virtual < best.virtual {
			best = k
		}
	}
	return best
}

// newestFirst reports whether the newest of what waits in a class is to be sent first. As long as
// nobody leaves before its turn the order is that of arrival. Once the oldest has waited for half
// of the time after which they do, this order would serve those that are about to
// leave, and so nobody: then the newest have the best chance.
func (c *Control) newestFirst(k *class, now time.Time) bool {
	if k.oldest == nil || c.o.Order != Adaptive {
		return k.oldest != nil && c.o.Order == NewestFirst
	}
	return k.left >= leftMuch && now.Sub(k.leftAt) <= forgetLeft && now.Sub(k.oldest.began) > k.patience/2
}

// begin prepares the class for a pump.
func (k *class) begin(newer bool) {
	k.newer, k.cursor, k.over, k.held, k.missed = newer, k.first(newer), false, false, 0
}

// first returns the newest ticket that waits, or the oldest.
func (k *class) first(newest bool) *Ticket {
	if newest {
		return k.newest
	}
	return k.oldest
}

// after returns the ticket after t, toward the oldest or the newest of its class.
func (t *Ticket) after(newer bool) *Ticket {
	if newer {
		return t.before
	}
	return t.next
}

// push puts a ticket into the queue of its class, behind those that were offered before it:
// one that is downgraded may be older than what waits there.
func (c *Control) push(t *Ticket) {
	k := &c.classes[t.Class]
	if k.oldest == nil { // it comes back with no credit for the time that it did nothing
		k.virtual = max(k.virtual, c.virtual)
	}
	t.Verdict, t.queued = Waits, true
	t.before, t.next = k.newest, nil
	for t.before != nil && t.began.Before(t.before.began) {
		t.before, t.next = t.before.before, t.before
	}
	if t.before != nil {
		t.before.next = t
	} else {
		k.oldest = t
	}
	if t.next != nil {
		t.next.before = t
	} else {
		k.newest = t
	}
	k.length++
	c.length++
	c.bytes += t.Bytes
	c.weigh(t, 1)
}

// weigh adds what a ticket is expected to send to what waits, or takes it from there.
func (c *Control) weigh(t *Ticket, sign float64) {
	add(&c.classes[t.Class].cost, sign*t.cost)
	if len(t.charges) == 0 {
		c.sought += int(sign)
	}
	for _, h := range t.charges {
		add(&h.node.waiting, sign*h.tasks)
		before := h.node.seekers
		if h.node.seekers += int(sign); before == 0 || h.node.seekers == 0 {
			c.sought += int(sign)
		}
	}
}

// remove takes a ticket out of the queue of its class.
func (c *Control) remove(t *Ticket) {
	k := &c.classes[t.Class]
	if t.before != nil {
		t.before.next = t.next
	} else {
		k.oldest = t.next
	}
	if t.next != nil {
		t.next.before = t.before
	} else {
		k.newest = t.before
	}
	t.before, t.next, t.queued = nil, nil, false
	k.length--
	c.length--
	c.bytes -= t.Bytes
	if c.weigh(t, -1); k.length == 0 {
		k.cost, k.held = 0, false
	}
}
