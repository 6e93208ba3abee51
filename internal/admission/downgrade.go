package admission

import "time"

// A class may name a lower one, which takes what its own bounds would refuse or hold up: a
// search beyond the rate at once, one that has waited for the deadline then. Nothing is
// moved because the queue is full: that bounds all classes.

// from returns the class that a search comes into that has waited for so long: this one or the first below it that has
// something left of its rate, and more patience; if all such have used up their rates, the first with more patience. It
// returns -1 if there is none.
func (c *Control) from(class int, waited time.Duration, now time.Time) int {
	patient := -1
	for range c.classes { // Options may have them name each other
		if class < 0 {
			break
		}
		if patience := c.Patience(class); patience == 0 || patience > waited {
			if c.classes[class].takes(now) {
				return class
			}
			if patient < 0 {
				patient = class
			}
		}
		class = c.classes[class].lower
	}
	return patient
}

// enters returns the class of a new ticket.
func (c *Control) enters(t *Ticket, now time.Time) int {
	if t.Passes || c.o.Mode == Off {
		return t.Class
	}
	return c.from(t.Class, 0, now) // every class has patience for it
}

// expire refuses what has waited for as long as it may, unless a lower class has more patience: that counts from when it was
// offered.
func (c *Control) expire(now time.Time) {
	for i := range c.classes {
		k, patience := &c.classes[i], c.Patience(i)
		for t := k.oldest; t != nil && patience > 0 && now.Sub(t.began) >= patience; t = k.oldest {
			k.gaveUp(now.Sub(t.began), now)
			if !c.lowered(t, now) {
				c.drop(t, TooLate, now)
			}
		}
	}
}

// lowered moves a ticket that is queued to a lower class, if there is one.
func (c *Control) lowered(t *Ticket, now time.Time) bool {
	lower := c.from(c.classes[t.Class].lower, now.Sub(t.began), now)
	if lower < 0 {
		return false
	}
	c.classes[t.Class].downgraded++
	verdict := t.Verdict // in mode observe it has been admitted
	c.remove(t)
	t.Class = lower
	c.classes[lower].came(now)
	c.push(t)
	t.Verdict = verdict
	return true
}
