package proxy

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/selection"
)

// A burst that a reload or a stop cuts off tells nothing: what is answered by then may be the worst of it, or not.
func TestABurstThatIsCutOffTellsNothing(t *testing.T) {
	for name, first := range map[string]wire{
		"answered": answers(http.StatusOK, good),
		"failed":   answers(http.StatusTooManyRequests, `{"error":{},"status":429}`),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int32
				p := newProbing(t, func(r *http.Request) (*http.Response, error) {
					if sent.Add(1) == 1 {
						return first(r)
					}
					return silent(r)
				})
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(selection.ProbeTimeout/2, cancel)
				v := p.view.Load()
				require.Equal(t, probeUnfit, probeResult(p.probe(ctx, v, selection.Probe{Node: v.nodes[1], Burst: 3})))
			})
		})
	}
}
