package admission

import (
	"math"
	"time"
)

// active reports whether the class has, or had a moment ago, something to do.
func (k *class) active(now time.Time) bool {
	return k.inFlight > 0 || k.oldest != nil || now.Sub(k.sentAt) < activeFor
}

// shareOf returns how many shard queries a class may have in flight while others are active: its share of what
// keeps all nodes busy, even if these leave room. Running searches cannot be stopped, so a class of which the searches take
// long must not fill all nodes with them. They count the more the longer they take.
func (c *Control) shareOf(k *class, now time.Time) float64 {
	weights := 0.0
	for i := range c.classes {
		if other := &c.classes[i]; other == k || other.active(now) {
			weights += other.Weight
		}
	}
	if weights == k.Weight {
		return math.Inf(1)
	}
	limits := 0.0
	for _, n := range c.order {
		if n.serves && !n.stale(now) {
			limits += n.ample(&c.o) * c.o.share()
		}
	}
	if limits == 0 {
		return math.Inf(1)
	}
	if c.took > 0 && k.took > 0 {
		limits *= c.took / k.took
	}
	return limits * k.Weight / weights
}

// exceeds reports whether a ticket would give its class more than its share. One search counts for half of that at most until it is sent,
// so that a wide one need not wait until nothing of its class is in flight. One search of each class is always
// sent.
func (k *class) exceeds(t *Ticket, share float64) bool {
	return k.inFlight > 0 && k.inFlight+min(t.atNodes(), share/2) > share
}

// holdsBack reports whether the share of its class holds a ticket back. Then no more of the class is looked at, and nothing that
// comes later goes before it.
func (k *class) holdsBack(t *Ticket) bool {
	if !k.exceeds(t, k.share) {
		return false
	}
	k.over, k.held = true, true
	return true
}

// holdRest does that with the next ticket of each class that a pump has not looked at, as no node was left.
func (c *Control) holdRest() {
	for i := range c.classes {
		if k := &c.classes[i]; k.cursor != nil && !k.over {
			k.holdsBack(k.cursor)
		}
	}
}
