package lab

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"sidestep/internal/selection"
)

// proxied is what the proxies share that sidestep is compared with: they list the
// copy of each shard that costs least.
type proxied struct {
	w      *world
	rng    *rand.Rand
	out    []int32 // searches sent to a list with the node and not answered
	listed []int
}

func newProxied(w *world, rng *rand.Rand) proxied {
	return proxied{w: w, rng: rng, out: make([]int32, w.sc.nodes)}
}

// list plans s with the copies that best picks.
func (p *proxied) list(s *search, best func(copies []int) int) plan {
	p.listed = p.listed[:0]
	for _, shard := range s.shards {
		copies := make([]int, 0, 4)
		for _, n := range p.w.shards[shard] {
			if !p.w.nodes[n].absent.on() && !slices.Contains(s.avoid, n) {
				copies = append(copies, n)
			}
		}
		if len(copies) == 0 {
			copies = append(copies, p.w.shards[shard]...)
		}
		if n := best(copies); !slices.Contains(p.listed, n) {
			p.listed = append(p.listed, n)
		}
	}
	listed := slices.Clone(p.listed)
	for _, n := range listed {
		p.out[n]++
	}
	entry, ok := p.w.dedicated()
	if !ok {
		entry = listed[p.rng.IntN(len(listed))]
	}
	return plan{listed: listed, coordinator: entry}
}

func (p *proxied) release(a plan) {
	for _, n := range a.listed {
		p.out[n]--
	}
}

// lowest returns the copy that costs least; equal ones by lot.
func (p *proxied) lowest(copies []int, cost func(n int) float64) int {
	p.rng.Shuffle(len(copies), func(i, j int) { copies[i], copies[j] = copies[j], copies[i] })
	return slices.MinFunc(copies, func(a, b int) int { return cmp.Compare(cost(a), cost(b)) })
}

// naive is C3 as published, put before node sets as it is: the whole time of a
// search and its outstanding count are charged to every node of its list.
type naive struct {
	proxied
	response, service, queue []average
}

func newNaive(w *world, rng *rand.Rand) router {
	n := w.sc.nodes
	c := &naive{
		proxied:  newProxied(w, rng),
		response: make([]average, n), service: make([]average, n), queue: make([]average, n),
	}
	return struct {
		*simple
		polled
	}{proxy(w, c), c}
}

func (c *naive) rank(n int) float64 {
	if !c.response[n].known {
		return 0 // as in the authors' code: a node without statistics is best
	}
	q := 1 + float64(c.out[n])*float64(c.w.sc.sidecars) + c.queue[n].value
	s := max(c.service[n].value, 0.1)
	return c.response[n].value - s + q*q*q*s
}

func (c *naive) route(s *search) plan {
	return c.list(s, func(copies []int) int {
		best := c.lowest(copies, c.rank)
		for _, n := range copies {
			if n != best && c.response[n].known && c.response[best].known {
				c.response[n].observe((c.response[n].value + c.response[best].value) / 2)
			}
		}
		return best
	})
}

func (c *naive) observe(p plan, o outcome) {
	c.release(p)
	for _, n := range p.listed {
		c.response[n].observe(millis(o.response))
	}
}

func (c *naive) poll(node int, p poll) {
	if p.State == selection.Unresponsive || p.State == selection.Unknown {
		return
	}
	c.queue[node].observe(p.Queue)
	if p.ServiceTime > 0 {
		c.service[node].observe(millis(p.ServiceTime))
	}
}

// peak is Peak-EWMA with power of two choices before node sets: the whole time of
// a search is charged to every node of its list. A failure counts as peakFailure.
type peak struct {
	proxied
	cost []float64 // ms
	at   []time.Duration
}

const peakFailure = 5 * time.Second

func newPeak(w *world, rng *rand.Rand) router {
	return proxy(w, &peak{
		proxied: newProxied(w, rng),
		cost:    make([]float64, w.sc.nodes), at: make([]time.Duration, w.sc.nodes),
	})
}

