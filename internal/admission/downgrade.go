package admission

import (
	"slices"
	"time"
)

// A class may name a lower one, which takes what its own bounds would refuse or hold up: a
// search beyond the rate at once, one that has waited for the deadline then. Nothing is
// moved because the queue is full: that bounds all classes.

// link finds the lower class of each class.
func (c *Control) link() {
	for i := range c.classes {
		k := &c.classes[i]
		k.lower = slices.IndexFunc(c.classes, func(other class) bool { return k.Downgrade != "" && other.Name == k.Downgrade })
	}
}

// lowerFor returns the class that a ticket that has waited for so long may still wait in,
// of those below its own. It reports false if there is none.
func (c *Control) lowerFor(t *Ticket, waited time.Duration) (int, bool) {
	at := t.Class
	for range c.classes { // they may name each other
		if at = c.classes[at].lower; at < 0 {
			return 0, false
		}
		if patience := c.patienceIn(at); patience == 0 || patience > waited {
			return at, true
		}
	}
	return 0, false
}

// enters returns the class of a new ticket: its own, or the first below it that has
// something left of its rate. What waits in a class has used up its part of that when it came, not when it is sent: while nodes are
// full, what exceeds the rate would wait for room first, and for the clock then.
func (c *Control) enters(t *Ticket, now time.Time) int {
	at := t.Class
	for range c.classes {
		k := &c.classes[at]
		if t.Passes || k.lower < 0 || k.entries.may(now) {
			break
		}
		at = k.lower
	}
	return at
}

// Downgrade has a ticket that has waited for as long as its class lets it wait in a lower
// one, whose patience counts from the time it was offered. It reports whether there is
// such a class, and returns the tickets whose verdict it changed, valid until the next
// call; t may be one of them.
func (c *Control) Downgrade(t *Ticket, now time.Time) (bool, []*Ticket) {
	c.turned = c.turned[:0]
	if t.Verdict != Waits || !c.lowered(t, now) {
		return false, nil
	}
	return true, c.pump(now)
}

// lowered moves a ticket that is queued to a lower class, if there is one.
func (c *Control) lowered(t *Ticket, now time.Time) bool {
	lower, ok := c.lowerFor(t, now.Sub(t.began))
	if !ok {
		return false
	}
	c.classes[t.Class].downgraded++
	verdict := t.Verdict // in mode observe it has been admitted
	c.remove(t)
	t.Class = lower
	c.push(t)
	t.Verdict = verdict
	return true
}
