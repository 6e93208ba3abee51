package bootstrap

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedianAndQuantile(t *testing.T) {
	require.Zero(t, Median(nil))
	require.Equal(t, 3.0, Median([]float64{9, 1, 3}))
	require.Equal(t, 2.0, Median([]float64{3, 9, 1, 1}))
	require.Zero(t, Quantile(nil, 0.5))
	require.Equal(t, 1.0, Quantile([]float64{1, 2, 3, 4}, 0))
	require.Equal(t, 2.0, Quantile([]float64{1, 2, 3, 4}, 0.5))
	require.Equal(t, 3.0, Quantile([]float64{1, 2, 3, 4}, 0.75), "a share of 0.75 does not exceed it")
	require.Equal(t, 4.0, Quantile([]float64{1, 2, 3, 4}, 1))
}

func TestRatio(t *testing.T) {
	require.Zero(t, Ratio(nil, nil))
	require.Zero(t, Ratio([]float64{1}, []float64{0}), "nothing to compare with")
	require.Equal(t, Estimate{2, 2, 2}, Ratio([]float64{4}, []float64{2}))

	// The machine is slow in some rounds, for both: the ratio is sharp all the same.
	require.Equal(t, Estimate{2, 2, 2}, Ratio([]float64{200, 100, 200, 40, 200}, []float64{100, 50, 100, 20, 100}))

	e := Ratio([]float64{150, 210, 190, 260, 200}, []float64{100, 110, 90, 105, 100})
	require.Equal(t, 2.0, e.Value)
	require.Less(t, e.Low, 2.0)
	require.Greater(t, e.High, 2.0)
	require.Equal(t, e, Ratio([]float64{150, 210, 190, 260, 200}, []float64{100, 110, 90, 105, 100}), "the same again")

	// Rounds with nothing count, but not those with nothing to compare with.
	e = Ratio([]float64{0, 0, 50, 70, 80}, []float64{100, 100, 100, 100, 100})
	require.Equal(t, 0.5, e.Value)
	require.Zero(t, e.Low)
	require.Equal(t, 0.8, e.High)
	require.Equal(t, Estimate{1, 1, 1}, Ratio([]float64{0, 1, 1}, []float64{0, 1, 1}))
	require.Equal(t, "2.00 [2.00, 2.00]", Estimate{2, 2, 2}.String())
	require.Empty(t, Estimate{}.String())
}

func TestQuantileRatio(t *testing.T) {
	require.Zero(t, QuantileRatio(nil, nil, 0.99))
	require.Zero(t, QuantileRatio([][]float64{{1}}, [][]float64{{}}, 0.99), "nothing to compare with")
	require.Equal(t, Estimate{2, 2, 2}, QuantileRatio([][]float64{{4, 2, 6}, {2, 6, 4}}, [][]float64{{1, 2, 3}, {3, 1, 2}}, 0.99))

	// One round in six is slow, in one arm: the medians of rounds do not tell, all values do.
	calm, slow := []float64{1, 1, 1}, []float64{1, 1, 9}
	mine := [][]float64{calm, calm, slow, calm, calm, calm}
	theirs := [][]float64{calm, calm, calm, calm, calm, calm}
	e := QuantileRatio(mine, theirs, 0.99)
	require.Equal(t, 9.0, e.Value)
	require.Equal(t, 1.0, e.Low, "it may not have been drawn")
	require.Equal(t, 9.0, e.High)
}
