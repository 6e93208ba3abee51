package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"sidestep/test/harness"
)

// The arms.
const (
	armDirect  = "direct"
	armEngine  = "engine"
	armEven    = "even"
	armAware   = "aware"
	armControl = "control"
)

// arm is one way to send bulks.
type arm struct {
	name     string
	index    string         // of the layout that the nodes have
	settings map[string]any // of its index
	targets  []string       // where its client sends bulks
}

// stage is the cluster, and the sidesteps before it, which differ in one key, by arm.
type stage struct {
	options
	harness.Stage
	nodes   []*harness.Node // the one to degrade first
	arms    []arm
	bodies  [][]byte
	random  *rand.Rand // of the turns
	laidOut layout     // of the indices that there are
	layouts int        // so far
	perCase float64    // documents that the best arm may write in all turns of a case
	logf    func(string, ...any)
}

func (s *stage) open(ctx context.Context) error {
	const single = "bulk:\n  single_shard: [{index: \"bulk-*\"}]\n"
	err := s.Open(ctx, harness.StageOptions{
		Binary:    s.Sidestep,
		Cluster:   harness.ClusterOptions{Distribution: s.Engine, Version: s.Version, Nodes: nodeCount, Proxied: true, Logf: s.logf},
		Fill:      s.keepStill,
		Sidesteps: []harness.Sidestep{{Name: armEven, Config: single + "  avoid: false\n"}, {Name: armAware, Config: single}},
	})
	if err != nil {
		return err
	}
	s.arms = []arm{{name: armDirect, targets: s.Cluster.URLs()}}
	if s.Engine == harness.OpenSearch && choosesShards(s.Version) {
		s.arms = append(s.arms, arm{name: armEngine, targets: s.Cluster.URLs(), settings: map[string]any{
			"append_only.enabled": true, "bulk.adaptive_shard_selection.enabled": true,
		}})
	}
	s.arms = append(s.arms,
		arm{name: armEven, targets: []string{s.Front(armEven).URL}},
		arm{name: armAware, targets: []string{s.Front(armAware).URL}},
		arm{name: armControl, targets: s.Cluster.URLs()})
	return s.warmUp(ctx)
}

// choosesShards reports whether a version of OpenSearch can choose the shards of bulks.
func choosesShards(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 3 || major == 3 && minor >= 5
}

// keepStill keeps copies where they are.
func (s *stage) keepStill(ctx context.Context, c *harness.Cluster) (err error) {
	still := map[string]any{"persistent": map[string]any{
		"cluster.routing.rebalance.enable": "none", "indices.recovery.max_bytes_per_sec": "400mb",
	}}
	if err := c.Do(ctx, http.MethodPut, "/_cluster/settings", still, nil); err != nil {
		return fmt.Errorf("keep copies where they are: %w", err)
	}
	s.nodes, err = s.order(ctx)
	return err
}

// warmUp drives every arm for a while, so that the code of all is warm, and finds how
// much the best one may write.
func (s *stage) warmUp(ctx context.Context) error {
	if err := s.prepare(ctx, newLayout(holdsBoth, harness.NodeNames(s.nodes)), 0); err != nil {
		return err
	}
	var best float64
	for _, a := range s.arms {
		if _, err := s.send(ctx, a, s.warm/2); err != nil { // cold
			return err
		}
		t, err := s.send(ctx, a, s.warm/2)
		if err != nil {
			return err
		}
		s.logf("warm-up: %s %.0f documents/s", a.name, t.perSecond)
		best = max(best, t.perSecond)
	}
	s.perCase = best * (time.Duration(s.rounds)*s.turn + s.settle).Seconds()
	return nil
}

// order returns the nodes, the one to degrade first: not the elected one, whose loss
// stops more than writes, and not the one that is asked for everything.
func (s *stage) order(ctx context.Context) ([]*harness.Node, error) {
	nodes, err := s.Cluster.ElectedLast(ctx)
	if err != nil {
		return nil, err
	}
	last := len(nodes) - 2
	nodes[0], nodes[last] = nodes[last], nodes[0]
	return nodes, nil
}

