package lab

import (
	"slices"
	"time"

	"sidestep/internal/admission"
)

// search is one search of a client.
type search struct {
	start    time.Duration
	shards   []int     // global numbers of the shards it touches
	demands  []float64 // CPU seconds of the shard query on each
	sidecar  int
	class    int // of admission
	attempts int
	ticket   admission.Ticket
	tried    []int // coordinating nodes
	avoid    []int // nodes blamed for a failed attempt
	running  []*try
	left     bool // its client has closed the connection
	settled  bool // answered, for better or worse
	finished func(ok bool)
}

// try is one attempt of a search under way.
type try struct {
	plan
	sent time.Duration
	// cancelled: another attempt was sooner. What waits for a thread is dropped, what
	// runs is not: the engine would stop it within some milliseconds.
	cancelled bool
}

// outcome is how an attempt ended, as the proxy sees it.
type outcome struct {
	response time.Duration // from sending to the answer
	took     time.Duration // as the coordinating node counts
	failed   bool
	hasTook  bool
	blamed   []int
}

// gather is one attempt of a search at its coordinating node.
type gather struct {
	w       *world
	c       *coordinator
	s       *search
	run     *try
	began   time.Duration
	missing int
	blamed  []int
	reply   func(outcome)
}

// execute runs s at the coordinating node as planned. reply is called there.
func (w *world) execute(c *coordinator, s *search, r *try, reply func(outcome)) {
	if c.node.fails {
		w.c.after(rejectTime, func() { reply(outcome{failed: true, blamed: []int{c.node.id}}) })
		return
	}
	g := &gather{w: w, c: c, s: s, run: r, began: w.c.now, missing: len(s.shards), reply: reply}
	for i, shard := range s.shards {
		g.query(i, w.order(c, shard, r.plan))
	}
}

// order returns the copies of a shard that may serve, best first.
func (w *world) order(c *coordinator, shard int, p plan) []int {
	var first, rest []int
	for _, n := range w.shards[shard] {
		switch {
		case w.nodes[n].absent:
		case p.listed == nil || slices.Contains(p.listed, n):
			first = append(first, n)
		case p.prefer:
			rest = append(rest, n)
		}
	}
	by := c.rotation[shard]
	c.rotation[shard]++
	rotateBy(first, by)
	rotateBy(rest, by)
	// A list switches the engine's ranking off.
	if p.listed == nil {
		w.rank(c, first, &w.trial)
	}
	return append(first, rest...)
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
		g.giveUp()
		return
	}
	w, c, n := g.w, g.c, g.w.nodes[copies[0]]
	sent := w.c.now
	c.outstanding[n.id]++
	n.assigned++
	w.measure.dispatch(n.id, sent)
	done := func(ok bool) {
		n.assigned--
		w.c.after(w.hop(n, c.node), func() {
			c.node.receive(func() {
				c.outstanding[n.id]--
				if !ok {
					if !slices.Contains(g.blamed, n.id) {
						g.blamed = append(g.blamed, n.id)
					}
					if len(copies) == 1 {
						g.giveUp()
						return
					}
					g.query(i, copies[1:])
					return
				}
				c.hear(n, w.c.now-sent)
				g.missing--
				g.answeredIfAll()
			})
		})
	}
	t := &task{demand: g.s.demands[i], cancelled: &g.run.cancelled, done: done}
	w.c.after(w.hop(c.node, n)+w.extra(c.node, n), func() { n.receive(func() { n.submit(t) }) })
}

// giveUp ends an attempt of which a shard has no copy left: the answer is
// partial. The others are not waited for, which makes no difference to a client
// that asks again.
func (g *gather) giveUp() {
	if g.missing < 0 {
		return
	}
	g.missing = -1
	blamed := g.blamed
	if len(blamed) == 0 {
		blamed = []int{g.c.node.id}
	}
	g.reply(outcome{failed: true, blamed: blamed})
}

func (g *gather) answeredIfAll() {
	if g.missing != 0 {
		return
	}
	g.c.node.work(g.w.sc.reduce.Seconds(), func() {
		g.reply(outcome{took: (g.w.c.now - g.began).Truncate(time.Millisecond), hasTook: true})
	})
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
	if from == to || to.transport == 0 {
		return 0
	}
	return w.jitter(to.transport, 1.0/6)
}

// jitter returns d changed by at most part of it.
func (w *world) jitter(d time.Duration, part float64) time.Duration {
	return time.Duration(float64(d) * (1 + part*(2*w.network.Float64()-1)))
}
