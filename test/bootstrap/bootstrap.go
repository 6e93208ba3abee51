// Package bootstrap compares what was measured in turns, with the interval that holds the
// result.
package bootstrap

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// resamples is how often rounds are drawn.
const resamples = 4000

// Estimate is a value with the interval that holds it with a probability of 95 %.
type Estimate struct{ Value, Low, High float64 }

// String is empty where nothing is known.
func (e Estimate) String() string {
	if e.Value == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f [%.2f, %.2f]", e.Value, e.Low, e.High)
}

// Ratio compares the medians of two arms over the same rounds. The interval is a
// bootstrap's: rounds are drawn with replacement, both arms of each together, so that a
// slow moment of the machine is in both. The same values give the same interval.
func Ratio(values, base []float64) Estimate {
	n := min(len(values), len(base))
	if n == 0 || Median(base[:n]) == 0 {
		return Estimate{}
	}
	random := rand.New(rand.NewPCG(1, 95))
	e := Estimate{Value: Median(values[:n]) / Median(base[:n])}
	var drawn []float64
	mine, theirs := make([]float64, n), make([]float64, n)
	for range resamples {
		for i := range n {
			from := random.IntN(n)
			mine[i], theirs[i] = values[from], base[from]
		}
		if of := Median(theirs); of > 0 {
			drawn = append(drawn, Median(mine)/of)
		}
	}
	slices.Sort(drawn)
	e.Low, e.High = Quantile(drawn, 0.025), Quantile(drawn, 0.975)
	return e
}

// Median returns the middle of values, or the mean of the middle two; 0 of none.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Quantile returns the value that a share q of sorted values does not exceed; 0 of none.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
