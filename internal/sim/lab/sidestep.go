package lab

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"sidestep/internal/attempt"
	"sidestep/internal/selection"
)

// variant is how the proxy uses a decision of the selection.
type variant struct {
	suffix, about string
	always        bool    // routing.when: always
	prefer        bool    // routing.preference: prefer_nodes
	hedges        float64 // routing.hedge_budget
}

// variants of the selection: the first is the default.
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

// sidestep is one sidecar: the production selection and the production attempts.
type sidestep struct {
	variant
	w        *world
	s        *selection.Selector
	infos    []selection.NodeInfo
	nodes    []*selection.Node // those that have left as they were when they did
	seeds    []*selection.Node // the first nodes that coordinate
	probes   []selection.Probe
	index    map[*selection.Node]int
	idle     []*selection.Decision
	pollers  []*poller
	usedAt   []time.Duration // by index: when it was last searched
	lastUsed time.Duration
	// budget counts searches for all targets, overdue has the times of each. Production
	// keeps both in one place, where targets share times by a hash that is another each
	// time: a run would not repeat.
	budget                   *attempt.Hedges
	overdueOf                []*attempt.Hedges
	searchBudget, readBudget attempt.Budget
	// waits reports whether searches wait for admission; nil: none ever does.
	waits func() bool
	// parts of the request in hand, so that no attempt allocates
	shards [][]int
	flat   []int
	avoid  []*selection.Node
}

// epoch is where virtual time begins for the selection.
func epoch() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// seeds is how many nodes a sidecar is configured with.
const seeds = 3

func newSidestep(v variant) func(*world, *rand.Rand) router {
	return func(w *world, rng *rand.Rand) router { return startSidestep(v, w, rng) }
}

// startSidestep makes a sidecar that begins to look whether probes are due.
func startSidestep(v variant, w *world, rng *rand.Rand) *sidestep {
	s := selection.New(selection.Options{Clients: w.sc.clients(), Seed: rng.Uint64(), Epoch: epoch(), OnChange: w.measure.changed})
	known := len(w.nodes)
	if w.sc.dedicated {
		known = w.sc.nodes
	}
	infos := make([]selection.NodeInfo, known)
	for i := range infos {
		infos[i] = selection.NodeInfo{ID: w.ids[i], Name: w.ids[i], Processors: int(w.nodes[i].cpus), NoData: w.nodes[i].role != dataNode}
	}
	r := &sidestep{
		variant: v, w: w, s: s, infos: infos, nodes: make([]*selection.Node, known), index: map[*selection.Node]int{},
		budget: attempt.NewHedges(v.hedges), usedAt: make([]time.Duration, len(w.indices)),
	}
	for range w.indices {
		r.overdueOf = append(r.overdueOf, attempt.NewHedges(v.hedges))
	}
	r.place()
	w.sidesteps = append(w.sidesteps, r)
	for _, n := range r.nodes {
		if r.coordinates(n) && len(r.seeds) < seeds {
			r.seeds = append(r.seeds, n)
		}
	}
	w.c.after(time.Duration(rng.Float64()*float64(probeTick)), r.probe)
	return r
}

// place takes in which nodes are there.
func (r *sidestep) place() {
	var there []selection.NodeInfo
	var at []int
	for i, info := range r.infos {
		if !r.w.nodes[i].unplaced {
			there, at = append(there, info), append(at, i)
		}
	}
	for i, n := range r.s.Update(there, r.now()) {
		r.nodes[at[i]], r.index[n] = n, at[i]
	}
}

// clients returns how many sidecars each is told that there are.
func (sc *Scenario) clients() int {
	if sc.untold {
		return 1
	}
	return sc.sidecars
}

func (r *sidestep) now() time.Time { return epoch().Add(r.w.c.now) }

// coordinates reports whether requests may be sent through n of their own accord.
func (r *sidestep) coordinates(n *selection.Node) bool {
	return r.w.nodes[r.index[n]].role == dataNode && !r.w.nodes[r.index[n]].unplaced
}

func (r *sidestep) decision() *selection.Decision {
	if last := len(r.idle) - 1; last >= 0 {
		d := r.idle[last]
		r.idle = r.idle[:last]
		return d
	}
	return &selection.Decision{}
}

func (r *sidestep) recycle(d *selection.Decision) {
	d.Release()
	r.idle = append(r.idle, d)
}

