package lab

import (
	"net/http"
	"slices"
	"time"
)

// kind is what a client asks for.
type kind uint8

const (
	searchAll kind = iota // all shards of an index
	searchOne             // one shard
	readByID              // a document
)

// outcome is how an attempt ended, as the proxy sees it.
type outcome struct {
	response time.Duration // from sending to the answer
	took     time.Duration // as the coordinating node counts
	hasTook  bool
	status   int   // of HTTP; 0: no answer
	refused  bool  // there was no connection: nothing was sent
	failed   int   // shards that are not part of the answer
	full     bool  // all of these, as the queues of all copies asked were full
	noCopies bool  // all of these, as no copy was left to ask
	named    []int // nodes that the answer names for it
}

// good reports whether the answer is complete.
func (o *outcome) good() bool { return o.status == http.StatusOK && o.failed == 0 }

// gather is one attempt of a search at its coordinating node.
type gather struct {
	w       *world
	c       *coordinator
	s       *search
	run     *try
	at      int // among the coordinator's gathers
	began   time.Duration
	missing int // shards; below 0: it has ended
	failed  int
	refused int // of these: as a queue was full
	unasked int // of these: as no copy was left
	named   []int
	lanes   map[int]*lane // by node; nil: the search has no more shards than a node is asked at once
	reply   func(outcome)
}

// lane are the shard queries of one search on one node.
type lane struct {
	open    int
	waiting []func()
}

// atOnce is how many shard queries of one search a node is sent at once: max_concurrent_shard_requests.
const atOnce = 5

// execute runs s at the coordinating node as planned. reply is called there.
func (w *world) execute(c *coordinator, s *search, r *try, reply func(outcome)) {
	switch {
	case c.node.absent.on():
		reply(outcome{refused: true})
		return
	case c.node.fails.on():
		w.c.after(rejectTime, func() { reply(outcome{status: http.StatusServiceUnavailable}) })
		return
	}
	g := &gather{w: w, c: c, s: s, run: r, began: w.c.now, missing: len(s.shards), reply: reply}
	if len(s.shards) > atOnce {
		g.lanes = map[int]*lane{}
	}
	c.planned = append(c.planned[:0], c.outstanding...)
	orders := make([][]int, len(s.shards))
	for i, shard := range s.shards {
		orders[i] = w.order(c, s, shard, r.plan)
		if len(orders[i]) == 0 && r.listed != nil {
			reply(outcome{status: http.StatusBadRequest}) // no node of the list has a copy
			return
		}
	}
	g.at = len(c.gathers)
	c.gathers = append(c.gathers, g)
	for i := range s.shards {
		g.query(i, orders[i])
	}
}

// order returns the copies of a shard that may serve, best first.
func (w *world) order(c *coordinator, s *search, shard int, p plan) []int {
	copies := make([]int, 0, len(w.shards[shard]))
	for _, n := range w.shards[shard] {
		if !w.nodes[n].absent.on() {
			copies = append(copies, n)
		}
	}
	// All copies are rotated, those that a list leaves out, too: the one behind these gets their turn.
	rotateBy(copies, c.rotation[shard])
	c.rotation[shard]++
	first, rest := copies, []int(nil)
	if p.listed != nil {
		first, rest = divide(copies, func(n int) bool { return slices.Contains(p.listed, n) })
		if !p.prefer {
			rest = nil
		}
	}
	if w.knows {
		first, rest = w.apart(first, s.index)
	}
	// A list switches the engine's ranking off, which is for searches alone.
	if p.listed == nil && s.kind != readByID && len(first) > 1 {
		w.rank(c, first, w)
		c.planned[first[0]]++ // so that the next shard of the search is ranked with it
	}
	return append(first, rest...)
}

// apart returns the copies that a client in the know would use, and the others behind
// them; all where there is no such copy.
func (w *world) apart(copies []int, index int) (good, bad []int) {
	good, bad = divide(copies, func(n int) bool { return !w.nodes[n].toAvoid(index) })
	if len(good) == 0 {
		return bad, nil
	}
	return good, bad
}

// divide returns the copies that are in, and the others.
func divide(copies []int, in func(n int) bool) (first, rest []int) {
	first = make([]int, 0, len(copies))
	for _, n := range copies {
		if in(n) {
			first = append(first, n)
			continue
		}
		rest = append(rest, n)
	}
	return first, rest
}

// rotateBy moves the first by elements to the end.
func rotateBy(copies []int, by uint32) {
	k := len(copies)
	if k < 2 {
		return
	}
	at := int(by) % k
	slices.Reverse(copies[:at])
	slices.Reverse(copies[at:])
	slices.Reverse(copies)
}

// query asks the first of copies for shard i of the search, the next if it fails.
func (g *gather) query(i int, copies []int) {
	if len(copies) == 0 {
		g.unasked++
		g.lose(-1)
		return
	}
	g.enter(copies[0], func() { g.ask(i, copies) })
}

// enter does what asks a node, now or as soon as fewer shard queries of the search are there.
func (g *gather) enter(node int, ask func()) {
	if g.lanes == nil {
		ask()
		return
	}
	l := g.lanes[node]
	if l == nil {
		l = &lane{}
		g.lanes[node] = l
	}
	if l.open == atOnce {
		l.waiting = append(l.waiting, ask)
		return
	}
	l.open++
	ask()
}

