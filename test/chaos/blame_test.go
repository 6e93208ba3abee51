package chaos

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	loadgen "sidestep/internal/sim/load"
)

// blaming are the states that say that something is wrong with a node now.
var blaming = []string{"slow", "failing", "unresponsive", "unreachable"}

// suspected returns what sidestep says of the nodes that it blames for something, as
// "node-3 slow", in order.
func suspected(ctx context.Context, t *testing.T) []string {
	t.Helper()
	var nodes []struct{ Name, State string }
	require.NoError(t, shared.sidestep.AdminJSON(ctx, "/nodes", &nodes))
	require.Len(t, nodes, len(shared.cluster.Nodes))
	var out []string
	for _, n := range nodes {
		if slices.Contains(blaming, n.State) {
			out = append(out, n.Name+" "+n.State)
		}
	}
	slices.Sort(out)
	return out
}

// sighting is whom sidestep blamed from some time on.
type sighting struct {
	after     time.Duration // since the fault
	suspected []string
}

// observe looks every 50 ms for so long, and returns each change.
func observe(ctx context.Context, t *testing.T, zero time.Time, long time.Duration) []sighting {
	t.Helper()
	var seen []sighting
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		now := suspected(ctx, t)
		if len(seen) == 0 || !slices.Equal(seen[len(seen)-1].suspected, now) {
			seen = append(seen, sighting{time.Since(zero), now})
		}
	}
	return seen
}

func tell(seen []sighting) string {
	var lines []string
	for _, s := range seen {
		lines = append(lines, fmt.Sprintf("%6.2f s: [%s]", s.after.Seconds(), strings.Join(s.suspected, ", ")))
	}
	return strings.Join(lines, "\n")
}

// awaitRecovery waits until nobody is blamed, as is right while nothing is wrong.
func awaitRecovery(ctx context.Context, t *testing.T, limit time.Duration) {
	t.Helper()
	began := time.Now()
	for len(suspected(ctx, t)) > 0 {
		require.Less(t, time.Since(began), limit, "nothing is wrong, but %v", suspected(ctx, t))
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("nobody is blamed after %.1f s", time.Since(began).Seconds())
}

// verdict says what is wrong with whom sidestep blamed after a fault of faulty, ""
// if nothing is: faulty must be among them within a second, and nobody else ever.
func verdict(seen []sighting, faulty string) string {
	found := slices.IndexFunc(seen, func(s sighting) bool { return slices.Contains(s.suspected, faulty) })
	switch {
	case found < 0:
		return "the slow node was never blamed"
	case seen[found].after > time.Second:
		return fmt.Sprintf("the slow node was blamed after %.2f s only", seen[found].after.Seconds())
	}
	for _, s := range seen {
		for _, name := range s.suspected {
			if name != faulty {
				return fmt.Sprintf("%s was blamed after %.2f s", name, s.after.Seconds())
			}
		}
	}
	return ""
}

// The node whose connections are slow is the one that is blamed, within a second,
// though each search it slows was served by others as well; and nobody else is.
func TestSlowNodeAloneIsBlamed(t *testing.T) {
	ctx := t.Context()
	slow := shared.cluster.Nodes[2]
	loadCtx, stop := context.WithCancel(ctx)
	done := make(chan *loadgen.Result, 1)
	go func() {
		result, _ := loadgen.Run(loadCtx, load([]string{shared.sidestep.URL}, 5*time.Minute, 0)) // its end is the context's
		done <- result
	}()
	defer stop()
	t.Cleanup(func() { require.NoError(t, slow.ResetToxics(context.Background())) })

	time.Sleep(5 * time.Second)
	wrong := ""
	for trial := range trials {
		awaitRecovery(ctx, t, 30*time.Second)
		began := time.Now()
		require.NoError(t, slow.SlowTransport(300*time.Millisecond, 50*time.Millisecond))
		seen := observe(ctx, t, began, 6*time.Second)
		wrong = verdict(seen, slow.Name+" slow")
		t.Logf("trial %d of %d: blamed after the fault on %s (%s):\n%s", trial+1, trials, slow.Name, cmp.Or(wrong, "right"), tell(seen))
		require.NoError(t, slow.ResetToxics(ctx))
		if wrong == "" {
			break
		}
	}
	require.Empty(t, wrong, "in each of %d trials something was", trials)

	awaitRecovery(ctx, t, 20*time.Second)
	stop()
	result := <-done
	require.Zero(t, result.Failed, "failed searches")
	require.Zero(t, result.Partial, "partial answers")
}
