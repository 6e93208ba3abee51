package main

import (
	"net/http"
	"strings"
	"sync"
)

// What a request is for.
const (
	forStatistics = iota
	forPlacement
	forTargets
	forDiscovery
	purposes
)

// counter counts the requests that a cluster sees.
type counter struct {
	next http.RoundTripper

	mu    sync.Mutex
	seen  [purposes]int
	nodes map[string]int // polls of statistics by address
}

// RoundTrip implements http.RoundTripper.
func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	purpose := purposeOf(r.URL.Path)
	c.mu.Lock()
	c.seen[purpose]++
	if purpose == forStatistics {
		c.nodes[r.URL.Host]++
	}
	c.mu.Unlock()
	return c.next.RoundTrip(r)
}

// take returns what was seen since the last call, and the most polls of statistics
// of a node.
func (c *counter) take() (seen [purposes]int, busiest int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		busiest = max(busiest, n)
	}
	seen, c.seen, c.nodes = c.seen, [purposes]int{}, map[string]int{}
	return seen, busiest
}

// purposeOf tells it by the path, without the query.
func purposeOf(path string) int {
	switch {
	case path == "/_cluster/state/metadata", path == "/_cluster/state/version,nodes": // of the nodes
	case strings.HasPrefix(path, "/_nodes/_local/stats"):
		return forStatistics
	case strings.HasPrefix(path, "/_cluster/state/version"):
		return forPlacement
	case strings.HasSuffix(path, "/_search_shards"), strings.HasPrefix(path, "/_cluster/state/metadata/"), strings.HasSuffix(path, "/_alias"):
		return forTargets
	}
	return forDiscovery
}
