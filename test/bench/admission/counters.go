package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"sidestep/test/harness"
)

// counters are what the nodes count.
type counters struct {
	rejected, queries float64   // search tasks, shard queries
	opened            float64   // connections of clients
	cpu               []float64 // seconds, by node
}

// drainLimit bounds the wait for the nodes to have nothing left to do. After the flood of the warm-up
// they go on for more than half a minute on some machines.
const drainLimit = 2 * time.Minute

// readCounters reads those of all nodes.
func (s *stage) readCounters(ctx context.Context) (counters, error) {
	all := counters{cpu: make([]float64, len(s.Cluster.Nodes))}
	var mu sync.Mutex
	err := s.Cluster.Each(func(node *harness.Node) error {
		stats, err := statsOf(ctx, node)
		if err != nil {
			return err
		}
		used, err := node.CPUUsed()
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		all.rejected += stats.Pool.Search.Rejected
		all.queries += stats.Indices.Search.Total
		all.opened += stats.HTTP.Opened
		all.cpu[slices.Index(s.Cluster.Nodes, node)] = used.Seconds()
		return nil
	})
	return all, err
}

// since returns what was counted since before.
func (c counters) since(before counters) counters {
	d := counters{rejected: c.rejected - before.rejected, queries: c.queries - before.queries, opened: c.opened - before.opened}
	for i := range c.cpu {
		d.cpu = append(d.cpu, c.cpu[i]-before.cpu[i])
	}
	return d
}

// nodeStats is what a node says of itself.
type nodeStats struct {
	Pool struct {
		Search struct{ Rejected, Queue, Active float64 }
	} `json:"thread_pool"`
	Indices struct {
		Search struct {
			Total float64 `json:"query_total"`
		}
	}
	HTTP struct {
		Opened float64 `json:"total_opened"`
	}
}

func statsOf(ctx context.Context, node *harness.Node) (nodeStats, error) {
	var answer struct{ Nodes map[string]nodeStats }
	err := node.Do(ctx, http.MethodGet, "/_nodes/_local/stats/thread_pool,http,indices/search", nil, &answer)
	if err != nil {
		return nodeStats{}, err
	}
	for _, stats := range answer.Nodes {
		return stats, nil
	}
	return nodeStats{}, fmt.Errorf("%s tells nothing of itself", node.Name)
}

// drain waits until no node searches any more, and returns how long that took.
func (s *stage) drain(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	err := s.Cluster.Each(func(node *harness.Node) error {
		for {
			stats, err := statsOf(ctx, node)
			if err != nil {
				return fmt.Errorf("wait until %s has nothing left to do: %w", node.Name, err)
			}
			if stats.Pool.Search.Queue+stats.Pool.Search.Active == 0 {
				return nil
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	return time.Since(began), err
}