// prepare makes the index of each arm, with so many documents, and waits until the nodes
// have nothing left to do. They are filled through a sidestep, those of its arms through
// their own, which keeps books of what it wrote. Indices that are laid out so already stay, and so do those
// in which only primaries and replicas have to change places.
func (s *stage) prepare(ctx context.Context, l layout, documents int) error {
	if swap := s.laidOut.swapped(l); swap != nil {
		s.logf("%s", l)
		if err := s.promote(ctx, swap); err != nil {
			return err
		}
		s.laidOut = l
		return s.settled(ctx)
	}
	if err := s.clear(ctx); err != nil {
		return err
	}
	began := time.Now()
	s.layouts++
	for i := range s.arms {
		a := &s.arms[i]
		a.index = fmt.Sprintf("bulk-%s-%d", a.name, s.layouts) // new to sidestep, too
		if err := s.createIndex(ctx, *a, l); err != nil {
			return err
		}
		if err := s.fillIndex(ctx, *a, documents); err != nil {
			return err
		}
	}
	for _, a := range s.arms {
		if err := s.addReplicas(ctx, a, l); err != nil {
			return err
		}
	}
	s.laidOut = l
	s.logf("%d documents in each index after %s; %s", documents, time.Since(began).Round(time.Second), l)
	return s.settled(ctx)
}

// settled waits until all copies are where they are to be, and the nodes have nothing
// left to do.
func (s *stage) settled(ctx context.Context) error {
	if err := s.Cluster.WaitGreen(ctx, "bulk-*"); err != nil {
		return err
	}
	if err := s.verify(ctx, s.laidOut); err != nil {
		return err
	}
	return s.awaitMerges(ctx)
}

// awaitMerges waits until no node merges, half a minute at most.
func (s *stage) awaitMerges(ctx context.Context) error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		var answer struct {
			All struct {
				Total struct{ Merges struct{ Current int } }
			} `json:"_all"`
		}
		if err := s.Cluster.Do(ctx, http.MethodGet, "/_stats/merge?filter_path=_all.total.merges.current", nil, &answer); err != nil {
			return fmt.Errorf("wait for merges: %w", err)
		}
		if answer.All.Total.Merges.Current == 0 {
			return nil
		}
		if err := harness.Pause(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// clear deletes the indices.
func (s *stage) clear(ctx context.Context) error {
	var errs []error
	for _, a := range s.arms {
		if a.index == "" {
			continue
		}
		errs = append(errs, s.Cluster.Do(ctx, http.MethodDelete, "/"+a.index, nil, nil))
	}
	return errors.Join(errs...)
}

// shardRequests counts the requests to shards of an index so far, those to replicas left
// out. It is false if a node does not tell.
func (s *stage) shardRequests(ctx context.Context, index string) (count float64, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if s.Engine == harness.OpenSearch {
		tasks, ok := s.writeTasks(ctx)
		return tasks / 2, ok // of the primary and of its replica
	}
	var answer struct {
		Shards struct{ Failed int } `json:"_shards"`
		All    struct {
			Primaries struct {
				Bulk struct {
					Total float64 `json:"total_operations"`
				}
			}
		} `json:"_all"`
	}
	err := s.Cluster.Do(ctx, http.MethodGet, "/"+index+"/_stats/bulk", nil, &answer)
	return answer.All.Primaries.Bulk.Total, err == nil && answer.Shards.Failed == 0
}

// writeTasks counts the tasks that the write pools of all nodes have completed: OpenSearch
// does not count bulks, and uses one task for each copy that a bulk is written to.
func (s *stage) writeTasks(ctx context.Context) (sum float64, ok bool) {
	var mu sync.Mutex
	err := s.Cluster.Each(func(node *harness.Node) error {
		var answer struct {
			Nodes map[string]struct {
				Pool struct{ Write struct{ Completed float64 } } `json:"thread_pool"`
			}
		}
		err := node.Do(ctx, http.MethodGet, "/_nodes/_local/stats/thread_pool?filter_path=nodes.*.thread_pool.write.completed", nil, &answer)
		mu.Lock()
		defer mu.Unlock()
		for _, stats := range answer.Nodes {
			sum += stats.Pool.Write.Completed
		}
		return err
	})
	return sum, err == nil
}
