package proxy

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/es"
	"sidestep/internal/selection"
)

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
	for _, m := range []cluster.Miss{
		cluster.MissUnknownTarget, cluster.MissShardUnavailable, cluster.MissNoPlacement,
		cluster.MissUnsupported, cluster.MissEmptyTarget,
		cluster.MissNotOneIndex, cluster.MissRoutedByFields, cluster.MissSegmentReplication,
	} {
		values = append(values, string(m))
	}
	for _, v := range values {
		require.Contains(t, string(page), "| `"+v+"` |")
	}
	for _, op := range es.Operations() {
		require.Contains(t, string(page), "`"+string(op)+"`")
	}
	for _, c := range causes {
		require.Contains(t, string(page), "`"+c+"`")
	}
	for _, o := range []outcome{outcomeOK, outcomePartial, outcomeClientError, outcomeEngineError, outcomeCanceled, outcomeUnreachable} {
		require.Contains(t, string(page), "`"+string(o)+"`")
	}
}