// leave makes room for the next shard query on a node.
func (g *gather) leave(node int) {
	l := g.lanes[node]
	if l == nil {
		return
	}
	if len(l.waiting) == 0 || g.missing <= 0 {
		l.open--
		return
	}
	next := l.waiting[0]
	l.waiting = l.waiting[1:]
	next()
}

// ask asks the first of copies for shard i.
func (g *gather) ask(i int, copies []int) {
	w, c, n := g.w, g.c, g.w.nodes[copies[0]]
	sent := w.c.now
	if n != c.node {
		g.run.hops++
	}
	searches := g.s.kind != readByID // what the engine counts
	if searches {
		c.outstanding[n.id]++
	}
	n.assigned++
	w.measure.dispatch(n.id, sent)
	t := &task{demand: g.s.demands[i] * n.slowFor(g.s.index), cancelled: &g.run.cancelled}
	t.done = func(ok bool) {
		n.assigned--
		w.c.after(w.hop(n, c.node), func() {
			c.node.receive(func() {
				if searches {
					c.outstanding[n.id]--
				}
				g.leave(n.id)
				g.heard(i, t, ok, sent, copies)
			})
		})
	}
	w.c.after(w.hop(c.node, n)+w.extra(c.node, n), func() {
		n.receive(func() {
			if g.s.kind == readByID {
				n.read(t)
				return
			}
			n.submit(t)
		})
	})
}

// heard takes in the answer of the first of copies.
func (g *gather) heard(i int, t *task, ok bool, sent time.Duration, copies []int) {
	n := g.w.nodes[copies[0]]
	switch {
	case g.missing <= 0:
	case ok:
		if g.s.kind != readByID {
			g.c.hear(n, g.w.c.now-sent)
		}
		g.missing--
		g.answerIfAll()
	case len(copies) > 1:
		g.query(i, copies[1:])
	default:
		if t.refused {
			g.refused++
		}
		g.lose(n.id)
	}
}

// outcome is the answer, as far as failed shards are concerned.
func (g *gather) outcome(status int) outcome {
	lost := func(count int) bool { return count > 0 && count == g.failed }
	return outcome{status: status, failed: g.failed, full: lost(g.refused), noCopies: lost(g.unasked), named: g.named}
}

// lose notes that a shard has no copy left, which failed last on this node.
func (g *gather) lose(node int) {
	if node >= 0 && !slices.Contains(g.named, node) {
		g.named = append(g.named, node)
	}
	g.failed++
	g.missing--
	g.answerIfAll()
}

// answerIfAll answers when nothing is awaited. A search of which some shards are missing
// has an answer all the same, one of which all are has none but an error.
func (g *gather) answerIfAll() {
	if g.missing != 0 {
		return
	}
	if g.failed == len(g.s.shards) {
		status := http.StatusServiceUnavailable
		if g.refused > 0 {
			status = http.StatusTooManyRequests
		}
		g.end(g.outcome(status))
		return
	}
	g.c.node.work(g.w.reduce(g.s), func() {
		o := g.outcome(http.StatusOK)
		o.took, o.hasTook = (g.w.c.now - g.began).Truncate(time.Millisecond), g.s.kind != readByID
		g.end(o)
	})
}

// end sends the answer.
func (g *gather) end(o outcome) {
	if g.missing < 0 {
		return
	}
	g.missing = -1
	last := len(g.c.gathers) - 1
	moved := g.c.gathers[last]
	g.c.gathers[g.at], moved.at = moved, g.at
	g.c.gathers[last] = nil
	g.c.gathers = g.c.gathers[:last]
	g.reply(o)
}

// reset breaks the connections of all searches that the node coordinates.
func (c *coordinator) reset() {
	for len(c.gathers) > 0 {
		c.gathers[0].end(outcome{})
	}
}

// reduce returns the CPU seconds of s on its coordinating node.
func (w *world) reduce(s *search) float64 {
	switch {
	case s.kind == readByID:
		return reduceRead
	case w.sc.drawn == nil:
		return w.sc.reduce.Seconds()
	}
	return reduceSearch + reduceShard*float64(len(s.shards))
}

// Times of the network, one way, without faults.
const (
	transportHop = 150 * time.Microsecond
	httpHop      = 150 * time.Microsecond
)

// hop returns the time from one node to another.
func (w *world) hop(from, to *node) time.Duration {
	if from == to {
		return 0
	}
	return w.jitter(transportHop, 0.3)
}

// extra returns what a fault of the network adds on the way to a data node: its
// transport connections are slow, in whichever direction.
func (w *world) extra(from, to *node) time.Duration {
	if from == to {
		return 0
	}
	return w.jitter(to.transport, unevenly)
}

// unevenly is by which part of it the delay of a fault differs from message to message.
const unevenly = 1.0 / 6

// jitter returns d changed by at most part of it.
func (w *world) jitter(d time.Duration, part float64) time.Duration {
	if d == 0 {
		return 0
	}
	return time.Duration(float64(d) * (1 + part*(2*w.network.Float64()-1)))
}
