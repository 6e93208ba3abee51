package lab

import (
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
	held         [][]int // indices of which each node holds copies
	rank         ranking
	knows        bool      // what a client in the know does is done
	patient      []*search // that clients wait for, and some that they do not any more
	routers      []router
	sidesteps    []*sidestep // of these, and a relay's
	measure      *measure

	// Streams of chance, one for each purpose, so that every policy meets the same
	// searches at the same times.
	arrivals, demands, network, polls *rand.Rand
	lots                              *rand.Rand // of rankings
}

// newWorld builds a run of sc with a policy and a seed.
func newWorld(sc *Scenario, p policy, seed uint64) *world { return newWorldOf(sc, p, seed, 0) }

// newWorldOf builds a run of sc with a policy. All runs with the same seed meet the same
// searches; choices is another seed for what the cluster and its clients choose.
func newWorldOf(sc *Scenario, p policy, seed, choices uint64) *world {
	stream := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	chosen := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n+choices<<16)) }
	w := &world{
		sc: sc, rank: p.rank, knows: p.knows,
		arrivals: stream(1), demands: stream(2), network: chosen(3), polls: chosen(4), lots: chosen(5),
	}
	w.build(chosen(6))
	w.measure = newMeasure(sc, len(w.nodes))
	for i := range sc.sidecars {
		r := p.router(w, chosen(100+uint64(i)))
		w.routers = append(w.routers, r)
		if to, ok := r.(polled); ok && !sc.relayed {
			w.startPolls(to)
		}
	}
	if sc.relayed && len(w.sidesteps) > 0 {
		w.startRelay(p.router, chosen(relayStream))
	}
	return w
}

// build makes nodes, places the copies and makes the coordinators.
func (w *world) build(rng *rand.Rand) {
	sc := w.sc
	if sc.drawn != nil {
		w.place()
	} else {
		w.placeFigures(rng)
	}
	w.held = make([][]int, len(w.nodes))
	for i, shards := range w.indices {
		for _, s := range shards {
			for _, n := range w.shards[s] {
				if of := w.held[n]; len(of) == 0 || of[len(of)-1] != i {
					w.held[n] = append(of, i)
				}
			}
		}
	}
	for i, n := range w.nodes {
		c := &coordinator{
			node: n, seen: make([]seen, len(w.nodes)), outstanding: make([]int32, len(w.nodes)), planned: make([]int32, len(w.nodes)),
			rotation: make([]uint32, len(w.shards)),
		}
		for s := range c.rotation {
			c.rotation[s] = uint32(s % 2) //nolint:gosec // 0 or 1
			if !sc.inPhase {
				c.rotation[s] = rng.Uint32N(1 << 16)
			}
		}
		w.ids = append(w.ids, "node-"+strconv.Itoa(i))
		n.stopped = c.reset
		w.coordinators = append(w.coordinators, c)
	}
}

// placeFigures makes what the figures of the scenario say.
func (w *world) placeFigures(rng *rand.Rand) {
	sc := w.sc
	for i := range sc.indices {
		var index []int
		for s := range sc.shards {
			index = append(index, len(w.shards))
			w.shards = append(w.shards, sc.place(rng, i, s))
		}
		w.indices = append(w.indices, index)
	}
	all := sc.nodes
	if sc.dedicated {
		all++
	}
	for i := range all {
		w.addNode(sc.machine, 1, dataNode)
		if !sc.dedicated || i == sc.nodes {
			w.entries = append(w.entries, i)
		}
	}
}

// place makes what was drawn.
func (w *world) place() {
	d, l := w.sc.drawn, w.sc.laid
	w.shards = l.shards
	for i := range d.Indices {
		from, to := l.of(i)
		var index []int
		for s := from; s < to; s++ {
			index = append(index, s)
		}
		w.indices = append(w.indices, index)
	}
	for i := range d.DataNodes {
		w.addNode(w.sc.machine, d.speed(i), dataNode)
		w.entries = append(w.entries, i)
	}
	for range d.CoordinatingOnly {
		w.addNode(w.sc.machine, 1, coordinatingNode)
	}
	for range d.Managers {
		w.addNode(machineOf(2), 1, managerNode)
	}
}

func (w *world) addNode(m machine, speed float64, r role) {
	w.nodes = append(w.nodes, &node{machine: m, c: &w.c, id: len(w.nodes), speed: speed, role: r})
}

// dedicated returns the node that only coordinates, if there is one.
func (w *world) dedicated() (int, bool) { return w.sc.nodes, w.sc.dedicated }

// toClient returns the time from a node to a client or sidecar, and back.
func (w *world) toClient() time.Duration { return w.jitter(httpHop, 0.3) }

// drain is how long after the load searches may still be answered.
const drain = time.Minute

// run plays the scenario to its end.
func (w *world) run() *measure {
	for i := range w.sc.faults {
		w.schedule(&w.sc.faults[i])
	}
	if w.sc.patience > 0 {
		w.c.after(look, w.watch)
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
	}
	if w.sc.flood.load > 0 {
		w.c.after(0, w.sendFlood)
	}
	for w.c.now < w.sc.length || w.measure.inFlight > 0 {
		if !w.c.step(w.sc.length + drain) {
			break
		}
	}
	w.measure.close()
	for _, n := range w.nodes {
		w.measure.rejections += n.rejected
	}
	return w.measure
}

