package main

import (
	"math/rand/v2"
	"slices"
)

// resamples is how often a bootstrap draws.
const resamples = 4000

// estimate is a value with the interval that holds it with a probability of 95 %.
type estimate struct{ value, low, high float64 }

// ratio compares the medians of two arms over the same rounds. The interval is a
// bootstrap's: rounds are drawn with replacement, both arms of each together, so that a
// slow moment of the machine is in both.
func ratio(values, base []float64, random *rand.Rand) estimate {
	n := min(len(values), len(base))
	if n == 0 || median(base[:n]) == 0 {
		return estimate{}
	}
	e := estimate{value: median(values[:n]) / median(base[:n])}
	var drawn []float64
	mine, theirs := make([]float64, n), make([]float64, n)
	for range resamples {
		for i := range n {
			from := random.IntN(n)
			mine[i], theirs[i] = values[from], base[from]
		}
		if of := median(theirs); of > 0 {
			drawn = append(drawn, median(mine)/of)
		}
	}
	slices.Sort(drawn)
	e.low, e.high = quantile(drawn, 0.025), quantile(drawn, 0.975)
	return e
}

// median returns the middle of values, or the mean of the middle two; 0 of none.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// quantile returns the value that a share q of sorted values does not exceed; 0 of none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// skew returns what the fullest shard has, relative to the mean; 0 of none.
func skew(documents []float64) float64 {
	all := sum(documents)
	if all == 0 {
		return 0
	}
	return slices.Max(documents) * float64(len(documents)) / all
}

func sum(values []float64) float64 {
	var all float64
	for _, v := range values {
		all += v
	}
	return all
}

// perBulk returns how many of a count there are for each bulk; 0 if there are none.
func perBulk(count float64, bulks int64) float64 {
	if bulks == 0 {
		return 0
	}
	return count / float64(bulks)
}
