package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const countersWithin = 10 * time.Second

// counters returns how many shard queries each node has served, by node id, as
// the nodes themselves count. Any node that answers is asked.
func (c *comparison) counters(ctx context.Context) (map[string]int64, error) {
	var err error
	for _, node := range c.cluster.URLs() {
		var counts map[string]int64
		if counts, err = c.countersFrom(ctx, node); err == nil {
			return counts, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("read the nodes' query counters: %w", err)
}

func (c *comparison) countersFrom(ctx context.Context, node string) (map[string]int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, node+"/_nodes/stats/indices/search", http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d from %s", res.StatusCode, node)
	}
	var stats struct {
		Nodes map[string]struct {
			Indices struct {
				Search struct {
					QueryTotal int64 `json:"query_total"`
				} `json:"search"`
			} `json:"indices"`
		} `json:"nodes"`
	}
	if err := json.NewDecoder(res.Body).Decode(&stats); err != nil {
		return nil, fmt.Errorf("decode statistics of %s: %w", node, err)
	}
	counts := make(map[string]int64, len(stats.Nodes))
	for id, n := range stats.Nodes {
		counts[id] = n.Indices.Search.QueryTotal
	}
	return counts, nil
}
