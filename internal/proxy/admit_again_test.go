package proxy

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/admission"
)

// startPair starts two nodes that have all copies of an index, with a limit of so many shard queries each.
func startPair(t *testing.T, limit float64) *gatedNodes {
	t.Helper()
	c := &gatedNodes{let: make(chan struct{})}
	c.harness = start(t, 2, func(o *Options) {
		o.Admission.Mode, o.Admission.Min, o.Admission.Max = admission.Auto, limit, limit
	})
	c.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
		select {
		case <-c.let:
		case <-r.Context().Done():
		}
		respond(http.StatusOK, complete)("", w, r)
	}
	c.polled(2)
	return c
}

// A search that finds its node full waits for it, and is not sent to one that is left out: an operator drains it, it is
// slow, or it is in slow start.
func TestAFullNodeIsWaitedForBesideOneThatIsLeftOut(t *testing.T) {
	c := startPair(t, 2)
	require.NoError(t, c.proxy.Drain("b", time.Hour))
	first := c.send(t.Context(), http.MethodGet, "/idx/_search", "")
	require.Eventually(t, func() bool { return c.inFlight() == 2 }, admitPatience, time.Millisecond)
	second := c.send(t.Context(), http.MethodGet, "/idx/_search", "")
	c.await(1)
	c.let <- struct{}{}
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	require.Equal(t, http.StatusOK, (<-second).status)
	for _, one := range c.seen() {
		require.Contains(t, one.uri, "_only_nodes:id-a")
	}
}

