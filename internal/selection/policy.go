package selection

import (
	"math"
	"slices"
)

// turn is what a policy may use beside the node: time and chance of this choice.
type turn struct {
	s      *Selector
	at     int64   // ns since the epoch
	number uint64  // of this choice, for rotation and chance
	nodes  int     // how many nodes the snapshot has
	acts   bool    // false: a preview, which changes nothing
	hot    float64 // prequal: searches in flight above which a node is hot
}

// policy ranks nodes: lower is better, NaN means "no statistics".
type policy struct {
	rank func(n *Node, position int, m *measure, t turn) float64
	// prepare, if there is one, finds turn.hot before the candidates of a choice are
	// ranked.
	prepare func(d *Decision, req Request, t turn) (hot float64)
	// near and slack say which copies count as equal to the best copy of a shard:
	// rank ≤ near·best + slack. With 0 one copy per shard is listed.
	near, slack float64
	// health says that nodes that stand out are kept out, see [State].
	health bool
}

// policies by name. All but adaptive exist to be compared with.
var policies = map[string]policy{
	"adaptive":          {rank: rankLoad, near: nearRank, slack: nearSlack, health: true},
	"c3":                {rank: rankC3, near: nearRank, slack: nearSlack},
	"ars":               {rank: rankARS},
	"prequal":           {rank: rankPrequal, prepare: preparePrequal},
	"round_robin":       {rank: rankRoundRobin},
	"random":            {rank: rankRandom},
	"least_outstanding": {rank: rankLeastOutstanding},
}

// Copies that differ by less than this are listed together, so that the
// engine's shuffle spreads the load and a failing copy has a sibling. The slack
// is in milliseconds: on a fast cluster differences below it are noise.
const (
	nearRank  = 3.0
	nearSlack = 3.0
)

// rankRoundRobin makes each node the best in turn.
func rankRoundRobin(_ *Node, position int, _ *measure, t turn) float64 {
	n := uint64(max(1, t.nodes))
	return float64((uint64(position) + t.number) % n)
}

// rankRandom draws a rank.
func rankRandom(_ *Node, position int, _ *measure, t turn) float64 {
	return t.s.random(t.number, uint64(position))
}

// rankLeastOutstanding ranks by searches not answered yet.
func rankLeastOutstanding(n *Node, _ int, _ *measure, _ turn) float64 {
	return float64(n.Outstanding())
}

// minServiceTime, in ms, stands in for a service time that the engine's
// millisecond counters round to nothing: with S = 0 the queue would not count.
const minServiceTime = 0.1

// Parts are what a rank is made of. Durations in milliseconds.
type Parts struct {
	ResponseTime float64 `json:"response_time_ms"`
	ServiceTime  float64 `json:"service_time_ms"`
	Queue        float64 `json:"queue"`
	// Outstanding is os: the searches sent to a set with the node that were not answered.
	Outstanding float64 `json:"outstanding"`
}

// parts reads the statistics of n; ok is false if no time is known. A node that has
// answered polls, and served nothing, has a queue all the same.
func (n *Node) parts() (p Parts, ok bool) {
	r, hasR := n.response.value()
	s, hasS := n.service.value()
	q, _ := n.queue.value()
	p = Parts{ResponseTime: r, ServiceTime: s, Queue: q, Outstanding: float64(n.Outstanding())}
	if !hasR {
		p.ResponseTime = s
	}
	if !hasS {
		p.ServiceTime = min(r, minServiceTime)
	}
	return p, hasR || hasS
}

// estimate returns q̂ = 1 + outstanding·clients + queue: the shard queries that a node has
// to do, with this one. Source: C3, NSDI 2015.
func (p Parts) estimate(clients float64) float64 { return 1 + p.Outstanding*clients + p.Queue }

// Rank returns the rank of a node, in milliseconds: lower is better. It is the time until
// a shard query is done, q̂·S, with S the service time of the node's own counters.
func (p Parts) Rank(clients float64) float64 {
	return p.estimate(clients) * max(p.ServiceTime, minServiceTime)
}

func rankLoad(_ *Node, _ int, m *measure, t turn) float64 {
	if !m.known {
		return math.NaN()
	}
	return m.Rank(t.s.n)
}

// rankC3 returns Ψ = R − S + q̂³·S. Source: C3, NSDI 2015; S as corrected by
// elasticsearch#70283; b = 3.
func rankC3(_ *Node, _ int, m *measure, t turn) float64 {
	if !m.known {
		return math.NaN()
	}
	s, q := max(m.ServiceTime, minServiceTime), m.estimate(t.s.n)
	return max(m.ResponseTime, s) - s + q*q*q*s
}

// rankARS is the engine's own adaptive replica selection as far as a proxy can run
// it: Ψ from whole numbers of the queue, and a node without statistics comes
// first. Source: ResponseCollectorService of Elasticsearch 8.
func rankARS(n *Node, _ int, m *measure, t turn) float64 {
	if !m.known {
		return math.Inf(-1)
	}
	q := 1 + float64(n.Outstanding())*t.s.n + math.Floor(m.Queue)
	return m.ResponseTime - m.ServiceTime + q*q*q*m.ServiceTime
}

// hotQuantile is the quantile of in-flight counts above which a node is hot;
// hotPenalty, in ms, ranks it after every one that is not. Source: Prequal, NSDI
// 2024, whose probes are here the polls and what was sent since.
const (
	hotQuantile = 0.84
	hotPenalty  = 1e6
)

// inFlight is Prequal's count for n.
func (n *Node) inFlight() float64 {
	queue, _ := n.queue.value()
	active, _ := n.active.value()
	return queue + active + float64(n.Outstanding())
}

func preparePrequal(d *Decision, req Request, t turn) (hot float64) {
	for _, p := range d.order {
		d.sorted = append(d.sorted, req.Nodes[p].inFlight())
	}
	slices.Sort(d.sorted)
	// Rounded down: of a handful of nodes at least the busiest is hot.
	hot = d.sorted[int(hotQuantile*float64(len(d.sorted)-1))]
	d.sorted = d.sorted[:0]
	return hot
}

// rankPrequal prefers, of the nodes that are not hot, the one with the lowest
// response time, and of hot ones the one with fewest in flight.
func rankPrequal(n *Node, _ int, m *measure, t turn) float64 {
	switch f := n.inFlight(); {
	case !m.known:
		return math.NaN()
	case f > t.hot:
		return hotPenalty + f
	default:
		return m.ResponseTime
	}
}
