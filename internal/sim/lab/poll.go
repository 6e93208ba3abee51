package lab

import (
	"maps"
	"time"

	"sidestep/internal/selection"
)

// poll is what one poll of one node brought.
type poll struct {
	took       time.Duration
	unanswered bool // within the deadline
	failed     bool // answered with an error
	queue      int
	active     float64
	rejected   int64         // since the last answered poll
	service    time.Duration // mean of the shard queries since the last poll
	served     int64
	elapsed    time.Duration // since the last answered poll; 0 on the first
	// coordinated is the response time of other nodes as this node saw it, where
	// it changed since the last poll.
	coordinated map[string]selection.Seen
}

// pollWork is what a poll costs the node, in CPU seconds.
const pollWork = 0.0002

// poller polls one node for one sidecar, again and again.
type poller struct {
	w         *world
	to        polled
	node      *node
	completed int64
	rejected  int64
	inThread  time.Duration
	readAt    time.Duration // when the last answered poll was read
	changes   uint64
	number    int                       // of the poll that is awaited
	told      map[string]selection.Seen // response times of other nodes, by the last answer
}

func (w *world) startPolls(to polled) {
	for _, n := range w.nodes[:w.sc.nodes] {
		p := &poller{w: w, to: to, node: n, told: map[string]selection.Seen{}}
		w.c.after(time.Duration(w.polls.Float64()*float64(w.sc.pollInterval)), p.poll)
	}
}

// poll asks once and plans the next poll.
func (p *poller) poll() {
	w, n := p.w, p.node
	w.c.after(time.Duration(float64(w.sc.pollInterval)*(0.8+0.4*w.polls.Float64())), p.poll)
	if p.number%2 == 1 {
		return // the last one is still awaited
	}
	p.number++
	if n.absent {
		p.number++
		return
	}
	number, sent := p.number, w.c.now
	end := func(result poll) {
		if p.number != number {
			return // too late
		}
		p.number++
		result.took = w.c.now - sent
		p.to.poll(n.id, result)
	}
	w.c.after(w.sc.pollTimeout, func() { end(poll{unanswered: true}) })
	w.c.after(w.toClient(n)+n.http, func() {
		n.receive(func() {
			if n.fails {
				w.c.after(w.toClient(n), func() { end(poll{failed: true}) })
				return
			}
			n.work(pollWork, func() {
				result, commit := p.read()
				w.c.after(w.toClient(n), func() {
					if p.number == number {
						commit()
					}
					end(result)
				})
			})
		})
	})
}

// read is the answer of the node, and what to do once it has arrived.
func (p *poller) read() (poll, func()) {
	n, c := p.node, p.w.coordinators[p.node.id]
	completed, rejected, inThread, changes := n.completed, n.rejected, n.inThread, c.changes
	result := poll{
		queue: len(n.waiting), active: float64(n.active), served: completed - p.completed, rejected: rejected - p.rejected,
	}
	if result.served > 0 {
		result.service = (inThread - p.inThread) / time.Duration(result.served)
	}
	if changes > p.changes {
		result.coordinated = map[string]selection.Seen{}
		for i := range c.seen {
			if s := &c.seen[i]; s.known && s.changed > p.changes {
				result.coordinated[p.w.ids[i]] = selection.Seen{Now: fromMillis(s.response.value), Before: p.told[p.w.ids[i]].Now}
			}
		}
	}
	now := p.w.c.now
	if p.readAt > 0 {
		result.elapsed = now - p.readAt
	}
	return result, func() {
		p.readAt = now
		p.completed, p.rejected, p.inThread, p.changes = completed, rejected, inThread, changes
		maps.Copy(p.told, result.coordinated)
	}
}
