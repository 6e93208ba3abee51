package lab

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// world is one run: a cluster under load through one policy.
type world struct {
	sc           *Scenario
	c            clock
	nodes        []*node // with data; then, in some scenarios, one that only coordinates
	coordinators []*coordinator
	entries      []int // coordinating nodes that clients know
	ids          []string
	shards       [][]int // positions of the copies of each shard
	indices      [][]int // shards of each index
	rank         ranking
	trial        trial
	routers      []router
	measure      *measure

	// Streams of chance, one for each purpose, so that every policy meets the same
	// searches at the same times.
	arrivals, demands, network, polls *rand.Rand
}

// newWorld builds a run of sc with a policy and a seed.
func newWorld(sc *Scenario, p policy, seed uint64) (*world, error) {
	stream := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	w := &world{
		sc: sc, rank: p.rank,
		arrivals: stream(1), demands: stream(2), network: stream(3), polls: stream(4),
	}
	w.trial = trial{w: w, rng: stream(5)}
	w.build(stream(6))
	w.measure = newMeasure(sc, len(w.nodes))
	for i := range sc.sidecars {
		r, err := p.router(w, stream(100+uint64(i)))
		if err != nil {
			return nil, err
		}
		w.routers = append(w.routers, r)
		if to, ok := r.(polled); ok {
			w.startPolls(to)
		}
	}
	return w, nil
}

// build makes the nodes and puts the shards on them.
func (w *world) build(rng *rand.Rand) {
	sc := w.sc
	all := sc.nodes
	if sc.dedicated {
		all++
	}
	for i := range sc.indices {
		var index []int
		for s := range sc.shards {
			index = append(index, len(w.shards))
			w.shards = append(w.shards, sc.place(rng, i, s))
		}
		w.indices = append(w.indices, index)
	}
	for i := range all {
		n := &node{machine: sc.machine, c: &w.c, id: i, speed: 1}
		w.nodes = append(w.nodes, n)
		w.ids = append(w.ids, "node-"+strconv.Itoa(i))
		c := &coordinator{
			node: n, seen: make([]seen, all), outstanding: make([]int32, all),
			rotation: make([]uint32, len(w.shards)),
		}
		for s := range c.rotation {
			c.rotation[s] = uint32(s % 2) //nolint:gosec // 0 or 1
			if !sc.inPhase {
				c.rotation[s] = rng.Uint32N(1 << 16)
			}
		}
		w.coordinators = append(w.coordinators, c)
		if !sc.dedicated || i == sc.nodes {
			w.entries = append(w.entries, i)
		}
	}
}

// dedicated returns the node that only coordinates, if there is one.
func (w *world) dedicated() (int, bool) { return w.sc.nodes, w.sc.dedicated }

// shunned reports whether a fault makes the node one that a client in the know
// would never use now.
func (w *world) shunned(n int) bool {
	for i := range w.sc.faults {
		f := &w.sc.faults[i]
		if f.shun && w.c.now >= f.from && w.c.now < f.to && slices.Contains(f.nodes, n) {
			return true
		}
	}
	return false
}

// toClient returns the time from a node to a client or sidecar.
func (w *world) toClient(*node) time.Duration { return w.jitter(httpHop, 0.3) }

// drain is how long after the load searches may still be answered.
const drain = time.Minute

// run plays the scenario to its end.
func (w *world) run() *measure {
	for i := range w.sc.faults {
		w.schedule(&w.sc.faults[i])
	}
	if w.sc.vary > 0 {
		w.vary(rand.New(rand.NewPCG(w.arrivals.Uint64(), 7)))
	}
	if w.sc.connections > 0 {
		for i := range w.sc.connections {
			// Not all at one moment, as no client starts so.
			w.c.after(time.Duration(w.arrivals.Float64()*float64(time.Second)), func() { w.connection(i) })
		}
	} else {
		w.c.after(0, func() { w.arrive(0) })
		if sc := w.sc; sc.flood.load > 0 {
			w.c.after(0, w.pour)
		}
	}
	for w.c.now < w.sc.length || w.measure.inFlight > 0 {
		if !w.c.step(w.sc.length + drain) {
			break
		}
	}
	w.measure.close(w.c.now)
	for _, n := range w.nodes {
		w.measure.rejections += n.rejected
	}
	return w.measure
}

