package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
)

// timed says that it is also asserted how long things may take, as `make chaos` does. What
// is asserted without it must hold on a machine of any speed.
var timed = flag.Bool("timed", false, "also assert how long things may take")

const (
	// atMost is the searches a second that are sent at most: half of what two fast cores carry.
	// Fewer than atLeast tell too little.
	atMost, atLeast = 40, 10
	// patience is how long it may take for what must come about.
	patience = 30 * time.Second
)

// warm is how long the JVMs are driven before anything is done to them: cold code is ten
// times slower and would be all that is measured.
func warm() time.Duration { return within(45*time.Second, 20*time.Second) }

// within is the first where time counts, and else the second.
func within(limit, otherwise time.Duration) time.Duration {
	if *timed {
		return limit
	}
	return otherwise
}

// shared is the stage of all tests that need a real cluster. The first of them opens it.
var shared struct {
	Stage
	// rate is the searches a second of every load: half of what the cluster carries, so that
	// a machine that is slow for a while, or carries a browser as well, still does.
	rate float64
	once sync.Once
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := shared.Close(code != 0); err != nil {
		fmt.Println("FAIL: stop:", err)
		code = 1
	}
	os.Exit(code)
}

// onStage returns the shared stage.
func onStage(t *testing.T) *Stage {
	t.Helper()
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*harness.Patience)
		defer cancel()
		shared.Logf = harness.Sayf
		shared.err = shared.Start(ctx, StageOptions(
			os.Getenv("SIDESTEP_ENGINE"), os.Getenv("SIDESTEP_ENGINE_VERSION"), warm(), harness.Sayf))
		if shared.err == nil {
			shared.rate, shared.err = chooseRate(ctx)
		}
	})
	require.NoError(t, shared.err)
	return &shared.Stage
}

// chooseRate measures what the shared cluster carries with the CPU that containers have, at its best of
// some times: the machine may stand still for a while.
func chooseRate(ctx context.Context) (chosen float64, err error) {
	if err := shared.Cluster.Each(shared.confine); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, shared.Release()) }()
	carries := 0.0
	for range trials {
		result, err := loadgen.Run(ctx, loadgen.Options{
			Targets: shared.Cluster.URLs(), Connections: 2 * len(shared.Cluster.Nodes), Duration: 5 * time.Second,
			Request: func(i int) *http.Request { return harness.Search(Index, i) },
		})
		if err != nil {
			return 0, fmt.Errorf("measure what the cluster carries: %w", err)
		}
		if result.Failed > 0 {
			return 0, fmt.Errorf("measure what the cluster carries: %d searches failed: %v", result.Failed, result.FirstErrors)
		}
		if carries = max(carries, result.Throughput()); carries >= 2*atMost {
			break
		}
	}
	chosen = min(atMost, carries/2)
	shared.Logf("the cluster carries %.0f searches/s: %.0f are sent", carries, chosen)
	if chosen < atLeast {
		return 0, fmt.Errorf("the cluster carries %.0f searches/s, these tests need %d: is the machine busy with something else?", carries, 2*atLeast)
	}
	return chosen, nil
}

// load is an open loop of searches at the rate on targets in turn. first is the
// number of the first search.
func load(targets []string, duration time.Duration, first int) loadgen.Options {
	return loadgen.Options{
		Targets: targets, Rate: shared.rate, Duration: duration,
		Request: func(i int) *http.Request { return harness.Search(Index, first+i) },
	}
}
