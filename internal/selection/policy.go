package selection

import "math"

// turn is what a policy may use beside the node: time and chance of this choice.
type turn struct {
	s      *Selector
	at     int64  // ns since the epoch
	number uint64 // of this choice, for rotation and chance
	nodes  int    // how many nodes the snapshot has
	acts   bool   // false: a preview, which changes nothing
}

// policy ranks nodes: lower is better, NaN means "no statistics".
type policy struct {
	rank func(c *candidate, t turn) float64
	// near says which copies count as equal to the best copy of a shard: those with ranks that
	// are worse by no more than that, in the unit of the rank.
	near float64
	// health says that nodes that stand out are kept out, see [State].
	health bool
}

// policies by name. All but adaptive exist to be compared with.
var policies = map[string]policy{
	"adaptive":    {rank: rankLoad, near: nearSlack, health: true},
	"ars":         {rank: rankARS},
	"round_robin": {rank: rankRoundRobin},
}

// rankRoundRobin makes each node the best in turn.
func rankRoundRobin(c *candidate, t turn) float64 {
	return float64((uint64(c.position) + t.number) % uint64(t.nodes))
}

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
	r, hasR := n.response.Value()
	s, hasS := n.service.Value()
	q, _ := n.queue.Value()
	p = Parts{ResponseTime: r, ServiceTime: s, Queue: q, Outstanding: float64(n.Outstanding())}
	if !hasR {
		p.ResponseTime = s
	}
	if !hasS {
		p.ServiceTime = min(r, leastTime)
	}
	return p, hasR || hasS
}

// estimate returns q̂ = 1 + outstanding·clients + queue: the shard queries that a node has
// to do, with this one. Source: C3, NSDI 2015.
func (p Parts) estimate(clients float64) float64 { return 1 + p.Outstanding*clients + p.Queue }

// Rank returns the rank of a node, in milliseconds: lower is better. It is the time until
// a shard query is done, q̂·S, with S the service time of the node's own counters.
func (p Parts) Rank(clients float64) float64 {
	return p.estimate(clients) * max(p.ServiceTime, leastTime)
}

func rankLoad(c *candidate, t turn) float64 {
	if !c.known {
		return math.NaN()
	}
	return c.Rank(t.s.n)
}

// rankARS is the engine's own adaptive replica selection as far as a proxy can run it:
// Ψ = R − S + q̂³·S with whole numbers of the queue, and a node without statistics comes
// first. Source: ResponseCollectorService of Elasticsearch 8; C3, NSDI 2015, with S as
// corrected by elasticsearch#70283.
func rankARS(c *candidate, t turn) float64 {
	if !c.known {
		return math.Inf(-1)
	}
	q := 1 + c.Outstanding*t.s.n + math.Floor(c.Queue)
	return c.ResponseTime - c.ServiceTime + q*q*q*c.ServiceTime
}