// schedule puts a fault on and off.
func (w *world) schedule(f *fault) {
	end := min(f.to, w.sc.length+drain)
	for at := f.from; at < end; at += f.on + f.off {
		until := end
		if f.on > 0 {
			until = min(end, at+f.on)
		}
		for _, n := range f.nodes {
			w.c.at(at, func() { f.set(w.nodes[n], true) })
			w.c.at(until, func() { f.set(w.nodes[n], false) })
		}
		if f.on <= 0 {
			return
		}
	}
}

// vary makes every node half as fast again or half as slow, by lot, at each
// interval: the bimodal servers of the C3 paper.
func (w *world) vary(rng *rand.Rand) {
	for _, n := range w.nodes[:w.sc.nodes] {
		n.setSpeed([]float64{0.5, 1.5}[rng.IntN(2)])
	}
	w.c.after(w.sc.vary, func() { w.vary(rng) })
}

// arrive is the open loop: a search now, the next after an exponential gap.
func (w *world) arrive(number int) {
	if w.c.now >= w.sc.length {
		return
	}
	rate := w.sc.rateAt(w.c.now)
	w.c.after(time.Duration(w.arrivals.ExpFloat64()/rate*float64(time.Second)), func() { w.arrive(number + 1) })
	w.search(number%w.sc.sidecars, func(bool) {})
}

// pour is the open loop of the flood.
func (w *world) pour() {
	if w.c.now >= w.sc.length {
		return
	}
	rate := w.sc.flood.load * w.sc.capacity() / w.sc.flood.factor
	w.c.after(time.Duration(w.arrivals.ExpFloat64()/rate*float64(time.Second)), w.pour)
	w.begin(&search{sidecar: 0, class: 1}, func(bool) {})
}

// connection is one of the closed loop: it sends the next search when the last is
// answered.
func (w *world) connection(number int) {
	if w.c.now >= w.sc.length {
		return
	}
	w.search(number%w.sc.sidecars, func(ok bool) {
		if ok {
			w.connection(number)
			return
		}
		// A client that is refused does not ask again within the microsecond.
		w.c.after(10*time.Millisecond, func() { w.connection(number) })
	})
}

// search begins a search.
func (w *world) search(sidecar int, finished func(ok bool)) {
	w.begin(&search{sidecar: sidecar}, finished)
}

// begin sends s, once it is admitted.
func (w *world) begin(s *search, finished func(ok bool)) {
	s.start, s.shards = w.c.now, w.indices[w.demands.IntN(len(w.indices))]
	gate, gated := w.routers[s.sidecar].(admitting)
	s.finished = func(ok bool) {
		s.settled = true
		if gated {
			gate.dismiss(s)
		}
		w.measure.finish(s.start, w.c.now, ok)
		w.measure.classed(s, w.c.now, ok)
		finished(ok)
	}
	s.demands = make([]float64, len(s.shards))
	for i := range s.demands {
		s.demands[i] = w.sc.draw(w.demands)
		if s.class == 1 {
			s.demands[i] *= w.sc.flood.factor
		}
	}
	w.measure.begin(s.start)
	if w.sc.deadline > 0 {
		w.c.after(w.sc.deadline, func() { w.giveUp(s) })
	}
	if gated {
		gate.admit(s)
		return
	}
	w.attempt(s)
}

// giveUp is a client that closes its connection, which cancels the search on the engine.
func (w *world) giveUp(s *search) {
	if s.settled {
		return
	}
	for _, run := range s.running {
		run.cancelled = true
		if run.decision != nil {
			run.decision.Release()
		}
	}
	s.running, s.left = nil, true
	w.measure.gaveUp++
	s.finished(false)
}

// entry returns the coordinating node for a search that goes out as the client
// wrote it: one not tried or blamed yet, if there is one.
func (w *world) entry(s *search) int {
	start := w.network.IntN(len(w.entries))
	for i := range w.entries {
		n := w.entries[(start+i)%len(w.entries)]
		if !w.nodes[n].absent && !slices.Contains(s.tried, n) && !slices.Contains(s.avoid, n) {
			return n
		}
	}
	return w.entries[start]
}

// draw returns the CPU seconds of a shard query: lognormal with the mean of the
// scenario.
func (sc *Scenario) draw(rng *rand.Rand) float64 {
	z := rng.NormFloat64()
	return sc.demand.Seconds() * math.Exp(sc.sigma*z-sc.sigma*sc.sigma/2)
}

// simulate is one run of a scenario with a policy and a seed.
func simulate(sc *Scenario, p policy, seed uint64) (*measure, error) {
	w, err := newWorld(sc, p, seed)
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", sc.Name, err)
	}
	return w.run(), nil
}
