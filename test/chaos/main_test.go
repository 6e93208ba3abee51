// Package chaos holds what sidestep promises under degradation to real clusters:
// nodes behind slow connections, nodes that die. Every node-to-node and client
// connection passes through toxiproxy.
package chaos

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/causes"
	"sidestep/test/harness"
)

const (
	index = causes.Index
	// warm is how long the JVMs are driven before anything is measured: cold code
	// is ten times slower and would be all that is seen.
	warm = 45 * time.Second
	// rate is that of the searches, a second: half of what two cores carry, so that a
	// machine that is slow for a while, or carries a browser as well, still does.
	rate = 40
)

// stage is the cluster all tests share, and sidestep in front of it.
type stage struct {
	cluster  *harness.Cluster
	sidestep *harness.Front
	binary   string
}

var shared stage // TestMain can hand nothing to tests otherwise

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 9*time.Minute)
	defer cancel()
	logf := func(format string, args ...any) {
		fmt.Printf("%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
	}
	if err := shared.open(ctx, logf); err != nil {
		fmt.Println("FAIL:", err)
		harness.Close(shared.sidestep, shared.cluster, true)
		return 1
	}
	defer func() { harness.Close(shared.sidestep, shared.cluster, code != 0) }()
	return m.Run()
}

func (s *stage) open(ctx context.Context, logf func(string, ...any)) error {
	var err error
	if s.binary, err = harness.Build(ctx); err != nil {
		return err
	}
	s.cluster, err = harness.StartCluster(ctx, harness.ClusterOptions{
		Distribution: os.Getenv("SIDESTEP_ENGINE"), Version: os.Getenv("SIDESTEP_ENGINE_VERSION"),
		Nodes: 5, Proxied: true, Settings: causes.Settings(), Logf: logf,
	})
	if err != nil {
		return err
	}
	err = s.cluster.CreateIndex(ctx, harness.Index{Name: index, Shards: 5, Replicas: 1, Docs: 20_000, Seed: 1})
	if err != nil {
		return err
	}
	logf("warming up for %s", warm)
	if err := s.cluster.Warm(ctx, index, warm); err != nil {
		return err
	}
	if s.sidestep, err = harness.StartFront(ctx, s.binary, s.cluster.URLs()); err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return s.sidestep.AwaitReady(ready)
}

// load is an open loop of searches at the rate on targets in turn. first is the
// number of the first search.
func load(targets []string, duration time.Duration, first int) loadgen.Options {
	return loadgen.Options{
		Targets: targets, Rate: rate, Duration: duration,
		Request: func(i int) *http.Request { return harness.Search(index, first+i) },
	}
}
