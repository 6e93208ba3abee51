package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseStat(t *testing.T) {
	const tail = " S 7 1 1 0 -1 4194304 100 0 0 0 150 50 9 9 20 0 4 0 12345 1000000 300 18446744073709551615 1 1"
	for name, text := range map[string]string{
		"plain":             "42 (nginx)" + tail,
		"blank in the name": "42 (nginx: worker process)" + tail,
		"parentheses":       "42 (a) b (c))" + tail,
	} {
		t.Run(name, func(t *testing.T) {
			pid, parent, u, err := parseStat(text)
			require.NoError(t, err)
			require.Equal(t, 42, pid)
			require.Equal(t, 7, parent)
			require.Equal(t, usage{cpu: 2 * time.Second, resident: 300 * int64(os.Getpagesize())}, u)
		})
	}
	for _, text := range []string{"", "42", "42 (x", "42 (x) S 1", "42 (x)" + strings.Replace(tail, "150", "x", 1)} {
		_, _, _, err := parseStat(text)
		require.Error(t, err, text)
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	u, err := usageOf(os.Getpid())
	require.NoError(t, err)
	require.Positive(t, u.resident)

	_, err = usageOf(-1)
	require.EqualError(t, err, "process -1 has ended")
}

func TestDifferencesPairTheRounds(t *testing.T) {
	require.Equal(t, []time.Duration{1, -2}, differences([]time.Duration{5, 6}, []time.Duration{4, 8}))
	require.InDelta(t, 3, median([]float64{9, 1, 3}), 0)
}
