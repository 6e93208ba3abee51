package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/test/harness"
)

// changes is what happens to the cluster while it is asked.
type changes struct {
	stage  *stage
	random *rand.Rand
	logf   func(string, ...any)

	mu                sync.Mutex
	happened, refused map[string]int
	restarted         atomic.Bool // the node is back

	created, deleted int // numbers of the churn indices
	switched         bool
}

func newChanges(s *stage, seed uint64, logf func(string, ...any)) *changes {
	return &changes{stage: s, random: rand.New(rand.NewPCG(seed, 99)), logf: logf, happened: map[string]int{}, refused: map[string]int{}}
}

// changeEvery is the time between two changes; restartAfter is the number of changes
// after which a node is restarted.
const (
	changeEvery  = 700 * time.Millisecond
	restartAfter = 12
)

// run changes the cluster until ctx ends.
func (c *changes) run(ctx context.Context) error {
	restart := make(chan error, 1)
	restarting := false
	for number := 0; ; number++ {
		select {
		case <-ctx.Done():
			if restarting {
				return <-restart
			}
			return nil
		case <-time.After(changeEvery):
		}
		if number == restartAfter {
			restarting = true
			go func() { restart <- c.restart() }()
			continue
		}
		name, change := c.next()
		err := change(ctx)
		if ctx.Err() != nil {
			continue
		}
		c.note(name, err)
	}
}

func (c *changes) note(name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.refused[name]++
		return
	}
	c.happened[name]++
}

// counts returns what has happened so far.
func (c *changes) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.happened)
}

// next draws a change.
func (c *changes) next() (name string, change func(context.Context) error) {
	switch c.random.IntN(5) {
	case 0:
		if c.created-c.deleted >= 3 {
			return "index deleted", c.deleteIndex
		}
		return "index created", c.createIndex
	case 1, 2:
		return "shard moved", c.move
	case 3:
		return "replicas changed", c.changeReplicas
	default:
		return "alias switched", c.switchAlias
	}
}

func (c *changes) createIndex(ctx context.Context) error {
	c.created++
	return c.stage.Cluster.CreateIndex(ctx, harness.Index{
		Name: fmt.Sprintf("churn-%d", c.created), Shards: 2, Replicas: 1, Docs: 30, Seed: uint64(c.created),
	})
}

func (c *changes) deleteIndex(ctx context.Context) error {
	c.deleted++
	return c.stage.Cluster.Do(ctx, http.MethodDelete, fmt.Sprintf("/churn-%d", c.deleted), nil, nil)
}

func (c *changes) changeReplicas(ctx context.Context) error {
	index := []string{"logs-1", "logs-2", "routed", "single"}[c.random.IntN(4)]
	replicas := 1 + c.random.IntN(2)
	return c.stage.Cluster.Do(ctx, http.MethodPut, "/"+index+"/_settings", object{"index": object{"number_of_replicas": replicas}}, nil)
}

func (c *changes) switchAlias(ctx context.Context) error {
	from, to := "logs-1", "logs-2"
	if c.switched {
		from, to = to, from
	}
	c.switched = !c.switched
	return c.stage.Cluster.Do(ctx, http.MethodPost, "/_aliases", object{"actions": []any{
		object{"remove": object{"index": from, "alias": "switch"}}, object{"add": object{"index": to, "alias": "switch"}},
	}}, nil)
}

// move relocates a copy to a node that has none of its shard.
func (c *changes) move(ctx context.Context) error {
	var rows []struct{ Index, Shard, State, Node string }
	if err := c.stage.Cluster.Do(ctx, http.MethodGet, "/_cat/shards/products,logs-*,routed,lonely?format=json&h=index,shard,state,node", nil, &rows); err != nil {
		return err
	}
	if len(rows) == 0 {
		return errors.New("no shards")
	}
	row := rows[c.random.IntN(len(rows))]
	taken := map[string]bool{}
	for _, other := range rows {
		if other.Index == row.Index && other.Shard == row.Shard {
			taken[other.Node] = true
		}
	}
	for _, node := range c.stage.Cluster.Nodes {
		if !taken[node.Name] && row.State == "STARTED" {
			return c.stage.Cluster.Do(ctx, http.MethodPost, "/_cluster/reroute", object{"commands": []any{
				object{"move": object{"index": row.Index, "shard": row.Shard, "from_node": row.Node, "to_node": node.Name}},
			}}, nil)
		}
	}
	return errors.New("every node has a copy")
}

// restart ends a node as an operator would, and starts it again.
func (c *changes) restart() error {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	defer c.restarted.Store(true)
	node := c.stage.Cluster.Nodes[2]
	c.logf("churn: %s goes", node.Name)
	if err := node.Terminate(ctx); err != nil {
		return err
	}
	if err := node.Restart(ctx); err != nil {
		return err
	}
	c.logf("churn: %s is back", node.Name)
	c.note("node restarted", nil)
	return nil
}
