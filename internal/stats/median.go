package stats

import "slices"

// Median sorts values, of which there must be one, and returns their lower median.
func Median(values []float64) float64 {
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