func (p *peak) load(n int) float64 {
	w := math.Exp(-(p.w.c.now - p.at[n]).Seconds() / peakDecay.Seconds())
	return max(p.cost[n]*w, 1e-3) * float64(p.out[n]+1)
}

func (p *peak) route(s *search) plan {
	return p.list(s, func(copies []int) int {
		p.rng.Shuffle(len(copies), func(i, j int) { copies[i], copies[j] = copies[j], copies[i] })
		return p.lowest(copies[:min(2, len(copies))], p.load)
	})
}

func (p *peak) observe(a plan, o outcome) {
	p.release(a)
	sample := o.response
	charged := a.listed
	if !o.good() {
		sample, charged = max(sample, peakFailure), o.named
	}
	for _, n := range charged {
		if n < len(p.cost) {
			p.cost[n] = peakEWMA(p.cost[n], millis(sample), p.w.c.now-p.at[n])
			p.at[n] = p.w.c.now
		}
	}
}

// prequal probes nodes for the shard queries they hold and for their latency.
// Among copies that are not hot it takes the one with the lowest latency, else the
// one with fewest in flight. One probe per node is kept, as a node set needs the
// copies of each of its shards compared.
type prequal struct {
	proxied
	probes []probe
	flight []float64 // scratch: in-flight counts of valid probes
}

type probe struct {
	at       time.Duration
	valid    bool
	inFlight float64
	latency  time.Duration
}

// Constants of Prequal: probes per search, how long one counts, and the quantile
// of in-flight counts above which a node is hot.
const (
	probesPerSearch = 3
	probeAge        = time.Second
	probeTimeout    = 3 * time.Millisecond
	hotQuantile     = 0.84
)

func newPrequal(w *world, rng *rand.Rand) router {
	return proxy(w, &prequal{proxied: newProxied(w, rng), probes: make([]probe, w.sc.nodes)})
}

func (p *prequal) route(s *search) plan {
	for range probesPerSearch {
		copies := p.w.shards[s.shards[p.rng.IntN(len(s.shards))]]
		p.probe(p.w.nodes[copies[p.rng.IntN(len(copies))]])
	}
	hot := p.limit(s)
	return p.list(s, func(copies []int) int {
		best := p.lowest(copies, func(n int) float64 {
			b := &p.probes[n]
			switch {
			case !b.fresh(p.w.c.now):
				return 1e9 // nothing known: only if nothing is known of the others
			case b.inFlight > hot:
				return 1e6 + b.inFlight
			default:
				return millis(b.latency)
			}
		})
		p.probes[best].inFlight++
		return best
	})
}

// limit returns the in-flight count above which a candidate is hot.
func (p *prequal) limit(s *search) float64 {
	p.flight = p.flight[:0]
	for _, shard := range s.shards {
		for _, n := range p.w.shards[shard] {
			if b := &p.probes[n]; b.fresh(p.w.c.now) {
				p.flight = append(p.flight, b.inFlight)
			}
		}
	}
	if len(p.flight) == 0 {
		return 0
	}
	slices.Sort(p.flight)
	// Rounded down: of a handful of nodes, at least the busiest is hot.
	return p.flight[int(hotQuantile*float64(len(p.flight)-1))]
}

func (b *probe) fresh(now time.Duration) bool { return b.valid && now-b.at < probeAge }

// probe asks a node; the answer serves later searches.
func (p *prequal) probe(n *node) {
	if n.absent.on() {
		return
	}
	sent := p.w.c.now
	p.w.c.after(p.w.toClient()+n.http, func() {
		n.receive(func() {
			if n.fails.on() {
				return
			}
			b := probe{valid: true, inFlight: float64(len(n.waiting) + n.active), latency: n.median()}
			p.w.c.after(p.w.toClient(), func() {
				if p.w.c.now-sent <= probeTimeout {
					b.at = p.w.c.now
					p.probes[n.id] = b
				}
			})
		})
	})
}

func (p *prequal) observe(a plan, _ outcome) { p.release(a) }
