package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// statistics is what sidestep asks a node for, five times a second.
const statistics = "/_nodes/_local/stats/thread_pool,indices,adaptive_selection/search" +
	"?filter_path=nodes.*.thread_pool.search,nodes.*.indices.search,nodes.*.adaptive_selection"

// Each does something for all nodes at once.
func (c *Cluster) Each(do func(*Node) error) error {
	return atOnce(c.Nodes, func(_ int, node *Node) error { return do(node) })
}

// atOnce does something for all of a list at once.
func atOnce[T any](list []T, do func(int, T) error) error {
	var all sync.WaitGroup
	failures := make([]error, len(list))
	for i, one := range list {
		all.Go(func() { failures[i] = do(i, one) })
	}
	all.Wait()
	return errors.Join(failures...)
}

// WarmStatistics asks all nodes for their statistics, for so long, as fast as they answer. A
// node that has been up for an hour was asked 18,000 times by one sidestep and answers by
// compiled code; one that has just started interprets it, which would be measured as what
// sidestep costs.
func (c *Cluster) WarmStatistics(ctx context.Context, duration time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	return c.Each(func(node *Node) error {
		polls := 0
		for ctx.Err() == nil {
			if err := node.Do(ctx, http.MethodGet, statistics, nil, nil); err != nil && ctx.Err() == nil {
				return fmt.Errorf("warm %s: %w", node.Name, err)
			}
			polls++
		}
		c.options.Logf("%s was asked for its statistics %d times", node.Name, polls)
		return nil
	})
}
