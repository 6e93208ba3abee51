package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A benchmark that has another name now does not take 0 ns.
func TestMissingBenchmarksAreAnError(t *testing.T) {
	m := micro{}
	require.NoError(t, m.read([]byte("BenchmarkAnyServed/shards=100-2 \t 10\t 25.5 ns/op\nBenchmarkAnyServed/shards=100-2 10 24.0 ns/op\n")))
	require.Equal(t, micro{"AnyServed/shards=100": 24 * time.Nanosecond}, m)
	_, err := (&report{micro: m}).render()
	require.ErrorContains(t, err, "no benchmarks Resolve/shards=100/target=index, ")
	require.NotContains(t, err.Error(), "AnyServed/shards=100,")
	text, err := (&report{}).render()
	require.NoError(t, err)
	require.Contains(t, text, "# Big clusters")
}
