package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/bootstrap"
	"sidestep/test/harness"
)

const (
	index     = "products"
	nodeCount = 5
	documents = 20_000
	// polling is how long the nodes are asked for these as fast as they answer: a node
	// that has been up for long answers by compiled code.
	polling = 10 * time.Second
	// The flood of the warm-up.
	floodLength      = 15 * time.Second
	floodConnections = 300
	floodPatience    = 500 * time.Millisecond
	// capacityTurns of the closed loop are measured, after one that counts for nothing.
	capacityTurns = 3
	capacityTurn  = 4 * time.Second
)

// stage is the cluster. A sidestep is started for each of its turns.
type stage struct {
	options
	harness.Stage
	arms       []arm
	turns      int     // so far
	floodSends float64 // searches of the flood a second
	logf       func(string, ...any)
}

func (s *stage) open(ctx context.Context) error {
	err := s.Open(ctx, harness.StageOptions{
		Binary: s.Sidestep,
		Cluster: harness.ClusterOptions{
			Distribution: s.Engine, Version: s.Version, Nodes: nodeCount, Processors: 1, Logf: s.logf,
			Settings: map[string]string{"thread_pool.search.queue_size": strconv.Itoa(s.queue)},
		},
		Indices: []harness.Index{{Name: index, Shards: nodeCount, Replicas: 1, Docs: documents, Seed: 1}},
		Warm:    s.warm,
	})
	if err != nil {
		return err
	}
	if err := s.Cluster.WarmStatistics(ctx, polling); err != nil {
		return err
	}
	if err := s.warmFlood(ctx); err != nil {
		return err
	}
	for i, node := range s.Cluster.Nodes {
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

// warmFlood sends far more than the nodes can answer, with clients that leave: what they
// do then must be compiled, too.
func (s *stage) warmFlood(ctx context.Context) error {
	kinds := []requests{search}
	if s.flood > 0 {
		kinds = append(kinds, aggregation)
	}
	for _, of := range kinds {
		_, err := loadgen.Run(ctx, loadgen.Options{
			Targets: s.Cluster.URLs(), Connections: floodConnections, Duration: floodLength, Timeout: floodPatience, Request: of(0),
		})
		if err != nil {
			return fmt.Errorf("warm up with a flood: %w", err)
		}
	}
	_, err := s.drain(ctx)
	return err
}

// measureCapacity returns how many searches a second the nodes answer if each of some
// clients sends its next one when the last is answered: the median of some turns.
func (s *stage) measureCapacity(ctx context.Context, request requests) (float64, error) {
	var rates []float64
	for turn := range capacityTurns + 1 {
		result, err := loadgen.Run(ctx, loadgen.Options{
			Targets: s.Cluster.URLs(), Connections: s.connections, Duration: capacityTurn, Timeout: time.Minute, Request: request(turn * 1_000_000),
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

// requests returns the searches from a number on.
type requests func(first int) func(int) *http.Request

// search returns those that are measured.
func search(first int) func(int) *http.Request {
	return func(i int) *http.Request { return harness.Search(index, first+i) }
}
