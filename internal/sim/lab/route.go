package lab

import (
	"fmt"
	"math/rand/v2"
	"time"

	"sidestep/internal/attempt"
	"sidestep/internal/selection"
)

// plan says where an attempt goes.
type plan struct {
	listed      []int // nodes that may serve; nil: the engine decides
	prefer      bool  // the others may serve, too, where those listed cannot
	final       bool  // a failure goes to the client
	coordinator int
	began       time.Duration
	decision    *selection.Decision // of a router that runs the production selection
	repeats     bool                // an attempt before it failed
}

// router is what stands between a client and the nodes. One of them serves the
// clients of one sidecar.
type router interface {
	// route plans an attempt of s, keeping off the nodes blamed for earlier ones.
	route(s *search) plan
	// observe takes in how the attempt ended. Every plan is observed once.
	observe(p plan, o outcome)
	// attempts is how often a search may be sent. The last of several goes out as
	// the client wrote it, without a list.
	attempts() int
}

// polled is a router that wants its nodes polled.
type polled interface {
	poll(node int, p poll)
}

// clients go round robin over the coordinating nodes and leave the copies to the
// engine. They do not try again.
type clients struct {
	w    *world
	turn int
}

func (c *clients) route(*search) plan {
	c.turn++
	for range c.w.entries {
		n := c.w.entries[c.turn%len(c.w.entries)]
		if !c.w.nodes[n].absent {
			return plan{coordinator: n}
		}
		c.turn++
	}
	return plan{coordinator: c.w.entries[0]}
}

func (c *clients) observe(plan, outcome) {}
func (c *clients) attempts() int         { return 1 }

// knowing is the oracle's client: it never talks to a bad node either.
type knowing struct{ clients }

func (k *knowing) route(s *search) plan {
	p := k.clients.route(s)
	for range k.w.entries {
		if !k.w.shunned(p.coordinator) {
			break
		}
		p = k.clients.route(s)
	}
	return p
}

// variant is how the proxy uses a decision of the selection.
type variant struct {
	suffix, about string
	always        bool    // routing.when: always
	prefer        bool    // routing.preference: prefer_nodes
	hedges        float64 // routing.hedge_budget
	// rejections are taken in from polls, and bound what is sent again, as the proxy does
	// it. Older figures are without.
	rejections bool
}

// variants of the policy adaptive: the first is the default.
func variants() []variant {
	const budget = 0.05
	return []variant{
		{hedges: budget},
		{suffix: "+always", about: ", whether there is an outlier or not", always: true, hedges: budget},
		{suffix: "+prefer", about: ", by _prefer_nodes, which are not hedged", prefer: true},
		{suffix: "+always+prefer", about: ", both of these", always: true, prefer: true},
		{suffix: "+unhedged", about: ", without second attempts"},
	}
}

// sidestep runs the production selection.
type sidestep struct {
	variant
	w      *world
	s      *selection.Selector
	hedges *selection.Hedges
	budget attempt.Budget
	nodes  []*selection.Node
	probes []selection.Probe
	index  map[*selection.Node]int
	idle   []*selection.Decision
	// copies of the request in hand, so that no attempt allocates
	shards [][]int
	flat   []int
	avoid  []*selection.Node
}

// maxSteered is how many lists the proxy tries before it sends a search as the
// client wrote it.
const maxSteered = 2

// epoch is where virtual time begins for the selection.
func epoch() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func newSidestep(policy string, v variant) func(*world, *rand.Rand) (router, error) {
	return func(w *world, rng *rand.Rand) (router, error) {
		s, err := selection.New(selection.Options{
			Policy: policy, Clients: w.sc.sidecars, Seed: rng.Uint64(), Epoch: epoch(),
			OnChange: func(c selection.Change) {
				if c.After == selection.Slow {
					w.measure.blamed[c.Node.Name]++
				}
			},
		})
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", policy, err)
		}
		infos := make([]selection.NodeInfo, w.sc.nodes)
		for i := range infos {
			infos[i] = selection.NodeInfo{ID: w.ids[i], Name: w.ids[i], Processors: int(w.sc.cpus)}
		}
		r := &sidestep{variant: v, w: w, s: s, nodes: s.Update(infos), index: map[*selection.Node]int{}, hedges: selection.NewHedges(v.hedges)}
		for i, n := range r.nodes {
			r.index[n] = i
		}
		w.c.after(probeTick, r.probe)
		return r, nil
	}
}

