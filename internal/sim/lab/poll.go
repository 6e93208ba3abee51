package lab

import (
	"time"

	"sidestep/internal/selection"
)

// poll is what one poll of one node brought.
type poll struct {
	selection.Poll
	active     float64 // mean of the search threads at work
	rejections int64   // tasks rejected since the last poll
}

// unanswered is a poll that brought nothing.
func unanswered(state selection.State, why string) poll {
	return poll{Poll: selection.Poll{State: state, Message: why}}
}

// pollWork is what a poll costs the node, in CPU seconds.
const pollWork = 0.0002

// How polls are spaced, as in package cluster: more rarely while no search is decided, or
// none that the node serves; and as rarely as keeps the tasks of the node's management
// pool, which it tells with its statistics, below a ceiling.
const (
	idleAfter                  = 10 * time.Second
	idleInterval               = 2 * time.Second
	calmFactor                 = 4
	retryPause                 = 50 * time.Millisecond
	pollCeiling                = 100.0 // of a node with manyProcessors; with fewer that part of it, down to leastShare
	manyProcessors, leastShare = 8, 0.25
	ceilingTime                = 2 * time.Second
	slowestPolls               = 10 * time.Second
)

// pollTasks is how many tasks a poll is for the management pool.
func (w *world) pollTasks() int64 {
	if w.sc.drawn != nil && w.sc.drawn.Engine == elasticsearch {
		return 3
	}
	return 1
}

// poller polls one node for one sidecar, again and again.
type poller struct {
	w    *world
	to   polled
	of   *sidestep // nil: of a baseline, which is never idle
	node *node

	number  int // of the poll that is awaited, or planned
	awaited bool
	rare    bool // the last pause was long, as nothing was searched
	started time.Duration
	pause   time.Duration // while nothing is searched

	rate, windowAt float64 // of polls, 1 is the usual one; s
	spared         float64 // how many times as far apart all of the window were at least, as nothing goes by them
	opened         bool    // the window has begun, and no poll in it was planned yet
	tasks          int64

	completed, rejected int64
	inThread            time.Duration
	readAt              time.Duration // when the last answered poll was read
	changes             uint64
	told                []time.Duration // response times of other nodes, by the last answer
}

// pacing is a router whose polls are spaced by what it searches.
type pacing interface{ paced() *sidestep }

func (r *sidestep) paced() *sidestep { return r }

func (w *world) startPolls(to polled) {
	var of *sidestep
	if p, ok := to.(pacing); ok {
		of = p.paced()
	}
	for _, n := range w.nodes {
		if n.role == managerNode || n.id >= w.sc.nodes && w.sc.drawn == nil {
			continue
		}
		p := &poller{w: w, to: to, of: of, node: n, rate: 1, pause: w.sc.pollInterval, told: make([]time.Duration, len(w.nodes))}
		if of != nil {
			of.pollers = append(of.pollers, p)
		}
		p.after(time.Duration(w.polls.Float64() * float64(w.sc.pollInterval)))
	}
}

// after plans the next poll.
func (p *poller) after(d time.Duration) {
	p.number++
	number := p.number
	p.w.c.after(d, func() {
		if p.number == number {
			p.poll()
		}
	})
}

// wake polls now if the poller rests.
func (p *poller) wake() {
	if !p.awaited && p.rare {
		p.rare = false
		p.after(0)
	}
}

// poll asks once.
func (p *poller) poll() {
	w, n := p.w, p.node
	p.started, p.awaited = w.c.now, true
	p.number++
	number := p.number
	end := func(result poll) {
		if p.number != number {
			return // too late
		}
		p.awaited = false
		result.Took = w.c.now - p.started
		p.to.poll(n.id, result)
		p.rest(result.State == selection.Unresponsive)
	}
	w.c.after(w.sc.pollTimeout, func() { end(unanswered(selection.Unresponsive, "no answer in time")) })
	late, lost := n.lost.draw(w.polls)
	if lost {
		return
	}
	back := func() time.Duration { return w.toClient() + n.statsDelay + late }
	w.c.after(w.toClient()+n.http, func() {
		n.receive(func() {
			switch {
			case n.absent.on():
				w.c.after(w.toClient(), func() { end(unanswered(selection.Unreachable, "connection refused")) })
				return
			case n.fails.on():
				w.c.after(w.toClient(), func() { end(unanswered(selection.Unknown, "503")) })
				return
			}
			n.work(pollWork, func() {
				n.told += w.pollTasks()
				result, commit := p.read()
				w.c.after(back(), func() {
					if p.number == number {
						commit()
					}
					end(result)
				})
			})
		})
	})
}

