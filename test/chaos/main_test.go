package chaos

import (
	"context"
	"flag"
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
	// rate is that of the searches, a second: half of what two cores carry, so that a
	// machine that is slow for a while, or carries a browser as well, still does.
	rate = 40
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
	once sync.Once
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	shared.Close(code != 0)
	os.Exit(code)
}

// onStage returns the shared stage.
func onStage(t *testing.T) *Stage {
	t.Helper()
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 9*time.Minute)
		defer cancel()
		shared.Logf = harness.Sayf
		shared.err = shared.Start(ctx, StageOptions(
			os.Getenv("SIDESTEP_ENGINE"), os.Getenv("SIDESTEP_ENGINE_VERSION"), warm(), harness.Sayf))
	})
	require.NoError(t, shared.err)
	return &shared.Stage
}

// load is an open loop of searches at the rate on targets in turn. first is the
// number of the first search.
func load(targets []string, duration time.Duration, first int) loadgen.Options {
	return loadgen.Options{
		Targets: targets, Rate: rate, Duration: duration,
		Request: func(i int) *http.Request { return harness.Search(Index, first+i) },
	}
}
