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
	"os"
	"os/signal"
	"path/filepath"
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
	engine, version, sidestep string
	kills                     int
	seed                      uint64
}

func main() {
	var o options
	flag.StringVar(&o.engine, "engine", harness.OpenSearch, "`distribution`: opensearch or elasticsearch")
	flag.StringVar(&o.version, "version", "", "its `version`; empty: the one that tests use")
	flag.StringVar(&o.sidestep, "sidestep", "bin/sidestep", "sidestep `binary`")
	flag.IntVar(&o.kills, "kills", 50, "how often connections or a node are killed")
	flag.Uint64Var(&o.seed, "seed", 1, "of when and what is killed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bulkkill:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	cluster, err := harness.StartCluster(ctx, harness.ClusterOptions{
		Distribution: o.engine, Version: o.version, Nodes: nodes, Proxied: true,
		Logf: func(format string, args ...any) { fmt.Printf(format+"\n", args...) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if err := cluster.Do(ctx, "PUT", "/"+index, []byte(settings), nil); err != nil {
		return err
	}
	if err := cluster.WaitGreen(ctx, index); err != nil {
		return err
	}
	sidestep, err := startSidestep(ctx, o, cluster)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sidestep.Stop()) }()

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

// startSidestep starts sidestep with bulks that are repeated, and waits until they are.
func startSidestep(ctx context.Context, o options, cluster *harness.Cluster) (*harness.Front, error) {
	dir, err := os.MkdirTemp("", "bulkkill-")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "sidestep.yaml")
	if err := os.WriteFile(config, []byte("bulk: {idempotent: true, single_shard: [{index: "+index+"}]}\n"), 0o600); err != nil {
		return nil, err
	}
	f, err := harness.StartFront(ctx, o.sidestep, cluster.URLs(), "--config", config)
	if err != nil {
		return nil, err
	}
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return f, errors.Join(f.AwaitReady(ready), awaitPlanned(ready, f.URL))
}

// kill breaks what bulks are under way, again and again: every tenth time a node, which
// is started again; else the connections of one node, or of all.
func kill(ctx context.Context, cluster *harness.Cluster, w *writing, o options) error {
	random := rand.New(rand.NewPCG(o.seed, 2)) //nolint:gosec // a reproducible draw
	for i := range o.kills {
		if err := w.await(ctx, 20); err != nil { // bulks since the last
			return fmt.Errorf("before kill %d: %w", i+1, err)
		}
		pause(ctx, time.Duration(random.IntN(300))*time.Millisecond)
		node := cluster.Nodes[random.IntN(len(cluster.Nodes))]
		var err error
		switch {
		case i%10 == 9:
			fmt.Printf("kill %d: %s is killed; %s\n", i+1, node.Name, w)
			if err = node.Kill(); err == nil {
				pause(ctx, time.Second)
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

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