// open implements router.
func (r *sidestep) open(s *search) (attempt.Rule, *attempt.Budget) {
	r.touch(s)
	rule, budget := attempt.Rule{Steered: 2, Hedged: !r.prefer, Repeatable: true}, &r.searchBudget
	if s.kind == readByID {
		rule, budget = attempt.Rule{Steered: 1, Repeatable: true}, &r.readBudget
	}
	passes := attempt.Rule{Repeatable: true}
	if !r.placed(s) || s.kind != readByID && !r.searchBudget.Allows() {
		return passes, budget // some shard has no copy, or failures are general
	}
	d := r.decision()
	r.s.Choose(d, r.request(s, nil), r.now())
	if d.Reason == selection.NoChoice || d.Reason == selection.Overloaded {
		s.near = d.Near()
		r.recycle(d)
		return passes, budget
	}
	s.decided = &plan{decision: d}
	return rule, budget
}

// placed reports whether every shard of s has a copy, as far as sidecars know.
func (r *sidestep) placed(s *search) bool {
	for _, shard := range s.shards {
		if !slices.ContainsFunc(r.w.shards[shard], func(n int) bool { return !r.w.nodes[n].unplaced }) {
			return false
		}
	}
	return true
}

// request describes s by the copies that are known of.
func (r *sidestep) request(s *search, avoid []int) selection.Request {
	r.shards, r.flat, r.avoid = r.shards[:0], r.flat[:0], r.avoid[:0]
	for _, shard := range s.shards {
		from := len(r.flat)
		for _, n := range r.w.shards[shard] {
			if !r.w.nodes[n].unplaced {
				r.flat = append(r.flat, n)
			}
		}
		r.shards = append(r.shards, r.flat[from:len(r.flat):len(r.flat)])
	}
	for _, n := range avoid {
		r.avoid = append(r.avoid, r.nodes[n])
	}
	return selection.Request{
		Nodes: r.nodes, Shards: r.shards, Avoid: r.avoid,
		Outliers: !r.always && len(avoid) == 0 && s.kind != readByID,
	}
}

// steer implements router.
func (r *sidestep) steer(s *search) (plan, planning) {
	first, prefer := len(s.tries) == 0, false
	p := *s.decided
	if !first {
		if !r.placed(s) {
			return plan{}, noOther
		}
		p.decision = r.decision()
		r.s.Choose(p.decision, r.request(s, s.avoid), r.now())
		before := s.last()
		prefer = before.prefer || slices.ContainsFunc(s.tries, func(t *try) bool { return t.cause == attempt.NoCopy })
		switch {
		case p.decision.Reason == selection.Overloaded:
			r.recycle(p.decision)
			return plan{}, overloaded
		case before.cause != attempt.Unreachable && before.prefer == prefer && slices.Equal(before.decision.Nodes, p.decision.Nodes):
			r.recycle(p.decision)
			return plan{}, noOther
		}
	}
	p, ok := r.listed(s, p.decision)
	if !ok {
		if !first {
			r.recycle(p.decision)
		}
		return plan{}, noNode
	}
	p.prefer = p.prefer || prefer
	if first && s.rule.Hedged {
		r.arm(s)
	}
	return p, planned
}

// listed makes a plan of a decision; false if there is no node to send it through.
func (r *sidestep) listed(s *search, d *selection.Decision) (plan, bool) {
	p, ok := r.pickLeft(s, d.Coordinator, s.tried)
	p.decision = d
	if !ok {
		return p, false
	}
	if !r.w.sc.dedicated {
		d.Coordinator = r.nodes[p.coordinator]
	}
	if d.Reason.Lists() {
		p.listed, p.prefer = r.positions(d.Nodes), r.prefer || s.kind == readByID
	}
	return p, true
}

// pick finds the node to send an attempt through: the one wanted, else the better of two
// that coordinate, else one of those configured.
func (r *sidestep) pick(wanted *selection.Node, tried []int) (plan, bool) {
	if p, ok := r.pickCoordinating(wanted, tried); ok {
		return p, true
	}
	n := r.s.Coordinator(r.seeds, func(n *selection.Node) bool {
		return !slices.Contains(tried, plan{seed: true, coordinator: r.index[n]}.tried())
	}, r.now())
	if n != nil {
		return plan{coordinator: r.index[n], seed: true}, true
	}
	return plan{}, false
}

// pickCoordinating is pick without those configured.
func (r *sidestep) pickCoordinating(wanted *selection.Node, tried []int) (plan, bool) {
	if entry, dedicated := r.w.dedicated(); dedicated {
		return plan{coordinator: entry}, true
	}
	if wanted != nil && wanted.Alive() && !r.w.nodes[r.index[wanted]].unplaced && !slices.Contains(tried, r.index[wanted]) {
		return plan{coordinator: r.index[wanted]}, true
	}
	n := r.s.Coordinator(r.nodes, func(n *selection.Node) bool {
		return n.Alive() && r.coordinates(n) && !slices.Contains(tried, r.index[n])
	}, r.now())
	if n != nil {
		return plan{coordinator: r.index[n]}, true
	}
	return plan{}, false
}

