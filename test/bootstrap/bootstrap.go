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
	mine, theirs := make([]float64, n), make([]float64, n)
	return resampled(n, func(rounds []int) (float64, float64) {
		for i, from := range rounds {
			mine[i], theirs[i] = values[from], base[from]
		}
		return Median(mine), Median(theirs)
	})
}

// QuantileRatio compares a quantile of all values of two arms, of which each round has some.
// It is Ratio for what happens once and is not in every round.
func QuantileRatio(values, base [][]float64, q float64) Estimate {
	of := func(arm [][]float64, rounds []int) float64 {
		var all []float64
		for _, from := range rounds {
			all = append(all, arm[from]...)
		}
		slices.Sort(all)
		return Quantile(all, q)
	}
	return resampled(min(len(values), len(base)), func(rounds []int) (float64, float64) {
		return of(values, rounds), of(base, rounds)
	})
}

// resampled returns the ratio of two values over n rounds, with its interval. It is not known
// if it is 0, or has nothing to be compared with. Draws of the latter kind do not count.
func resampled(n int, draw func(rounds []int) (value, base float64)) Estimate {
	rounds := make([]int, n)
	for i := range rounds {
		rounds[i] = i
	}
	value, base := draw(rounds)
	if value == 0 || base == 0 {
		return Estimate{}
	}
	e := Estimate{Value: value / base}
	random := rand.New(rand.NewPCG(1, 95))
	var drawn []float64
	for range resamples {
		for i := range rounds {
			rounds[i] = random.IntN(n)
		}
		if value, base := draw(rounds); base != 0 {
			drawn = append(drawn, value/base)
		}
	}
	slices.Sort(drawn)
	e.Low, e.High = Quantile(drawn, 0.025), Quantile(drawn, 0.975)
	return e
}

// Values returns a figure of each turn.
func Values[T any](turns []T, of func(T) float64) []float64 {
	values := make([]float64, len(turns))
	for i, one := range turns {
		values[i] = of(one)
	}
	return values
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

// Quantile returns the value that a share q of sorted values does not exceed, of the nearest
// rank as in a loadgen.Result: of 100 values the 99th is their 0.99; 0 of none.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(q*float64(len(sorted)) + 0.5)
	return sorted[max(1, min(rank, len(sorted)))-1]
}
