package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// polling is how long the nodes are asked for their statistics as fast as they
	// answer. A node that has been up for an hour was asked 18,000 times by one
	// sidestep and answers by compiled code; one that has just started interprets it,
	// which would be measured as what sidestep costs.
	polling = 15 * time.Second
	// statistics is what sidestep asks a node for, five times a second.
	statistics = "/_nodes/_local/stats/thread_pool,indices,adaptive_selection/search" +
		"?filter_path=nodes.*.thread_pool.search,nodes.*.indices.search,nodes.*.adaptive_selection"
)

// warmUp brings the nodes to the speed of such that have been up for long: first
// their searches, then what sidestep asks them.
func (s *stage) warmUp(ctx context.Context) error {
	s.logf("warming up for %s", s.warm+polling)
	if err := s.cluster.Warm(ctx, index, s.warm); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, polling)
	defer cancel()
	var wg sync.WaitGroup
	failures := make([]error, len(s.cluster.Nodes))
	polls := make([]int, len(s.cluster.Nodes))
	for i, node := range s.cluster.Nodes {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := node.Do(ctx, http.MethodGet, statistics, nil, nil); err != nil && ctx.Err() == nil {
					failures[i] = fmt.Errorf("warm %s: %w", node.Name, err)
					return
				}
				polls[i]++
			}
		})
	}
	wg.Wait()
	s.logf("asked for statistics: %d times by node", polls)
	return errors.Join(failures...)
}
