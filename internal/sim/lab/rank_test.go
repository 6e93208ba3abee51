package lab

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The example that tells the right formula from the inverted one: with q̂ = 5 the
// slow node wins under the inverted formula.
func TestFormulas(t *testing.T) {
	require.Equal(t, 129.0, arsPublished(5, 1, 5))
	require.Equal(t, 6300.0, arsPublished(100, 50, 5))
	require.Equal(t, 129.0, arsInverted(5, 1, 5))
	require.InDelta(t, 102.48, arsInverted(100, 50, 5), 1e-9)
	require.Equal(t, 6250.0, arsQueue(100, 50, 5))
}

func newCoordinator() *coordinator {
	return &coordinator{
		node: &node{c: &clock{}}, seen: make([]seen, 3), outstanding: make([]int32, 3),
	}
}

func (c *coordinator) know(n int, response, service float64) {
	c.seen[n].response.observe(response)
	c.seen[n].queue.observe(0)
	c.seen[n].service = service
	c.seen[n].known = true
	c.known++
}

func TestAdaptiveSelection(t *testing.T) {
	c := newCoordinator()
	c.know(0, 100, 50)
	c.know(1, 10, 5)
	rank := adaptive(arsPublished, false)

	copies := []int{0, 1}
	rank(c, copies, nil)
	require.Equal(t, []int{1, 0}, copies)
	require.InDelta(t, 0.3*55+0.7*100, c.seen[0].response.value, 1e-9, "the loser moves toward the winner")
	require.InDelta(t, 0.3*27.5+0.7*50, c.seen[0].service, 1e-9)
	require.Equal(t, 10.0, c.seen[1].response.value)

	copies = []int{1, 2}
	rank(c, copies, nil)
	require.Equal(t, []int{2, 1}, copies, "without statistics: first")

	c.outstanding[1] = 3 // q̂ = 1 + 3·2 = 7
	copies = []int{1, 0}
	rank(c, copies, nil)
	require.Equal(t, []int{0, 1}, copies)

	adaptive(arsInverted, true)(c, []int{0, 1}, nil)
}

func TestPeakEWMA(t *testing.T) {
	require.Equal(t, 50.0, peakEWMA(10, 50, time.Second), "a peak counts at once")
	require.InDelta(t, 10+40*0.3679, peakEWMA(50, 10, peakDecay), 0.01)
}

func TestRotationStartsAtAnotherCopyEachTime(t *testing.T) {
	sc := base("x", "")
	w, err := newWorld(&sc, policies()[0], 1)
	require.NoError(t, err)
	c := w.coordinators[0]
	c.rotation[1] = 0
	require.Equal(t, []int{1, 2}, w.order(c, &search{}, 1, plan{}))
	require.Equal(t, []int{2, 1}, w.order(c, &search{}, 1, plan{}))
	require.Equal(t, []int{2}, w.order(c, &search{}, 1, plan{listed: []int{2, 4}}))
	require.Equal(t, []int{2, 1}, w.order(c, &search{}, 1, plan{listed: []int{2, 4}, prefer: true}))
	require.Len(t, w.order(c, &search{}, 1, plan{listed: []int{4}, prefer: true}), 2)
	require.Empty(t, w.order(c, &search{}, 1, plan{listed: []int{4}}))
}
