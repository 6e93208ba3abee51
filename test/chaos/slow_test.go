package chaos

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	loadgen "sidestep/internal/sim/load"
)

// contender is one way to send the searches.
type contender struct {
	name    string
	targets []string
	result  loadgen.Result
}

// table prints the results of contenders.
func table(t *testing.T, contenders ...*contender) {
	t.Helper()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tsearches\tp50\tp90\tp99\tmax\tfailed\tpartial\t")
	for _, c := range contenders {
		r := &c.result
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%d\t%d\t\n", c.name, r.Sent,
			ms(r.Quantile(0.5)), ms(r.Quantile(0.9)), ms(r.Quantile(0.99)), ms(r.Quantile(1)), r.Failed, r.Partial)
	}
	require.NoError(t, w.Flush())
	t.Logf("%s, %d nodes, %d searches/s:\n%s", shared.cluster.Distribution, len(shared.cluster.Nodes), rate, text.String())
	for _, c := range contenders {
		if len(c.result.FirstErrors) > 0 {
			t.Logf("first errors of %s: %s", c.name, strings.Join(c.result.FirstErrors, "\n  "))
		}
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }

// measure lets the contenders take turns, so that noise of the machine hits all
// alike.
func measure(ctx context.Context, t *testing.T, rounds int, slice time.Duration, contenders ...*contender) {
	t.Helper()
	sent := 0
	for range rounds {
		for _, c := range contenders {
			result, err := loadgen.Run(ctx, load(c.targets, slice, sent))
			require.NoError(t, err)
			sent += int(result.Sent)
			c.result.Merge(result)
		}
	}
}

// trials is how often a test about times is tried at most. Ten slow searches decide
// a 99th percentile, and a machine that stands still for a second makes eighty; that
// does not come three times in a row, a defect does.
const trials = 3

// settle is how long sidestep is given to find the slow node out before its
// percentiles are measured: how long that takes is another test's matter.
const settle = 2 * time.Second

// A node whose connections to the others are slow costs the engine's own
// selection its 99th percentile, as long as every node coordinates searches. What
// sidestep exists for is that it does not.
func TestSlowTransport(t *testing.T) {
	ctx := t.Context()
	slow := shared.cluster.Nodes[2]
	targets := []string{shared.sidestep.URL}
	measure(ctx, t, 1, 5*time.Second, &contender{targets: shared.cluster.URLs()}, &contender{targets: targets})
	require.NoError(t, slow.SlowTransport(300*time.Millisecond, 50*time.Millisecond))
	t.Cleanup(func() { require.NoError(t, slow.ResetToxics(context.Background())) })
	// By its own searches, and not by what the engine's saw of it.
	measure(ctx, t, 1, settle, &contender{targets: targets})

	const limit = 0.3
	ratio := 0.0
	for trial := range trials {
		engine := &contender{name: "engine, round robin", targets: shared.cluster.URLs()}
		sidestep := &contender{name: "sidestep", targets: targets}
		measure(ctx, t, 3, 7*time.Second, sidestep, engine)
		table(t, engine, sidestep)
		require.Zero(t, sidestep.result.Failed, "failed searches")
		require.Zero(t, sidestep.result.Partial, "partial answers")
		ratio = float64(sidestep.result.Quantile(0.99)) / float64(engine.result.Quantile(0.99))
		t.Logf("trial %d of %d: p99 through sidestep is %.2f × the engine's", trial+1, trials, ratio)
		if ratio <= limit {
			return
		}
	}
	require.LessOrEqual(t, ratio, limit, "p99 through sidestep / p99 of the engine's own selection")
}
