// Package chaos holds what sidestep promises under degradation to real clusters: nodes
// behind slow connections, nodes that stand still or are busy with other things. It
// degrades one node in ways of which the cause is known, and asks everything that sidestep
// shows to operators which node it is and why: the web page, the dashboard's queries, the
// commands, the records. Every node-to-node and client connection passes through toxiproxy.
//
// The tests assert what does not depend on time. With -timed, as in `make chaos`, they also
// assert how long it may take. The command table measures, the command tour shows.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"sidestep/test/harness"
)

const (
	// Index is what is searched.
	Index = "products"
	// container is the CPU quota of every node, in cores, as containers have one: what a
	// node does beside its searches takes their CPU, and not that of the other nodes.
	container = 0.5
	// narrow is that of a node that is to merge: what merges take is missing at once.
	narrow = 0.3
	// merges is how many a node may do at once, as large nodes may.
	merges = 4
	// queueSize is that of the nodes' search pools.
	queueSize = 100
)

// Settings are the settings that the nodes must be started with.
func Settings() map[string]string {
	return map[string]string{
		"thread_pool.search.queue_size": strconv.Itoa(queueSize),
		"thread_pool.force_merge.size":  strconv.Itoa(merges),
	}
}

// Stage is a cluster, with proxies before its nodes, and sidestep before it.
type Stage struct {
	harness.Stage
	Sidestep *harness.Front
	Logf     func(format string, args ...any)

	victims []*harness.Node
	turn    int
}

// StageOptions are a cluster of five nodes with Index, warmed up for so long. Table and tests
// have the same.
func StageOptions(engine, version string, warm time.Duration, logf func(string, ...any)) harness.StageOptions {
	return harness.StageOptions{
		Cluster: harness.ClusterOptions{Distribution: engine, Version: version, Nodes: 5, Proxied: true, Logf: logf},
		Indices: []harness.Index{{Name: Index, Shards: 5, Replicas: 1, Docs: 20_000, Seed: 1}},
		Warm:    warm,
	}
}

// Start starts cluster and sidestep, for all faults.
func (s *Stage) Start(ctx context.Context, o harness.StageOptions) error {
	const name = "sidestep"
	o.Cluster.Settings, o.Sidesteps = Settings(), []harness.Sidestep{{Name: name}}
	err := s.Open(ctx, o)
	s.Sidestep = s.Front(name)
	return err
}

// Confine makes the stage ready for faults: the nodes get the CPU that containers have, and the
// shards of Index stay where they are. Release takes that back.
func (s *Stage) Confine(ctx context.Context) error {
	stay := map[string]any{"index.routing.rebalance.enable": "none"}
	if err := s.Cluster.Do(ctx, http.MethodPut, "/"+Index+"/_settings", stay, nil); err != nil {
		return err
	}
	if err := s.chooseVictims(ctx); err != nil {
		return err
	}
	return s.Cluster.Each(s.confine)
}

// Release gives the nodes all the CPU there is.
func (s *Stage) Release() error { return s.Cluster.Each((*harness.Node).UnlimitCPU) }

func (s *Stage) confine(n *harness.Node) error { return n.LimitCPU(container) }

func (s *Stage) logf(format string, args ...any) {
	if s.Logf != nil {
		s.Logf(format, args...)
	}
}

// chooseVictims finds the nodes to degrade: those that hold copies, without the elected
// one, whose trouble is everybody's.
func (s *Stage) chooseVictims(ctx context.Context) error {
	order, err := s.Cluster.ElectedLast(ctx)
	if err != nil {
		return err
	}
	where, err := FindCopies(ctx, s.Cluster)
	if err != nil {
		return err
	}
	s.victims = slices.DeleteFunc(order[:len(order)-1], func(n *harness.Node) bool { return len(where[n.ID]) == 0 })
	if len(s.victims) < 3 {
		return fmt.Errorf("only %d nodes but the elected one hold shards of %s", len(s.victims), Index)
	}
	return nil
}

// Victim returns the node to degrade next. They take turns: a node that gets into
// trouble again soon extends the record of the time before.
func (s *Stage) Victim() *harness.Node {
	n := s.victims[s.turn%len(s.victims)]
	s.turn++
	return n
}

// Placement is which shards of Index each node (by id) holds copies of.
type Placement map[string][]string

// FindCopies asks the cluster for it.
func FindCopies(ctx context.Context, c *harness.Cluster) (Placement, error) {
	var rows []struct{ ID, Shard string }
	if err := c.Do(ctx, http.MethodGet, "/_cat/shards/"+Index+"?format=json&h=id,shard", nil, &rows); err != nil {
		return nil, fmt.Errorf("find the copies: %w", err)
	}
	where := Placement{}
	for _, row := range rows {
		where[row.ID] = append(where[row.ID], row.Shard)
	}
	return where, nil
}

// closed is for how long a node must have been well for what comes to be a record of its
// own, and not another bout of the last.
const closed = 17 * time.Second

// AwaitClosed waits until sidestep has no record of a node that it would continue.
func (s *Stage) AwaitClosed(ctx context.Context, n *harness.Node) error {
	return harness.Await(ctx, lookEvery, func() error {
		var answer struct{ Spikes []record }
		if err := s.Sidestep.AdminJSON(ctx, "/spikes", &answer); err != nil {
			return err
		}
		if slices.ContainsFunc(answer.Spikes, func(r record) bool {
			return r.Node == n.Name && (r.Ended == nil || time.Since(*r.Ended) < closed)
		}) {
			return errors.New("the record of " + n.Name + " is not closed")
		}
		return nil
	})
}

// AwaitFine waits until sidestep says of every node that it is fine. The error says of
// which it does not.
func (s *Stage) AwaitFine(ctx context.Context) error {
	return harness.Await(ctx, lookEvery, func() error {
		var nodes []struct{ Name, State, Why string }
		if err := s.Sidestep.AdminJSON(ctx, "/nodes", &nodes); err != nil {
			return err
		}
		bad := slices.DeleteFunc(nodes, func(n struct{ Name, State, Why string }) bool { return n.State == "fine" })
		if len(nodes) == 0 || len(bad) > 0 {
			return fmt.Errorf("not all nodes are fine: %v", bad)
		}
		return nil
	})
}
