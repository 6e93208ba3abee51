package stats

import "slices"

// Median returns the lower median of values, of which there is at least one, and sorts them.
func Median(values []float64) float64 {
	lower, _ := Medians(values)
	return lower
}

// Medians returns the lower and the upper median of values, of which there is at least one, and
// sorts them. They are the same for an odd number of values.
func Medians(values []float64) (lower, upper float64) {
	slices.Sort(values)
	return values[(len(values)-1)/2], values[len(values)/2]
}
