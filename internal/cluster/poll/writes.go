package poll

import (
	"sync"
	"time"

	"sidestep/internal/cluster"
)

// writesMaxAge is how long what a poll told of a write pool is believed: longer than the
// longest pause between two polls of a node that answers (see ceilingInterval).
const writesMaxAge = 15 * time.Second

// writes knows the nodes whose write pool queues: by node id, when a poll last found so.
type writes struct{ at sync.Map }

// observe takes in a poll. One that failed tells nothing of the pool.
func (w *writes) observe(s cluster.NodeStats) {
	switch {
	case s.State != cluster.PollOK:
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
// it can, by [cluster.NodeStats.WritesQueue] of its last answered poll, if that is no older than
// 15 s. It takes no lock.
func (p *Poller) WritesQueue(node string) bool { return p.writes.queue(node, time.Now()) }

// Deliver hands on how a poll of a node ended.
func (p *Poller) Deliver(s cluster.NodeStats) {
	if s.State == cluster.PollOK {
		p.measured.Store(true)
	}
	p.writes.observe(s)
	p.o.OnStats(s)
}