// unchanged implements router.
func (r *sidestep) unchanged(s *search) (plan, bool) {
	round := s.round
	if !s.ownSent() {
		round = len(s.tried)
	}
	p, ok := r.pickLeft(s, s.near, s.tried[round:])
	if !ok {
		p, ok = r.pick(nil, s.tried[round:])
	}
	return p, ok
}

// pickLeft is pick, but nodes that have failed the search come after the others. again are those tried that
// may be tried again.
func (r *sidestep) pickLeft(s *search, wanted *selection.Node, again []int) (plan, bool) {
	if len(s.avoid) > 0 {
		if p, ok := r.pickCoordinating(wanted, slices.Concat(s.tried, s.avoid)); ok {
			return p, true
		}
		if p, ok := r.pickCoordinating(nil, slices.Concat(again, s.avoid)); ok {
			return p, true
		}
	}
	return r.pick(wanted, s.tried)
}

func (r *sidestep) positions(nodes []*selection.Node) []int {
	out := make([]int, len(nodes))
	for i, n := range nodes {
		out[i] = r.index[n]
	}
	return out
}

// sent implements router.
func (r *sidestep) sent(s *search, t *try) {
	switch {
	case !t.steered:
		if t.coordinator < len(r.nodes) {
			r.nodes[t.coordinator].Begin()
		}
	case s.kind == readByID:
		r.s.Acquire(t.decision, 0, r.now())
	default:
		if r.w.sc.dedicated {
			t.decision.Coordinator = nil
		}
		r.s.Acquire(t.decision, 1, r.now())
	}
}

// release implements router.
func (r *sidestep) release(t *try) {
	if t.steered {
		t.decision.Release()
		return
	}
	if t.coordinator < len(r.nodes) {
		r.nodes[t.coordinator].End()
	}
}

// learn implements router.
func (r *sidestep) learn(s *search, t *try, o outcome) {
	if o.status != 0 && t.coordinator < len(r.nodes) {
		r.s.Heard(r.nodes[t.coordinator], r.now())
	}
	switch t.cause {
	case attempt.Unreachable, attempt.Transport:
		if t.coordinator < len(r.nodes) {
			r.s.MarkUnreachable(r.nodes[t.coordinator], string(t.cause), r.now())
		}
		return
	case attempt.NoCopy:
		return
	case attempt.Good:
	default:
		blamed := r.blame(t, o)
		s.avoid = append(s.avoid, blamed...)
		if !o.full { // a full queue is no fault
			s.cause, s.suspects = t.cause, append(s.suspects, blamed...)
		}
		return
	}
	if o.status != http.StatusOK {
		return
	}
	r.recordFailure(s)
	if !t.steered || s.kind == readByID {
		return
	}
	r.s.Observe(t.decision, selection.Outcome{ResponseTime: o.response, Took: o.took, HasTook: o.hasTook}, r.now())
	r.overdueOf[s.index].Observe("", o.response)
}

func (r *sidestep) blame(t *try, o outcome) []int {
	if !t.steered {
		return nil
	}
	return blame(t.cause, r.positions(t.decision.Nodes), &o, t.coordinator)
}

// recordFailure counts the failure against the nodes at fault, as the same search
// succeeded on others.
func (r *sidestep) recordFailure(s *search) {
	if s.cause == attempt.Good || len(s.suspects) == 0 || s.decided == nil || s.kind == readByID {
		return
	}
	var blamed []*selection.Node
	for _, n := range s.suspects {
		if n < len(r.nodes) {
			blamed = append(blamed, r.nodes[n])
		}
	}
	r.s.Blame(blamed, "search failed: "+string(s.cause), r.now())
}

// roomBeside implements router.
func (r *sidestep) roomBeside(t *try, o outcome) bool {
	if !t.steered {
		return false
	}
	var full []*selection.Node
	for _, p := range r.blame(t, o) {
		full = append(full, r.nodes[p])
	}
	return r.s.RoomBeside(full, t.decision, r.now())
}

// close implements router.
func (r *sidestep) close(s *search) {
	if s.second != nil && slices.ContainsFunc(s.tries, (*try).good) {
		r.budget.Ended(s.second.good())
	}
	first := false
	for _, t := range s.tries {
		if t.decision != nil {
			first = first || s.decided != nil && t.decision == s.decided.decision
			r.recycle(t.decision)
		}
	}
	if s.decided != nil && !first {
		r.recycle(s.decided.decision)
	}
}
