package lab

import "time"

// clock is virtual time: a queue of events, ordered by time and, at one moment,
// by when they were added. Nothing in it sleeps.
type clock struct {
	now   time.Duration
	added uint64
	queue []event
}

type event struct {
	at     time.Duration
	number uint64
	do     func()
}

func (e event) before(o event) bool {
	return e.at < o.at || (e.at == o.at && e.number < o.number)
}

// after calls do when d has passed.
func (c *clock) after(d time.Duration, do func()) { c.at(c.now+max(0, d), do) }

// at calls do at t, which must not have passed.
func (c *clock) at(t time.Duration, do func()) {
	c.added++
	c.queue = append(c.queue, event{at: t, number: c.added, do: do})
	i := len(c.queue) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !c.queue[i].before(c.queue[parent]) {
			return
		}
		c.queue[i], c.queue[parent] = c.queue[parent], c.queue[i]
		i = parent
	}
}

// step does the next event; false when there is none before end.
func (c *clock) step(end time.Duration) bool {
	if len(c.queue) == 0 || c.queue[0].at >= end {
		return false
	}
	e := c.queue[0]
	last := len(c.queue) - 1
	c.queue[0] = c.queue[last]
	c.queue[last] = event{}
	c.queue = c.queue[:last]
	c.sink()
	c.now = e.at
	e.do()
	return true
}

// sink moves the first event to its place.
func (c *clock) sink() {
	i := 0
	for {
		child := 2*i + 1
		if child >= len(c.queue) {
			return
		}
		if right := child + 1; right < len(c.queue) && c.queue[right].before(c.queue[child]) {
			child = right
		}
		if !c.queue[child].before(c.queue[i]) {
			return
		}
		c.queue[i], c.queue[child] = c.queue[child], c.queue[i]
		i = child
	}
}
