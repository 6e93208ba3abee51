package cluster

import (
	"sync"
	"time"
)

// writesMaxAge is how long what a poll told of a write pool is believed: longer than the
// longest pause between two polls of a node that answers (see ceilingInterval).
const writesMaxAge = 15 * time.Second

// WritesQueue reports whether the node's write pool has more to do than it can: tasks
// waited in its queue at this answered poll and at the one before, or it rejected some in
// between. One queue alone says little: a bulk of many documents fills it for a moment.
// It is false if the poll failed.
func (s NodeStats) WritesQueue() bool {
	return s.State == PollOK && (min(s.WriteQueue, s.WriteQueueBefore) > 0 || s.WriteRejected > 0)
}

// writes knows the nodes whose write pool queues: by node id, when a poll last found so.
type writes struct{ at sync.Map }

// observe takes in a poll. One that failed tells nothing of the pool.
func (w *writes) observe(s NodeStats) {
	switch {
	case s.State != PollOK:
	case s.WritesQueue():
		w.at.Store(s.Node, s.At)
	default:
		w.at.Delete(s.Node)
	}
}

// queue reports whether the pool of a node queues.
func (w *writes) queue(node string, now time.Time) bool {
	found, _ := w.at.Load(node)
	at, ok := found.(time.Time)
	return ok && now.Sub(at) < writesMaxAge
}

// WritesQueue reports whether the write pool of the node with this id has more to do than
// it can, by [NodeStats.WritesQueue] of its last answered poll, if that is no older than
// 15 s. It takes no lock.
func (c *Cluster) WritesQueue(node string) bool { return c.writes.queue(node, time.Now()) }

// hand hands on how a poll of a node ended.
func (c *Cluster) hand(s NodeStats) {
	c.writes.observe(s)
	c.o.OnStats(s)
}
