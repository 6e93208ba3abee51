package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
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

// drainLimit bounds the wait for the nodes to have nothing left to do.
const drainLimit = 30 * time.Second

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

// doing is what a sidestep did in a turn.
type doing struct {
	reasons, hedges, failovers, probes, asks, polls, states, failures, queues map[string]float64
}

// counted are counts by some label, and what of.
type counted struct {
	what string
	by   *map[string]float64
}

// told are the counts of d that a report tells, in its order.
func (d *doing) told() []counted {
	return []counted{
		{"reasons", &d.reasons}, {"hedges", &d.hedges}, {"failovers", &d.failovers}, {"probes", &d.probes},
		{"asks", &d.asks}, {"polls", &d.polls}, {"states", &d.states},
	}
}

// String tells them.
func (d *doing) String() string {
	var parts []string
	for _, c := range d.told() {
		parts = append(parts, c.what+" "+shown(*c.by))
	}
	return strings.Join(parts, "; ")
}

// readDoing reads the metrics of a sidestep.
func readDoing(ctx context.Context, f *harness.Front) (doing, error) {
	var d doing
	for _, one := range []struct {
		into          *map[string]float64
		metric, label string
	}{
		{&d.reasons, "sidestep_requests_total", "reason"},
		{&d.hedges, "sidestep_hedges_total", "result"},
		{&d.failovers, "sidestep_failovers_total", "cause"},
		{&d.probes, "sidestep_probes_total", "result"},
		{&d.asks, "sidestep_asks_total", "result"},
		{&d.failures, "sidestep_node_failures_total", "node"},
		{&d.queues, "sidestep_node_queue", "node"},
	} {
		sums, err := f.SumBy(ctx, one.metric, one.label)
		if err != nil {
			return d, err
		}
		*one.into = sums
	}
	d.polls = map[string]float64{}
	for _, result := range []string{"ok", "unresponsive", "unreachable", "failed"} {
		sum, err := f.Sum(ctx, "sidestep_cluster_polls_total", map[string]string{"kind": "stats", "result": result})
		if err != nil {
			return d, err
		}
		d.polls[result] = sum
	}
	return d, nil
}

// extra returns the attempts beyond one for each search.
func (d doing) extra() float64 {
	sent := d.hedges["won"] + d.hedges["lost"]
	for cause, n := range d.failovers {
		if cause != "unreachable" {
			sent += n
		}
	}
	return sent
}
