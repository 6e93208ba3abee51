package es

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEngineErrors(t *testing.T) {
	tests := []struct {
		file              string
		noNodes, weighted bool
	}{
		{"no-nodes.json", true, false},
		{"no-nodes-list.json", true, false},
		{"weighted-routing.json", false, true},
		{"partial.json", false, false},
		{"opensearch-3.6.json", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			body := response(t, tt.file)
			require.Equal(t, tt.noNodes, IsNoNodesError(body))
			require.Equal(t, tt.weighted, IsWeightedRoutingError(body))
		})
	}
}

func TestIsNoNodesErrorNeedsTheType(t *testing.T) {
	require.False(t, IsNoNodesError([]byte(`{"error":{"type":"parsing_exception","reason":"no data nodes with criteria [x]"}}`)))
}

func TestErrorBody(t *testing.T) {
	require.JSONEq(t,
		`{"error":{"root_cause":[{"type":"no_upstream_exception","reason":"no node answers at \"a\""}],"type":"no_upstream_exception","reason":"no node answers at \"a\""},"status":503}`,
		string(ErrorBody(503, "no_upstream_exception", `no node answers at "a"`)))
}

func TestIsFullQueue(t *testing.T) {
	for body, want := range map[string]bool{
		`{"error":{"root_cause":[{"type":"es_rejected_execution_exception","reason":"x"}]},"status":429}`: true,
		`{"_shards":{"failed":1,"failures":[{"reason":{"type":"rejected_execution_exception"}}]}}`:        true,
		`{"error":{"type":"circuit_breaking_exception"},"status":429}`:                                    false,
		``: false,
	} {
		require.Equal(t, want, IsFullQueue([]byte(body)), body)
	}
}
