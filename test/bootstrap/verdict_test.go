package bootstrap

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoWorseIsATwentiethOrWithinTheControl(t *testing.T) {
	sharp := Estimate{Value: 1, Low: 0.98, High: 1.02}
	wide := Estimate{Value: 1, Low: 0.7, High: 1.3}
	for _, tc := range []struct {
		e, control Estimate
		higher     bool // no higher
		lower      bool // no lower
	}{
		{Estimate{Value: 1.05, Low: 1, High: 1.2}, sharp, true, true},
		{Estimate{Value: 1.06, Low: 1, High: 1.2}, sharp, false, true},
		{Estimate{Value: 1.06, Low: 1, High: 1.2}, wide, true, true},
		{Estimate{Value: 1.31, Low: 1, High: 1.2}, wide, false, true},
		{Estimate{Value: 0.96, Low: 0.9, High: 1}, sharp, true, true},
		{Estimate{Value: 0.9, Low: 0.8, High: 1}, sharp, true, false},
		{Estimate{Value: 0.9, Low: 0.8, High: 1}, wide, true, true},
		{Estimate{Value: 1.05, Low: 1, High: 1.2}, Estimate{}, true, true}, // no control
		{Estimate{}, wide, false, false},                                   // not measured
		{Estimate{}, Estimate{}, false, false},
		{Estimate{Value: 0.5, Low: 0, High: 1}, Estimate{Value: 1, Low: 0, High: 1}, true, false}, // a control that now and then did nothing
	} {
		require.Equal(t, tc.higher, NoHigher("p99", tc.e, tc.control).Holds, "%v, control %v", tc.e, tc.control)
		require.Equal(t, tc.lower, NoLower("searches/s", tc.e, tc.control).Holds, "%v, control %v", tc.e, tc.control)
	}
	require.Equal(t, "missed: p99 , at most 1.05", NoHigher("p99", Estimate{}, Estimate{}).String())
	require.Equal(t, "held: p99 1.00 [0.98, 1.02], at most 1.05 or within the control's 1.00 [0.70, 1.30]", NoHigher("p99", sharp, wide).String())
}

func TestTheMiddleHoldsAndTheIntervalIsTold(t *testing.T) {
	require.Equal(t, "held: x 2.00 [1.40, 3.00], at least 1.5; the interval is on both sides", AtLeast("x", Estimate{2, 1.4, 3}, 1.5).String())
	require.Equal(t, "missed: x 1.40 [1.30, 1.45], at least 1.5", AtLeast("x", Estimate{1.4, 1.3, 1.45}, 1.5).String())
	require.Equal(t, "held: x 0.40 [0.30, 0.50], at most 0.5", AtMost("x", Estimate{0.4, 0.3, 0.5}, 0.5).String())
	require.Equal(t, "missed: x 0.60 [0.40, 0.70], at most 0.5; the interval is on both sides", AtMost("x", Estimate{0.6, 0.4, 0.7}, 0.5).String())
	require.False(t, AtLeast("x", Estimate{}, 0.5).Holds, "nothing was measured")
	require.False(t, AtMost("x", Estimate{}, 0.5).Holds)
}
