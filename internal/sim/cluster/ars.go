package simcluster

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// alpha weighs a new value in the engines' averages.
const alpha = 0.3

func ewma(avg, v float64) float64 { return alpha*v + (1-alpha)*avg }

// observed is what a coordinating node knows of a data node. Times in
// nanoseconds.
type observed struct{ queue, response, service float64 }

// collector is the engines' adaptive replica selection on one coordinating node.
type collector struct {
	// inverted is OpenSearch's reading of the formula, where the service time
	// stands in the place of the service rate.
	inverted bool

	mu       sync.Mutex
	seen     map[string]observed
	outgoing map[string]int64
}

func newCollector(inverted bool) *collector {
	return &collector{inverted: inverted, seen: map[string]observed{}, outgoing: map[string]int64{}}
}

// begin counts an outgoing shard query; the caller calls end once.
func (c *collector) begin(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outgoing[node]++
}

func (c *collector) end(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outgoing[node] == 1 {
		delete(c.outgoing, node) // as the engines do, so that none and one rank alike
		return
	}
	c.outgoing[node]--
}

// record takes in the answer of a shard query. Failures are not recorded: the
// engines do not either.
func (c *collector) record(node string, queue int, response, service time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(node, observed{queue: float64(queue), response: float64(response), service: float64(service)}, true)
}

// add moves what is known of a node toward v. The service time is the node's own average: it is taken as it is, if
// asIs.
func (c *collector) add(node string, v observed, asIs bool) {
	avg, ok := c.seen[node]
	if !ok {
		c.seen[node] = v
		return
	}
	next := observed{queue: ewma(avg.queue, v.queue), response: ewma(avg.response, v.response), service: v.service}
	if !asIs {
		next.service = ewma(avg.service, v.service)
	}
	c.seen[node] = next
}

// forget drops a node that left the cluster.
func (c *collector) forget(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, node)
}

// pending is a copy of the outstanding shard queries by node. One search ranks
// all its shards with the same copy.
func (c *collector) pending() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.outgoing)
}

// rank sorts copies best first, moves the statistics of the losers toward the
// winner's and counts the winner in pending. Nodes without statistics go first.
func (c *collector) rank(copies []shardCopy, pending map[string]int64) []shardCopy {
	if len(copies) < 2 {
		return copies
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ranks := make(map[string]float64, len(copies))
	for _, cp := range copies {
		ranks[cp.Node] = math.Inf(-1)
		if o, ok := c.seen[cp.Node]; ok {
			ranks[cp.Node] = c.value(o, c.outstanding(pending, cp.Node))
		}
	}
	sorted := slices.Clone(copies)
	slices.SortStableFunc(sorted, func(a, b shardCopy) int { return cmp.Compare(ranks[a.Node], ranks[b.Node]) })

	winner := sorted[0].Node
	best, ok := c.seen[winner]
	if !ok {
		return sorted
	}
	for _, cp := range sorted[1:] {
		if o, known := c.seen[cp.Node]; known && cp.Node != winner {
			c.add(cp.Node, observed{
				queue:    math.Floor((best.queue + o.queue) / 2),
				response: (best.response + o.response) / 2,
				service:  (best.service + o.service) / 2,
			}, c.inverted)
		}
	}
	pending[winner]++
	return sorted
}

// outstanding is at least 1 on OpenSearch, unless the node is counted.
func (c *collector) outstanding(pending map[string]int64, node string) float64 {
	n, ok := pending[node]
	if !ok && c.inverted {
		return 1
	}
	return float64(n)
}

// value is the rank of a node, lower is better, times in milliseconds:
//
//	Elasticsearch  R − S + q̂³·S
//	OpenSearch     R − 1/S + q̂³/S
//
// with q̂ = 1 + outstanding·(nodes with statistics) + queue.
func (c *collector) value(o observed, outstanding float64) float64 {
	s := o.service / 1e6
	if c.inverted {
		s = 1 / s
	}
	q := 1 + outstanding*float64(len(c.seen)) + math.Trunc(o.queue)
	return o.response/1e6 - s + q*q*q*s
}

type collectorStats struct {
	Outgoing int64  `json:"outgoing_searches"`
	Queue    int64  `json:"avg_queue_size"`
	Service  int64  `json:"avg_service_time_ns"`
	Response int64  `json:"avg_response_time_ns"`
	Rank     string `json:"rank"`
}

func (c *collector) stats() map[string]collectorStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]collectorStats, len(c.seen))
	for id, o := range c.seen {
		all[id] = collectorStats{
			Outgoing: c.outgoing[id], Queue: int64(o.queue),
			Service: int64(o.service), Response: int64(o.response),
			Rank: fmt.Sprintf("%.1f", c.value(o, float64(c.outgoing[id]))),
		}
	}
	return all
}
