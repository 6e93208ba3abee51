package chaos

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	loadgen "sidestep/internal/sim/load"
)

const (
	// named is within which every surface is to name the node and the cause.
	named = 5 * time.Second
	// tries is how often a fault is tried at most: five seconds are few for a machine that
	// carries five nodes, a browser and a Prometheus, and stands still at times.
	tries = 5
)

// calm is how long a cluster that nothing is done to is watched; `make calm` does it for five
// minutes.
func calm() time.Duration { return within(30*time.Second, 12*time.Second) }

// openCauses makes the shared cluster one of containers, and opens every surface.
func openCauses(t *testing.T) (*Stage, []Surface) {
	t.Helper()
	ctx := t.Context()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	stage := onStage(t)
	t.Cleanup(func() { require.NoError(t, stage.Release()) })
	require.NoError(t, stage.Confine(ctx))
	desk, err := OpenDesk(ctx, stage, root)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, desk.Close()) })
	return stage, desk.Surfaces
}

// Whatever is done to a node, everything that an operator looks at names that node alone and
// what it suffers from, where time counts within five seconds; and when nothing is done,
// nothing. It must be so in one of some tries.
func TestCauses(t *testing.T) {
	stage, surfaces := openCauses(t)
	limit := within(named, patience)
	t.Run("none", func(t *testing.T) {
		var made []Claim
		for trial := range trials {
			var result *loadgen.Result
			var err error
			made, result, err = stage.Calm(t.Context(), shared.rate, calm())
			require.NoError(t, err)
			require.Zero(t, result.Failed, "failed searches")
			t.Logf("trial %d of %d: %d searches, p99 %s, records: %v", trial+1, trials, result.Sent, ms(result.Quantile(0.99)), made)
			if len(made) == 0 {
				return
			}
		}
		require.Empty(t, made, "nothing was wrong, in none of the trials")
	})
	for _, fault := range Faults() {
		t.Run(fault.Name, func(t *testing.T) {
			var wrong []string
			for trial := range tries {
				result, err := stage.Try(t.Context(), fault, Plan{Surfaces: surfaces, Limit: limit, Wait: max(2*named, limit), Rate: shared.rate})
				require.NoError(t, err)
				t.Logf("trial %d of %d: %s, %s:\n%s", trial+1, tries, result.Node, fault.Title, result)
				require.Zero(t, result.Sidestep.Failed, "failed searches")
				require.Zero(t, result.Sidestep.Partial, "partial answers")
				if wrong = result.Wrong(); len(wrong) == 0 {
					for _, f := range result.Findings {
						require.NotEmpty(t, f.Text, f.Surface)
					}
					return
				}
			}
			require.Fail(t, "in each trial something was wrong", "in the last:\n%s", strings.Join(wrong, "\n"))
		})
	}
}
