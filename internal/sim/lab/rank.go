package lab

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// seen is what a coordinating node knows of a data node, as in the engine's
// ResponseCollectorService. Milliseconds.
type seen struct {
	response, queue average
	service         float64
	known           bool
	changed         uint64 // value of coordinator.changes when it last changed
	peak            float64
	peakAt          time.Duration
}

// coordinator is the searching side of a node: it picks a copy of every shard and
// waits for the slowest.
type coordinator struct {
	node        *node
	seen        []seen
	known       int // entries of seen that hold something
	changes     uint64
	outstanding []int32   // shard queries of searches, by node
	planned     []int32   // the same, with those of the search that is being planned
	gathers     []*gather // under way
	rotation    []uint32  // by shard: the engine starts at another copy each time
}

// ranking orders the copies of a shard, best first. Copies come rotated. It may look at the world beside
// its own coordinating node.
type ranking func(c *coordinator, copies []int, w *world)

// rotate is the engine without adaptive selection.
func rotate(*coordinator, []int, *world) {}

func leastOutstanding(c *coordinator, copies []int, _ *world) {
	slices.SortStableFunc(copies, func(a, b int) int {
		return cmp.Compare(c.planned[a], c.planned[b])
	})
}

// formula is one version of the engine's rank, in milliseconds: lower is better.
type formula func(response, service, q float64) float64

// arsPublished is Elasticsearch 7.13 to 9.4: Ψ = R − S + q̂³·S.
func arsPublished(response, service, q float64) float64 { return response - service + q*q*q*service }

// arsInverted is OpenSearch today and Elasticsearch before 7.13: the service time
// taken for the service rate. A node without searches outstanding counts as having one.
func arsInverted(response, service, q float64) float64 {
	s := max(service, 1e-6)
	return response - 1/s + q*q*q/s
}

// arsQueue is Elasticsearch 9.5: q̂³·S.
func arsQueue(_, service, q float64) float64 { return q * q * q * service }

// adaptive is the engine's adaptive replica selection with one of the formulas.
// openSearch says that losing sets the service time to the mean with the winner's
// instead of averaging it in, and that no search outstanding counts as one.
func adaptive(rank formula, openSearch bool) ranking {
	least := int32(0)
	if openSearch {
		least = 1
	}
	return func(c *coordinator, copies []int, _ *world) {
		if len(copies) < 2 {
			return
		}
		of := func(n int) float64 {
			s := &c.seen[n]
			if !s.known {
				return math.Inf(-1) // no statistics: first
			}
			q := 1 + float64(max(least, c.planned[n]))*float64(c.known) + math.Floor(s.queue.value)
			return rank(s.response.value, s.service, q)
		}
		slices.SortStableFunc(copies, func(a, b int) int { return cmp.Compare(of(a), of(b)) })
		w := c.seen[copies[0]]
		if !w.known {
			return
		}
		for _, n := range copies[1:] {
			if l := &c.seen[n]; l.known {
				c.pull(l, &w, openSearch)
			}
		}
	}
}

// pull moves the numbers of a copy that lost toward the winner's.
func (c *coordinator) pull(l, w *seen, overwrite bool) {
	l.queue.observe(math.Floor((l.queue.value + w.queue.value) / 2))
	l.response.observe((l.response.value + w.response.value) / 2)
	mean := (l.service + w.service) / 2
	if overwrite {
		l.service = mean
	} else {
		l.service += alpha * (mean - l.service)
	}
	c.changes++
	l.changed = c.changes
}

// hear takes in the answer of a data node.
func (c *coordinator) hear(n *node, took time.Duration) {
	s := &c.seen[n.id]
	if !s.known {
		s.known = true
		c.known++
	}
	s.response.observe(millis(took))
	s.queue.observe(float64(len(n.waiting)))
	s.service = n.service.value
	c.changes++
	s.changed = c.changes
	s.peak = peakEWMA(s.peak, millis(took), c.node.c.now-s.peakAt)
	s.peakAt = c.node.c.now
}

// forget drops what is known of a node that has left, and what it knew itself.
func (c *coordinator) forget(n int) {
	for i := range c.seen {
		if s := &c.seen[i]; s.known && (i == n || c.node.id == n) {
			*s = seen{}
			c.known--
		}
	}
}

// peakDecay is τ of Peak-EWMA in Finagle, linkerd and Envoy.
const peakDecay = 10 * time.Second

// peakEWMA jumps to a sample above it and else moves toward it with time.
func peakEWMA(old, sample float64, age time.Duration) float64 {
	if sample >= old {
		return sample
	}
	w := math.Exp(-age.Seconds() / peakDecay.Seconds())
	return old*w + sample*(1-w)
}

// peakOfTwo is Peak-EWMA with power of two choices at the coordinating node.
func peakOfTwo(c *coordinator, copies []int, w *world) {
	cost := func(n int) float64 {
		s := &c.seen[n]
		left := math.Exp(-(c.node.c.now - s.peakAt).Seconds() / peakDecay.Seconds())
		return s.peak * left * float64(c.planned[n]+1)
	}
	if len(copies) > 2 {
		w.lots.Shuffle(len(copies), func(i, j int) { copies[i], copies[j] = copies[j], copies[i] })
	}
	if len(copies) > 1 && cost(copies[1]) < cost(copies[0]) {
		copies[0], copies[1] = copies[1], copies[0]
	}
}

// earliestFinish is the oracle: it never touches a node that a fault makes bad
// while another copy is left, and takes the copy that finishes first as things
// truly stand.
func earliestFinish(c *coordinator, copies []int, w *world) {
	slices.SortStableFunc(copies, func(a, b int) int {
		return cmp.Compare(w.finish(c, a), w.finish(c, b))
	})
}

// finish returns when a shard query sent to n now would be done, in seconds.
func (w *world) finish(c *coordinator, n int) float64 {
	m := w.nodes[n]
	if m.toAvoid(-1) {
		return math.Inf(1)
	}
	speed := max(m.speed, 1e-3)
	if m.paused {
		speed = 1e-3
	}
	demand := w.sc.demand.Seconds()
	assigned := float64(m.assigned) + float64(c.planned[n]-c.outstanding[n])
	t := max(demand, (assigned+1)*demand/m.cpus) / speed
	if m != c.node {
		t += m.transport.Seconds()
	}
	return t
}
