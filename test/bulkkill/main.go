// Command bulkkill writes bulks through sidestep, with bulk.idempotent, to a real cluster
// whose connections and nodes are killed while they are under way, by clients that send
// a bulk again until it is acknowledged. At the end every acknowledged document is there
// exactly once, or the command fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"sidestep/test/harness"
)

const (
	index    = "bulkkill"
	writers  = 6
	nodes    = 3
	settings = `{"settings":{"number_of_shards":6,"number_of_replicas":1},"mappings":{"properties":{"n":{"type":"long"}}}}`
)

type options struct {
	harness.Measured
	kills int
	seed  uint64
}

func main() {
	harness.Main("bulkkill", func(arguments []string) (harness.Run, error) {
		var o options
		set := flag.NewFlagSet("bulkkill", flag.ContinueOnError)
		o.Flags(set)
		set.StringVar(&o.Sidestep, "sidestep", "bin/sidestep", "sidestep `binary`")
		set.IntVar(&o.kills, "kills", 50, "how often connections or a node are killed")
		set.Uint64Var(&o.seed, "seed", 1, "of when and what is killed")
		return func(ctx context.Context) error { return run(ctx, o) }, o.Parse(set, arguments)
	})
}

func run(ctx context.Context, o options) (err error) {
	var s harness.Stage
	defer func() { err = errors.Join(err, s.Close(err != nil && ctx.Err() == nil)) }()
	err = s.Open(ctx, harness.StageOptions{
		Binary: o.Sidestep,
		Cluster: harness.ClusterOptions{
			Distribution: o.Engine, Version: o.Version, Nodes: nodes, Proxied: true, Logf: harness.Sayf,
		},
		Fill: func(ctx context.Context, c *harness.Cluster) error {
			if err := c.Do(ctx, "PUT", "/"+index, []byte(settings), nil); err != nil {
				return err
			}
			return c.WaitGreen(ctx, index)
		},
		Sidesteps: []harness.Sidestep{{Name: "sidestep", Config: "bulk: {idempotent: true, single_shard: [{index: " + index + "}]}\n"}},
	})
	if err != nil {
		return err
	}
	cluster, sidestep := s.Cluster, s.Front("sidestep")
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := awaitPlanned(ready, sidestep.URL); err != nil {
		return err
	}
	w := newWriting(sidestep.URL, o.seed)
	writing, enough := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() { w.write(ctx, writing, i) })
	}
	killed := kill(ctx, cluster, w, o)
	enough()
	all.Wait()
	if killed != nil {
		return killed
	}
	fmt.Println(w)
	metrics, err := bulkMetrics(ctx, sidestep)
	if err != nil {
		return err
	}
	fmt.Print(metrics)
	return verify(ctx, cluster, w)
}

// kill breaks what bulks are under way, again and again: every tenth time a node, which
// is started again; else the connections of one node, or of all.
func kill(ctx context.Context, cluster *harness.Cluster, w *writing, o options) error {
	random := rand.New(rand.NewPCG(o.seed, 2)) //nolint:gosec // a reproducible draw
	for i := range o.kills {
		if err := w.await(ctx, 20); err != nil { // bulks since the last
			return fmt.Errorf("before kill %d: %w", i+1, err)
		}
		_ = harness.Pause(ctx, time.Duration(random.IntN(300))*time.Millisecond)
		node := cluster.Nodes[random.IntN(len(cluster.Nodes))]
		var err error
		switch {
		case i%10 == 9:
			fmt.Printf("kill %d: %s is killed; %s\n", i+1, node.Name, w)
			if err = node.Kill(); err == nil {
				_ = harness.Pause(ctx, time.Second)
				err = node.Restart(ctx)
			}
		case i%3 == 2:
			for _, n := range cluster.Nodes {
				err = errors.Join(err, n.DropHTTP())
			}
		default:
			err = node.DropHTTP()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
