package main

import (
	"slices"

	"sidestep/test/bootstrap"
)

func median(values []float64) float64 { return bootstrap.Median(values) }

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