// schedule puts a fault on and off.
func (w *world) schedule(f *fault) {
	end := min(f.to, w.sc.length+drain)
	for i, n := range f.nodes {
		if f.avoided {
			w.c.at(f.from, func() { w.setAvoided(f, n, true) })
			w.c.at(end, func() { w.setAvoided(f, n, false) })
		}
		if f.byChance == 0 {
			w.inTurn(f, n, end)
			continue
		}
		w.byChance(f, n, f.from, end, rand.New(rand.NewPCG(f.byChance, uint64(i)))) //nolint:gosec // not negative
	}
}

// inTurn puts a fault of one node on and off, each for as long as the other time.
func (w *world) inTurn(f *fault, n int, end time.Duration) {
	for at := f.from; at < end; at += f.on + f.off {
		until := end
		if f.on > 0 {
			until = min(end, at+f.on)
		}
		w.c.at(at, func() { w.fault(f, n, true) })
		w.c.at(until, func() { w.fault(f, n, false) })
		if f.on <= 0 {
			return
		}
	}
}

// byChance puts a fault of one node on after a gap that has no memory.
func (w *world) byChance(f *fault, n int, from, end time.Duration, rng *rand.Rand) {
	at := from + time.Duration(rng.ExpFloat64()*float64(f.off))
	if at >= end {
		return
	}
	until := min(end, at+f.on)
	w.c.at(at, func() { w.fault(f, n, true) })
	w.c.at(until, func() {
		w.fault(f, n, false)
		w.byChance(f, n, until, end, rng)
	})
}

// fault changes one node.
func (w *world) fault(f *fault, n int, on bool) {
	node := w.nodes[n]
	was := node.absent.on()
	f.set(node, on)
	if f.avoidedOn {
		w.setAvoided(f, n, on)
	}
	is := node.absent.on()
	if was == is {
		return
	}
	if is {
		for _, c := range w.coordinators {
			c.forget(n)
		}
	}
	w.c.after(placementDelay, func() {
		if node.unplaced == node.absent.on() {
			return
		}
		node.unplaced = node.absent.on()
		for _, r := range w.sidesteps {
			r.place()
		}
	})
}

// placementDelay is how long a sidecar takes to learn, in the mean, that a node left or
// came: the placement is read once a second.
const placementDelay = 500 * time.Millisecond

// setAvoided tells the clients that know of the fault to avoid a node, or to use it again.
func (w *world) setAvoided(f *fault, n int, on bool) {
	node := w.nodes[n]
	if f.index == 0 {
		node.avoided.set(on)
		return
	}
	if node.avoidedFor == nil {
		node.avoidedFor = make([]switches, len(w.indices))
	}
	node.avoidedFor[f.index-1].set(on)
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
	w.ask(number%w.sc.sidecars, w.sc.again, outagePause)
}

// ask sends a search, and sends it again after a pause if it fails.
func (w *world) ask(sidecar, again int, pause time.Duration) {
	w.search(&search{sidecar: sidecar}, func(ok bool) {
		if !ok && again > 0 {
			w.c.after(pause, func() { w.ask(sidecar, again-1, 2*pause) })
		}
	})
}

// sendFlood sends the searches of the flood in an open loop.
func (w *world) sendFlood() {
	if w.c.now >= w.sc.length {
		return
	}
	rate := w.sc.flood.load * w.sc.capacity() / w.sc.flood.factor
	w.c.after(time.Duration(w.arrivals.ExpFloat64()/rate*float64(time.Second)), w.sendFlood)
	w.search(&search{class: floodClass}, func(bool) {})
}

// connection is one of the closed loop: it sends the next search when the last is
// answered.
func (w *world) connection(number int) {
	if w.c.now >= w.sc.length {
		return
	}
	w.search(&search{sidecar: number % w.sc.sidecars}, func(ok bool) {
		if ok {
			w.connection(number)
			return
		}
		// A client that is refused does not ask again within the microsecond.
		w.c.after(10*time.Millisecond, func() { w.connection(number) })
	})
}

// search begins s, which comes to its sidecar now.
func (w *world) search(s *search, finished func(ok bool)) {
	s.start, s.repeats = w.c.now, w.sc.repeats
	s.finished = func(ok bool) {
		w.measure.finish(s, w.c.now, ok)
		finished(ok)
	}
	w.request(s)
	w.measure.begin(s.start)
	w.begin(s)
}

// entry returns the coordinating node for a search that goes out as the client
// wrote it: one not tried or blamed yet, if there is one.
func (w *world) entry(s *search) int {
	start := w.network.IntN(len(w.entries))
	for i := range w.entries {
		n := w.entries[(start+i)%len(w.entries)]
		if !w.nodes[n].absent.on() && !slices.Contains(s.tried, n) && !slices.Contains(s.avoid, n) {
			return n
		}
	}
	return w.entries[start]
}

// simulate is one run of a scenario with a policy and a seed.
func simulate(sc *Scenario, p policy, seed uint64) *measure { return newWorld(sc, p, seed).run() }
