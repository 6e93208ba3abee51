package stats

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEWMAIgnoresWhatCannotBeASample(t *testing.T) {
	var e EWMA
	_, ok := e.Value()
	require.False(t, ok)
	e.Observe(-1)
	_, ok = e.Value()
	require.False(t, ok)
	e.Observe(0)
	v, ok := e.Value()
	require.True(t, ok, "an average of zero is still an average")
	require.InDelta(t, 0, v, 1e-12)
	e.Observe(10)
	v, _ = e.Value()
	require.InDelta(t, 3, v, 1e-9)
}

func TestSampleIsWhatMovedTheAverage(t *testing.T) {
	var e EWMA
	e.Observe(10)
	e.Observe(4)
	now, _ := e.Value()
	require.InDelta(t, 4, Sample(10, now), 1e-9)
}
