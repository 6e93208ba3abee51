package simcluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Many returns the specifications of n indices like spec, named spec.Name-0 and so
// on. With groups above 0 each belongs to one of as many aliases, spec.Name-group-0
// and so on, in turn.
func Many(n int, spec IndexSpec, groups int) []IndexSpec {
	all := make([]IndexSpec, n)
	for i := range all {
		all[i] = spec
		all[i].Name = fmt.Sprintf("%s-%d", spec.Name, i)
		if groups > 0 {
			all[i].Aliases = append([]string{fmt.Sprintf("%s-group-%d", spec.Name, i%groups)}, spec.Aliases...)
		}
	}
	return all
}

// Storm is how fast a cluster changes, in events a second.
type Storm struct {
	// Relocations of a copy to another node. Each changes the cluster state twice:
	// when it begins and, after Options.RecoveryTime, when it ends.
	Relocations int
	// Churn is how often an index is created, and another that was deleted.
	Churn int
}

// stormStep is how often a storm does what is due.
const stormStep = 5 * time.Millisecond

// Storm relocates copies of the indices given to Start, and creates and deletes
// other indices, until ctx ends or the cluster is stopped. It returns how many times
// the cluster state changed meanwhile.
func (c *Cluster) Storm(ctx context.Context, s Storm) int64 {
	before := c.Version()
	rng := rand.New(rand.NewPCG(c.opts.Seed, 0x5709)) //nolint:gosec // a simulation wants repeatable chance
	begin, relocated, churned := time.Now(), 0, 0
	for sleep(ctx, stormStep) == nil && c.ctx.Err() == nil {
		elapsed := time.Since(begin).Seconds()
		for ; float64(relocated) < elapsed*float64(s.Relocations); relocated++ {
			c.relocateSome(rng)
		}
		for ; float64(churned) < elapsed*float64(s.Churn); churned++ {
			c.churn(churned)
		}
	}
	return c.Version() - before
}

// relocateSome moves some started copy to some node that has none of its shard.
func (c *Cluster) relocateSome(rng *rand.Rand) {
	if len(c.opts.Indices) == 0 {
		return
	}
	for range 10 { // whatever is drawn may be moving already
		name := c.opts.Indices[rng.IntN(len(c.opts.Indices))].Name
		ix := c.state.Load().index(name)
		if ix == nil {
			continue
		}
		shard := rng.IntN(len(ix.Shards))
		from := ix.Shards[shard][rng.IntN(len(ix.Shards[shard]))].Node
		to := c.nodes[rng.IntN(len(c.nodes))].id
		if c.Relocate(name, shard, from, to) == nil {
			return
		}
	}
}

// churnKept is how many of the indices that a storm creates are there at a time.
const churnKept = 10

func (c *Cluster) churn(number int) {
	name := func(i int) string { return fmt.Sprintf("churn-%d", i) }
	_ = c.CreateIndex(IndexSpec{Name: name(number), Replicas: 1}) // it may be there from the storm before
	if number >= churnKept {
		_ = c.DeleteIndex(name(number - churnKept))
	}
}
