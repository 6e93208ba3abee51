package selection

// turn is time and chance of a choice.
type turn struct {
	s      *Selector
	at     int64  // ns since the epoch
	number uint64 // of this choice, for rotation and chance
	acts   bool   // false: a preview, which changes nothing
}

// Parts are what a rank is made of. Durations in milliseconds.
type Parts struct {
	ResponseTime float64 `json:"response_time_ms"`
	ServiceTime  float64 `json:"service_time_ms"`
	Queue        float64 `json:"queue"`
	// Outstanding is os: the searches sent to a set with the node that were not answered.
	Outstanding float64 `json:"outstanding"`
}

// parts reads the statistics of n, and reports whether its service time is known: there is no rank without. A node
// that has answered polls, and served nothing, has a queue all the same.
func (n *Node) parts() (Parts, bool) {
	r, seen := n.response.Value()
	s, told := n.service.Value()
	if !seen {
		r = s
	}
	return Parts{ResponseTime: r, ServiceTime: s, Queue: n.queue.Mean(), Outstanding: float64(n.Outstanding())}, told
}

// estimate returns q̂ = 1 + outstanding·clients + queue: the shard queries that a node has
// to do, with this one. Source: C3, NSDI 2015.
func (p Parts) estimate(clients float64) float64 { return 1 + p.Outstanding*clients + p.Queue }

// Rank returns the rank of a node, in milliseconds: lower is better. It is the time until
// a shard query is done, q̂·S, with S the service time of the node's own counters.
func (p Parts) Rank(clients float64) float64 {
	return p.estimate(clients) * max(p.ServiceTime, leastTime)
}
