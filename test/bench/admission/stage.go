package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/bootstrap"
	"sidestep/test/harness"
)

const (
	index     = "products"
	nodeCount = 5
	documents = 20_000
	// statistics is what sidestep asks a node for.
	statistics = "/_nodes/_local/stats/thread_pool,indices,adaptive_selection/search" +
		"?filter_path=nodes.*.thread_pool.search,nodes.*.indices.search,nodes.*.adaptive_selection"
	// polling is how long the nodes are asked for these as fast as they answer: a node
	// that has been up for long answers by compiled code.
	polling = 10 * time.Second
	// The flood of the warm-up.
	flood            = 15 * time.Second
	floodConnections = 300
	floodPatience    = 500 * time.Millisecond
	// capacityTurns of the closed loop are measured, after one that counts for nothing.
	capacityTurns = 3
	capacityTurn  = 4 * time.Second
)

// stage is the cluster.
type stage struct {
	options
	cluster *harness.Cluster
	arms    []arm
	turns   int // so far
	logf    func(string, ...any)
}

func openStage(ctx context.Context, o options, arms []arm, logf func(string, ...any)) (*stage, error) {
	s := &stage{options: o, arms: arms, logf: logf}
	if err := s.open(ctx); err != nil {
		s.close(ctx.Err() == nil)
		return nil, err
	}
	return s, nil
}

func (s *stage) open(ctx context.Context) error {
	var err error
	s.cluster, err = harness.StartCluster(ctx, harness.ClusterOptions{
		Distribution: s.engine, Version: s.version, Nodes: nodeCount, Processors: 1, Logf: s.logf,
		Settings: map[string]string{"thread_pool.search.queue_size": strconv.Itoa(s.queue)},
	})
	if err != nil {
		return err
	}
	if err := s.cluster.CreateIndex(ctx, harness.Index{Name: index, Shards: nodeCount, Replicas: 1, Docs: documents, Seed: 1}); err != nil {
		return err
	}
	s.logf("warming up for %s", s.warm+polling)
	if err := s.cluster.Warm(ctx, index, s.warm); err != nil {
		return err
	}
	if err := s.warmPolls(ctx); err != nil {
		return err
	}
	if err := s.warmFlood(ctx); err != nil {
		return err
	}
	for i, node := range s.cluster.Nodes {
		quota := s.quota
		if i == 0 && s.stressed > 0 {
			quota = s.stressed
		}
		if err := node.LimitCPU(quota); err != nil {
			return err
		}
	}
	return nil
}

// warmPolls asks all nodes for what sidestep asks them.
func (s *stage) warmPolls(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, polling)
	defer cancel()
	return s.each(func(node *harness.Node) error {
		for ctx.Err() == nil {
			if err := node.Do(ctx, http.MethodGet, statistics, nil, nil); err != nil && ctx.Err() == nil {
				return fmt.Errorf("warm %s: %w", node.Name, err)
			}
		}
		return nil
	})
}

// warmFlood sends far more than the nodes can answer, with clients that leave: what they
// do then must be compiled, too.
func (s *stage) warmFlood(ctx context.Context) error {
	_, err := loadgen.Run(ctx, loadgen.Options{
		Targets: s.cluster.URLs(), Connections: floodConnections, Duration: flood, Timeout: floodPatience, Request: search(0),
	})
	if err != nil {
		return fmt.Errorf("warm up with a flood: %w", err)
	}
	_, err = s.drain(ctx)
	return err
}

// each does something for all nodes at once.
func (s *stage) each(do func(*harness.Node) error) error {
	var all sync.WaitGroup
	failures := make([]error, len(s.cluster.Nodes))
	for i, node := range s.cluster.Nodes {
		all.Go(func() { failures[i] = do(node) })
	}
	all.Wait()
	return errors.Join(failures...)
}

// close stops everything. After a failure the logs of the nodes stay, and are named.
func (s *stage) close(failed bool) {
	if s.cluster != nil {
		for _, node := range s.cluster.Nodes {
			if err := node.UnlimitCPU(); err != nil {
				s.logf("%v", err)
			}
		}
	}
	harness.Close(nil, s.cluster, failed)
}

// measureCapacity returns how many searches a second the nodes answer if each of some
// clients sends its next one when the last is answered: the median of some turns.
func (s *stage) measureCapacity(ctx context.Context) (float64, error) {
	var rates []float64
	for turn := range capacityTurns + 1 {
		result, err := loadgen.Run(ctx, loadgen.Options{
			Targets: s.cluster.URLs(), Connections: s.connections, Duration: capacityTurn, Timeout: time.Minute, Request: search(turn * 1_000_000),
		})
		if err != nil {
			return 0, fmt.Errorf("measure the capacity: %w", err)
		}
		if result.Failed+result.Partial > 0 {
			return 0, fmt.Errorf("measure the capacity: %d of %d searches failed: %v", result.Failed+result.Partial, result.Sent, result.FirstErrors)
		}
		s.logf("closed loop: %.0f searches/s, p99 %s", result.Throughput(), result.Quantile(0.99).Round(time.Millisecond))
		if turn > 0 {
			rates = append(rates, result.Throughput())
		}
	}
	return bootstrap.Median(rates), nil
}

// search returns the searches from a number on.
func search(first int) func(int) *http.Request {
	return func(i int) *http.Request { return harness.Search(index, first+i) }
}
