package chaos

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/loadgen"
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

// A node whose connections to the others are slow costs the engine's own
// selection its 99th percentile, as long as every node coordinates searches. What
// sidestep exists for is that it does not.
func TestSlowTransport(t *testing.T) {
	ctx := t.Context()
	slow := shared.cluster.Nodes[2]
	engine := &contender{name: "engine, round robin", targets: shared.cluster.URLs()}
	sidestep := &contender{name: "sidestep", targets: []string{shared.sidestep.URL}}

	measure(ctx, t, 1, 5*time.Second, &contender{targets: engine.targets}, &contender{targets: sidestep.targets})
	require.NoError(t, slow.SlowTransport(300*time.Millisecond, 50*time.Millisecond))
	t.Cleanup(func() { require.NoError(t, slow.ResetToxics(context.Background())) })
	// sidestep comes first, so that it finds the slow node by its own searches and
	// not by what the engine's saw of it.
	measure(ctx, t, 4, 7*time.Second, sidestep, engine)

	table(t, engine, sidestep)
	require.Zero(t, sidestep.result.Failed, "failed searches")
	require.Zero(t, sidestep.result.Partial, "partial answers")
	ratio := float64(sidestep.result.Quantile(0.99)) / float64(engine.result.Quantile(0.99))
	t.Logf("p99 through sidestep is %.2f × the engine's", ratio)
	require.LessOrEqual(t, ratio, 0.3, "p99 through sidestep / p99 of the engine's own selection")
}
