package proxy

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"sidestep/internal/attempt"
	"sidestep/internal/bulk"
	"sidestep/internal/cluster"
	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// tallied returns what a counter has counted.
func tallied(c *prometheus.CounterVec, labels ...string) int {
	return int(testutil.ToFloat64(c.WithLabelValues(labels...)))
}

// TestEveryReasonIsDocumented keeps the closed sets of labels and docs/metrics.md
// together.
func TestEveryReasonIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	values := []string{reasonGone, reasonOff, reasonObserve, reasonStale, reasonTooLong, reasonTooLarge, reasonTooMany, reasonOperationOff, reasonForbidden}
	for _, r := range selection.Reasons() {
		values = append(values, string(r))
	}
	for _, r := range []es.PassReason{
		es.PassNotSteerable, es.PassClientPreference, es.PassRemoteTarget, es.PassPIT,
		es.PassUnreadableBody, es.PassAmbiguousQuery, es.PassTypedPath, es.PassIndicesOptions,
		es.PassUnreadableHeader, es.PassUnverifiable,
	} {
		values = append(values, string(r))
	}
	for _, m := range cluster.Misses() {
		values = append(values, string(m))
	}
	values = append(values, reasonOneShard, reasonOneSlot)
	for _, v := range values {
		require.Contains(t, string(page), "| `"+v+"` |")
	}
	_, plans, _ := strings.Cut(string(page), "\n**`plan`**")
	for _, r := range bulk.Reasons() {
		require.Contains(t, plans, "`"+string(r)+"`")
	}
	for _, c := range bulk.Choices() {
		require.Contains(t, plans, "`"+string(c)+"`")
	}
	for _, r := range routedResults() {
		require.Contains(t, string(page), "`"+string(r)+"`")
	}
	for _, op := range es.Operations() {
		require.Contains(t, string(page), "`"+string(op)+"`")
	}
	for _, c := range attempt.Causes() {
		require.Contains(t, string(page), "`"+string(c)+"`")
	}
	for _, o := range []outcome{outcomeOK, outcomePartial, outcomeClientError, outcomeEngineError, outcomeCanceled, outcomeCutOff, outcomeUnreachable} {
		require.Contains(t, string(page), "`"+string(o)+"`")
	}
}

// What probes take is told by the state of their node. What told nothing of it has
// no time, and a failure that came at once is not fast.
func TestTimeOfProbes(t *testing.T) {
	for name, c := range map[string]struct {
		wire  wire
		count uint64
		sum   float64 // s
	}{
		"answered":    {answers(http.StatusOK, good), 2, 2 * 0}, // no time passes in the bubble
		"silent":      {silent, 2, 2 * selection.ProbeTimeout.Seconds()},
		"rejected":    {answers(http.StatusTooManyRequests, `{}`), 0, 0},
		"not allowed": {answers(http.StatusForbidden, `{}`), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProbing(t, c.wire)
				from := &once{p: p.Proxy, n: 2}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); p.sendProbes(ctx, from) }()
				time.Sleep(2 * selection.ProbeTimeout)
				cancel()
				<-done
				require.Len(t, from.ended, 2)
				count, sum := p.timed(t, "unknown")
				require.Equal(t, c.count, count)
				require.InDelta(t, c.sum, sum, 1e-9)
			})
		})
	}
}

// timed returns how many probes of nodes in a state have a time, and its sum in
// seconds.
func (p *probing) timed(t *testing.T, state string) (count uint64, sum float64) {
	t.Helper()
	families, err := p.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "sidestep_probe_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == state {
				count, sum = m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
			}
		}
	}
	return count, sum
}
