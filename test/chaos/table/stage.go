package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/test/chaos"
	"sidestep/test/harness"
)

const (
	index = chaos.Index
	// polling is how long the nodes are asked for their statistics as fast as they answer.
	polling = 15 * time.Second
)

// stage is the cluster, and every sidestep before it, by load.
type stage struct {
	options
	harness.Stage
	shape shape
	// good are the nodes the oracle uses.
	good atomic.Pointer[[]*harness.Node]
	logf func(string, ...any)
}

func newStage(o options, of shape, logf func(string, ...any)) *stage {
	return &stage{options: o, shape: of, logf: logf}
}

func (s *stage) open(ctx context.Context, further []harness.Sidestep) error {
	o := chaos.StageOptions(s.Engine, s.Version, s.warm, s.logf)
	s.shape.apply(&o.Cluster)
	o.Binary = s.Sidestep
	o.Fill = func(ctx context.Context, c *harness.Cluster) error {
		s.exclude(nil)
		// A killed node comes back to its own copies, however long a scenario takes.
		stay := map[string]any{"index.unassigned.node_left.delayed_timeout": "30m"}
		return c.Do(ctx, http.MethodPut, "/"+index+"/_settings", stay, nil)
	}
	o.Warmed = func(ctx context.Context) error { return s.Cluster.WarmStatistics(ctx, polling) }
	o.Sidesteps = append([]harness.Sidestep{{Name: loadSidestep}}, further...)
	return s.Open(ctx, o)
}

// close stops everything. After a failure the nodes' logs stay, and are named;
// those of sidestep always do.
func (s *stage) close(failed bool) error {
	err := s.stopFronts()
	return errors.Join(err, harness.Close(nil, s.Cluster, failed || err != nil))
}

// dataNodes are the nodes that hold copies.
func (s *stage) dataNodes() []*harness.Node { return s.Cluster.Nodes[:s.shape.dataNodes()] }

// lot draws for a purpose: the same for the same seed.
func (o options) lot(purpose string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose)) // never fails
	return rand.New(rand.NewPCG(uint64(o.seed), h.Sum64()))
}

// exclude tells the oracle which nodes are bad.
func (s *stage) exclude(bad []*harness.Node) {
	good := slices.DeleteFunc(slices.Clone(s.dataNodes()), func(n *harness.Node) bool { return slices.Contains(bad, n) })
	s.good.Store(&good)
}

// victims returns the nodes to degrade: ones that hold copies, but no two of the
// same shard, and if possible not the elected one, whose loss stops more than
// searches.
func (s *stage) victims(ctx context.Context, count int) ([]*harness.Node, error) {
	order, err := s.Cluster.ElectedLast(ctx)
	if err != nil || count == 0 {
		return nil, err
	}
	where, err := chaos.FindCopies(ctx, s.Cluster)
	if err != nil {
		return nil, err
	}
	return chooseVictims(order, where, count)
}

func chooseVictims(order []*harness.Node, where chaos.Placement, count int) ([]*harness.Node, error) {
	for i, first := range order {
		if len(where[first.ID]) == 0 {
			continue
		}
		if count == 1 {
			return []*harness.Node{first}, nil
		}
		for _, second := range order[i+1:] {
			if len(where[second.ID]) > 0 && disjoint(where[first.ID], where[second.ID]) {
				return []*harness.Node{first, second}, nil
			}
		}
	}
	return nil, fmt.Errorf("no %d nodes of which no shard has all its copies: %v", count, where)
}

func disjoint(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// counts is how many shard queries each node (by id) has run; a node that does not
// tell is missing.
type counts map[string]int64

func (s *stage) counts(ctx context.Context) counts {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	all := counts{}
	for _, node := range s.Cluster.Nodes {
		wg.Go(func() {
			var answer struct {
				Nodes map[string]struct {
					Indices struct {
						Search struct {
							Total int64 `json:"query_total"`
						}
					}
				}
			}
			// A dead or starved node tells nothing, which is what counts says of it.
			if node.PID() == 0 || node.Do(ctx, http.MethodGet, "/_nodes/_local/stats/indices/search", nil, &answer) != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for id, stats := range answer.Nodes {
				all[id] = stats.Indices.Search.Total
			}
		})
	}
	wg.Wait()
	return all
}

// reading starts to read the counters and returns what waits for them.
func (s *stage) reading(ctx context.Context) func() counts {
	all := make(chan counts, 1)
	go func() { all <- s.counts(ctx) }()
	return func() counts { return <-all }
}