// rest plans the next poll after one that has ended.
func (p *poller) rest(unanswered bool) {
	usual := p.w.sc.pollInterval
	interval := min(max(slowestPolls, usual), time.Duration(float64(usual)/max(p.rate, 0.001)))
	stretched := interval > usual
	idle, unused := p.unused()
	p.rare = idle || unused
	p.pause = min(2*p.pause, idleInterval)
	least := time.Duration(0) // between polls that nothing goes by
	switch {
	case idle:
		interval = max(interval, p.pause)
	case unused:
		interval = max(interval, idleInterval)
	default:
		p.pause = usual
		if p.of != nil && p.of.waits == nil && !p.of.s.NeedsPolls(p.w.ids[p.node.id], p.of.now()) { // admission goes by polls
			least = min(calmFactor*usual, max(idleInterval, usual))
		}
	}
	spared := float64(least) / float64(interval)
	if !p.opened {
		spared = min(p.spared, spared)
	}
	p.spared, p.opened = spared, false
	if unanswered && !stretched && !unused {
		p.after(retryPause)
		return
	}
	jittered := time.Duration(float64(max(interval, least)) * (0.8 + 0.4*p.w.polls.Float64()))
	p.after(max(jittered-(p.w.c.now-p.started), usual/5))
}

// unused reports whether the sidecar has decided no search lately, and whether it has
// decided none that the node serves.
func (p *poller) unused() (idle, unused bool) {
	if p.of == nil {
		return false, false
	}
	if p.w.c.now-p.of.lastUsed >= idleAfter {
		return true, false // while nothing is known to be in use, all is
	}
	for _, index := range p.w.held[p.node.id] {
		if at := p.of.usedAt[index]; at > 0 && p.w.c.now-at < idleAfter {
			return false, false
		}
	}
	return false, true
}

// read is the answer of the node, and what to do once it has arrived.
func (p *poller) read() (poll, func()) {
	n, c := p.node, p.w.coordinators[p.node.id]
	completed, rejected, inThread, changes := n.completed, n.rejected, n.inThread.Truncate(time.Millisecond), c.changes
	result := poll{
		Poll: selection.Poll{
			State: selection.Fine, Queue: float64(len(n.waiting)), Used: n.usage(), Queries: completed - p.completed,
		},
		active: float64(n.active), rejections: rejected - p.rejected,
	}
	now := p.w.c.now
	if p.readAt > 0 {
		result.Elapsed = now - p.readAt
	}
	if result.Queries > 0 {
		busy := inThread - p.inThread
		result.ServiceTime = busy / time.Duration(result.Queries)
		if result.Elapsed > 0 {
			result.active = min(busy.Seconds()/result.Elapsed.Seconds(), float64(n.threads))
		}
	}
	if result.rejections > 0 {
		result.Rejected = float64(result.rejections) / float64(result.rejections+result.Queries)
	}
	var seen []told
	if changes > p.changes {
		for i := range c.seen {
			if s := &c.seen[i]; s.known && s.changed > p.changes {
				seen = append(seen, told{i, fromMillis(s.response.value)})
			}
		}
		result.Coordinated = make(map[string]selection.Seen, len(seen))
		for _, t := range seen {
			result.Coordinated[p.w.ids[t.node]] = selection.Seen{Now: t.response, Before: p.told[t.node]}
		}
	}
	tasks := n.told
	return result, func() {
		p.readAt = now
		p.completed, p.rejected, p.inThread, p.changes = completed, rejected, inThread, changes
		for _, t := range seen {
			p.told[t.node] = t.response
		}
		p.observeTasks(tasks)
	}
}

// told is the response time of a node as another tells it.
type told struct {
	node     int
	response time.Duration
}

// observeTasks keeps the polls of all sidecars below the node's ceiling.
func (p *poller) observeTasks(tasks int64) {
	now := p.w.c.now.Seconds()
	if p.windowAt == 0 {
		p.windowAt, p.tasks, p.opened = now, tasks, true
		return
	}
	window := now - p.windowAt
	if window < ceilingTime.Seconds() {
		return
	}
	load := max(1, p.spared) * float64(tasks-p.tasks) / window / (pollCeiling * min(max(p.node.cpus/manyProcessors, leastShare), 1))
	p.windowAt, p.tasks, p.opened = now, tasks, true
	if load > 1 {
		p.rate /= min(load, 2)
		return
	}
	p.rate = min(1, p.rate*1.1+0.002)
}

// touch notes that the sidecar decides s: statistics of the nodes that serve it matter.
func (r *sidestep) touch(s *search) {
	now := r.w.c.now
	idle := now-r.lastUsed >= idleAfter
	unused := r.usedAt[s.index] == 0 || now-r.usedAt[s.index] >= idleAfter
	r.lastUsed, r.usedAt[s.index] = now, max(now, 1)
	if !idle && !unused {
		return
	}
	for _, p := range r.pollers {
		if _, unused := p.unused(); !unused {
			p.wake()
		}
	}
}

func (r *sidestep) poll(node int, p poll) { r.s.ObservePoll(r.w.ids[node], p.Poll, r.now()) }
