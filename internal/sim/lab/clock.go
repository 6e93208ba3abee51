package lab

import "time"

// clock is virtual time: a queue of events, ordered by time and, at one moment,
// by when they were added. Nothing in it sleeps.
type clock struct {
	now   time.Duration
	added uint64
	queue heap[event]
}

type event struct {
	at     time.Duration
	number uint64
	do     func()
}

// Before orders events as they are to happen.
func (e event) Before(o event) bool {
	return e.at < o.at || (e.at == o.at && e.number < o.number)
}

// after calls do when d has passed.
func (c *clock) after(d time.Duration, do func()) { c.at(c.now+max(0, d), do) }

// at calls do at t, which must not have passed.
func (c *clock) at(t time.Duration, do func()) {
	c.added++
	c.queue.push(event{at: t, number: c.added, do: do})
}

// step does the next event; false when there is none before end.
func (c *clock) step(end time.Duration) bool {
	if len(c.queue) == 0 || c.queue[0].at >= end {
		return false
	}
	e := c.queue.pop()
	c.now = e.at
	e.do()
	return true
}
