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

	"sidestep/test/harness"
)

// suspected returns what sidestep says of the nodes that it blames for something, as
// "node-3 slow", in order.
func (s *Stage) suspected(ctx context.Context, t *testing.T) []string {
	t.Helper()
	var nodes []struct{ Name, State string }
	require.NoError(t, s.Sidestep.AdminJSON(ctx, "/nodes", &nodes))
	require.Len(t, nodes, len(s.Cluster.Nodes))
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

// observe looks every 50 ms until it has seen enough, and returns each change.
func (s *Stage) observe(ctx context.Context, t *testing.T, zero time.Time, enough func([]sighting) bool) []sighting {
	t.Helper()
	var seen []sighting
	for ; !enough(seen); time.Sleep(50 * time.Millisecond) {
		now := s.suspected(ctx, t)
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
func (s *Stage) awaitRecovery(ctx context.Context, t *testing.T) {
	t.Helper()
	began := time.Now()
	for len(s.suspected(ctx, t)) > 0 {
		require.Less(t, time.Since(began), patience, "nothing is wrong, but %v", s.suspected(ctx, t))
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("nobody is blamed after %.1f s", time.Since(began).Seconds())
}

// blamed returns the first sighting of faulty, nil if there is none.
func blamed(seen []sighting, faulty string) *sighting {
	for i, s := range seen {
		if slices.Contains(s.suspected, faulty) {
			return &seen[i]
		}
	}
	return nil
}

// verdict says what is wrong with whom sidestep blamed after a fault of faulty, ""
// if nothing is: faulty must be among them within the limit, and nobody else ever.
func verdict(seen []sighting, faulty string, limit time.Duration) string {
	found := blamed(seen, faulty)
	switch {
	case found == nil:
		return "the slow node was never blamed"
	case found.after > limit:
		return fmt.Sprintf("the slow node was blamed after %.2f s only", found.after.Seconds())
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

// requireAloneBlamed makes the connections of a node slow. It is the one that is blamed, though each search it slows
// was served by others as well, and nobody else is: in one of some trials, after which it stays
// slow. Where time counts it takes a second.
func (s *Stage) requireAloneBlamed(ctx context.Context, t *testing.T, slow *harness.Node) {
	t.Helper()
	faulty, wrong := slow.Name+" slow", ""
	for trial := range trials {
		s.awaitRecovery(ctx, t)
		began := time.Now()
		require.NoError(t, slow.SlowTransport(latency, jitter))
		seen := s.observe(ctx, t, began, func(seen []sighting) bool {
			// Where time does not count, it is watched for a while when it has been blamed.
			if found := blamed(seen, faulty); found != nil && !*timed {
				return time.Since(began) > found.after+3*time.Second
			}
			return time.Since(began) > within(6*time.Second, patience)
		})
		wrong = verdict(seen, faulty, within(time.Second, patience))
		t.Logf("trial %d of %d: blamed after the fault on %s (%s):\n%s", trial+1, trials, slow.Name, cmp.Or(wrong, "right"), tell(seen))
		if wrong == "" {
			return
		}
		require.NoError(t, slow.ResetToxics(ctx))
	}
	require.Fail(t, "in each trial something was wrong", "in the last: %s", wrong)
}
