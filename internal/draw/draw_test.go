package draw

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The numbers are evenly spread, and a key's order of names has nothing to do with another's.
func TestNumbersAreEvenlySpread(t *testing.T) {
	const n = 10_000
	var tenths [10]int
	first := 0
	for i := range uint64(n) {
		v := Number(7, i, 0)
		require.GreaterOrEqual(t, v, 0.0)
		require.Less(t, v, 1.0)
		tenths[int(v*10)]++
		if Score(i, "a") > Score(i, "b") {
			first++
		}
	}
	for _, count := range tenths {
		require.InDelta(t, n/10, count, n/50)
	}
	require.InDelta(t, n/2, first, n/50)
}

// Other processes, and later versions, must agree: clients keep their copies.
func TestScoresStayAsTheyAre(t *testing.T) {
	require.InDelta(t, 0.5354447757266757, Score(1, "node-1"), 1e-12)
	require.NotEqual(t, Number(1, 2, 3), Number(1, 3, 2))
}
