// Command demo shows sidestep on a real cluster of five nodes, one of which is
// slow: `make demo ENGINE=opensearch`.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"sidestep/internal/sim/demo"
	"sidestep/test/harness"
)

const (
	index     = "products"
	slowNode  = 2 // node-3
	latency   = 300 * time.Millisecond
	jitter    = 50 * time.Millisecond
	warmNodes = 20 * time.Second
)

func main() {
	harness.Main("demo", func(arguments []string) (harness.Run, error) {
		var m harness.Measured
		set := flag.NewFlagSet("demo", flag.ContinueOnError)
		m.Flags(set)
		rate := set.Float64("rate", 60, "searches per second")
		duration := set.Duration("duration", 16*time.Second, "how long each of the three cases is under load")
		return func(ctx context.Context) error { return run(ctx, m, *rate, *duration) }, m.Parse(set, arguments)
	})
}

func run(ctx context.Context, m harness.Measured, rate float64, duration time.Duration) error {
	cluster, err := startCluster(ctx, harness.ClusterOptions{
		Distribution: m.Engine, Version: m.Version, Nodes: 5, Proxied: true,
		Logf: func(format string, args ...any) { fmt.Printf(format+"\n", args...) },
	})
	if err != nil {
		return err
	}
	return demo.Run(ctx, demo.Options{ // closes the cluster
		Out: os.Stdout, Cluster: cluster, Rate: rate, Duration: duration,
		WarmUp: 15 * time.Second, Version: "demo",
		Request: func(i int) *http.Request { return harness.Search(index, i) },
	})
}

// cluster is a real cluster as the demo needs it.
type cluster struct{ *harness.Cluster }

func startCluster(ctx context.Context, options harness.ClusterOptions) (_ *cluster, err error) {
	started, err := harness.StartCluster(ctx, options)
	if err != nil {
		return nil, err
	}
	c := &cluster{started}
	defer func() {
		if err != nil {
			_ = c.Close() // the first error is the one to tell
		}
	}()
	fmt.Println("Indexing 20,000 documents: 5 shards with a replica each.")
	if err := c.CreateIndex(ctx, harness.Index{Name: index, Shards: 5, Replicas: 1, Docs: 20_000, Seed: 1}); err != nil {
		return nil, err
	}
	fmt.Printf("Warming the nodes up: %s.\n", warmNodes)
	if err := c.Warm(ctx, index, warmNodes); err != nil {
		return nil, err
	}
	fmt.Printf("Slowing the connections of %s to the other nodes: %s ± %s.\n", c.slow().Name, latency, jitter)
	if err := c.slow().SlowTransport(latency, jitter); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *cluster) slow() *harness.Node { return c.Nodes[slowNode] }

// SlowNode implements demo.Cluster.
func (c *cluster) SlowNode() (id, name string) { return c.slow().ID, c.slow().Name }

// SetAdaptive implements demo.Cluster.
func (c *cluster) SetAdaptive(ctx context.Context, on bool) error {
	return c.Do(ctx, http.MethodPut, "/_cluster/settings", map[string]any{
		"transient": map[string]any{"cluster.routing.use_adaptive_replica_selection": on},
	}, nil)
}

// Close implements demo.Cluster.
func (c *cluster) Close() error { return c.Stop() }
