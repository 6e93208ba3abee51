package lab

import (
	"sidestep/internal/attempt"
	"sidestep/internal/selection"
)

// plan says where an attempt goes.
type plan struct {
	listed      []int // nodes that may serve; nil: the engine decides
	prefer      bool  // the others may serve, too, where those listed cannot
	coordinator int
	seed        bool                // the coordinating node is one of those configured
	decision    *selection.Decision // of a router that runs the production selection
}

// tried returns what is noted of the plan so that it is not tried again: nodes that are
// configured are apart from those that were discovered.
func (p plan) tried() int {
	if p.seed {
		return -1 - p.coordinator
	}
	return p.coordinator
}

// planning says how planning an attempt went.
type planning uint8

const (
	planned    planning = iota
	noOther             // there are no other copies
	overloaded          // all copies are on nodes that reject searches
	noNode              // there is no node left to send it through
)

// router is what stands between a client and the nodes. One of them serves the
// clients of one sidecar.
type router interface {
	// open decides what is done with a search that comes.
	open(s *search) (attempt.Rule, *attempt.Budget)
	// steer plans an attempt with chosen copies, others than those tried before.
	steer(s *search) (plan, planning)
	// unchanged plans to send s as the client wrote it; false if no node is left.
	unchanged(s *search) (plan, bool)
	// sent takes the lease of an attempt, release returns it.
	sent(s *search, t *try)
	release(t *try)
	// learn takes in how an attempt ended.
	learn(s *search, t *try, o outcome)
	// roomBeside reports whether nodes with copies have room that t did not fail on.
	roomBeside(t *try, o outcome) bool
	// close is told that s has been answered, or never will be.
	close(s *search)
}

// polled is a router that wants its nodes polled.
type polled interface {
	poll(node int, p poll)
}

// lister is a simple router: it says where an attempt goes, keeping off the nodes blamed
// for earlier ones. Every plan is observed once.
type lister interface {
	route(s *search) plan
	observe(p plan, o outcome)
}

// simple attempts what a lister plans.
type simple struct {
	lister
	w      *world
	rule   attempt.Rule
	budget attempt.Budget
}

// proxy is what stands between clients and nodes and lists copies.
func proxy(w *world, l lister) *simple {
	return &simple{w: w, lister: l, rule: attempt.Rule{Steered: 2, Repeatable: true}}
}

func (r *simple) open(*search) (attempt.Rule, *attempt.Budget) { return r.rule, &r.budget }
func (r *simple) steer(s *search) (plan, planning)             { return r.route(s), planned }
func (r *simple) sent(*search, *try)                           {}
func (r *simple) release(*try)                                 {}
func (r *simple) roomBeside(*try, outcome) bool                { return false }
func (r *simple) close(*search)                                {}

func (r *simple) unchanged(s *search) (plan, bool) {
	if r.rule.Steered == 0 {
		return r.route(s), true
	}
	return plan{coordinator: r.w.entry(s)}, true
}

func (r *simple) learn(s *search, t *try, o outcome) {
	if !o.good() {
		o.named = blame(t.cause, t.listed, &o, t.coordinator)
		s.avoid = append(s.avoid, o.named...)
	}
	if t.steered || r.rule.Steered == 0 {
		r.observe(t.plan, o)
	}
}

// clients go round robin over the coordinating nodes and leave the copies to the
// engine. A node that they cannot connect to they skip.
type clients struct {
	w    *world
	turn int
}

func (c *clients) route(*search) plan {
	c.turn++
	for range c.w.entries {
		n := c.w.entries[c.turn%len(c.w.entries)]
		if !c.w.nodes[n].absent.on() {
			return plan{coordinator: n}
		}
		c.turn++
	}
	return plan{coordinator: c.w.entries[0]}
}

func (c *clients) observe(plan, outcome) {}

// knowing is the oracle's client: it never talks to a bad node either.
type knowing struct{ clients }

func (k *knowing) route(s *search) plan {
	p := k.clients.route(s)
	for range k.w.entries {
		if !k.w.nodes[p.coordinator].toAvoid(-1) {
			break
		}
		p = k.clients.route(s)
	}
	return p
}