func (r *sidestep) now() time.Time { return epoch().Add(r.w.c.now) }

func (r *sidestep) attempts() int { return maxSteered + 1 }

func (r *sidestep) route(s *search) plan {
	var d *selection.Decision
	if last := len(r.idle) - 1; last >= 0 {
		d, r.idle = r.idle[last], r.idle[:last]
	} else {
		d = &selection.Decision{}
	}
	r.s.Choose(d, r.request(s), r.now())
	entry, dedicated := r.w.dedicated()
	if d.Coordinator == nil {
		d.Coordinator = d.Nodes[0]
	}
	if dedicated {
		d.Coordinator = nil
	} else {
		d.Coordinator = r.untried(d, s)
		entry = r.index[d.Coordinator]
	}
	r.s.Acquire(d, r.now())
	if d.Reason == selection.NoOutlier || d.Reason == selection.Overloaded {
		return plan{coordinator: entry, began: r.w.c.now, decision: d, repeats: s.attempts > 1, final: d.Reason == selection.Overloaded || r.rejections && !r.budget.Allows()}
	}
	return plan{
		listed: r.positions(d.Nodes), prefer: r.prefer, coordinator: entry, began: r.w.c.now, decision: d, repeats: s.attempts > 1,
	}
}

// request describes s by the copies that exist now.
func (r *sidestep) request(s *search) selection.Request {
	r.shards, r.flat, r.avoid = r.shards[:0], r.flat[:0], r.avoid[:0]
	for _, shard := range s.shards {
		from := len(r.flat)
		for _, n := range r.w.shards[shard] {
			if !r.w.nodes[n].absent {
				r.flat = append(r.flat, n)
			}
		}
		r.shards = append(r.shards, r.flat[from:len(r.flat):len(r.flat)])
	}
	for _, n := range s.avoid {
		r.avoid = append(r.avoid, r.nodes[n])
	}
	return selection.Request{Nodes: r.nodes, Shards: r.shards, Avoid: r.avoid, Outliers: !r.always && len(r.avoid) == 0}
}

// untried returns the coordinating node of d, or another listed one if that was
// tried before.
func (r *sidestep) untried(d *selection.Decision, s *search) *selection.Node {
	tried := func(n *selection.Node) bool {
		for _, t := range s.tried {
			if r.nodes[t] == n {
				return true
			}
		}
		return false
	}
	if !tried(d.Coordinator) {
		return d.Coordinator
	}
	n := r.s.Coordinator(r.nodes, func(n *selection.Node) bool {
		return !tried(n) && !r.w.nodes[r.index[n]].absent
	}, r.now())
	if n == nil {
		return d.Coordinator
	}
	return n
}

func (r *sidestep) positions(nodes []*selection.Node) []int {
	out := make([]int, len(nodes))
	for i, n := range nodes {
		out[i] = r.index[n]
	}
	return out
}

func (r *sidestep) observe(p plan, o outcome) {
	if p.decision == nil {
		return
	}
	so := selection.Outcome{
		ResponseTime: o.response, Took: o.took, HasTook: o.hasTook, Failed: o.failed,
	}
	for _, n := range o.blamed {
		if n < len(r.nodes) {
			so.Blamed = append(so.Blamed, r.nodes[n])
		}
	}
	r.s.Observe(p.decision, so, r.now())
	if !o.failed {
		r.budget.Succeeded()
	} else if p.repeats {
		r.budget.Failed()
	}
	p.decision.Release()
	r.idle = append(r.idle, p.decision)
}

func (r *sidestep) poll(node int, p poll) {
	sp := selection.Poll{
		State: selection.Fine, Took: p.took, Queue: float64(p.queue),
		ServiceTime: p.service, Queries: p.served, Elapsed: p.elapsed, Coordinated: p.coordinated,
	}
	switch {
	case p.unanswered:
		sp.State = selection.Unresponsive
	case p.failed:
		sp.State = selection.Failing
	case r.rejections && p.rejected > 0:
		sp.Rejected = float64(p.rejected) / float64(p.rejected+p.served)
	}
	r.s.ObservePoll(r.w.ids[node], sp, r.now())
}
