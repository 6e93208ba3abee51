package diagnosis

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLabelsOfSpikesAreDocumented keeps the closed sets of labels and docs/metrics.md together.
func TestLabelsOfSpikesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	values := []string{noCause, captureOK, captureFailed, captureRefused, captureDropped}
	for _, c := range Causes() {
		values = append(values, string(c))
	}
	for _, v := range values {
		require.Contains(t, string(page), "`"+v+"`")
	}
}
