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

func TestQueuesFull(t *testing.T) {
	const rejected = `{"type":"es_rejected_execution_exception","reason":"rejected execution of TimedRunnable"}`
	for name, c := range map[string]struct {
		body          string
		partial, want bool
	}{
		"all copies of all shards":         {`{"error":{"root_cause":[` + rejected + `],"type":"search_phase_execution_exception","reason":"all shards failed","phase":"query","failed_shards":[{"shard":0,"index":"a","reason":` + rejected + `}]},"status":429}`, false, true},
		"OpenSearch":                       {`{"error":{"type":"search_phase_execution_exception","failed_shards":[{"reason":{"type":"rejected_execution_exception"}}]},"status":429}`, false, true},
		"the coordinating node":            {`{"error":` + rejected + `,"status":429}`, false, false},
		"a phase on the coordinating node": {`{"error":{"type":"search_phase_execution_exception","reason":"","phase":"fetch","failed_shards":[],"caused_by":` + rejected + `},"status":429}`, false, false},
		"some shards, and another failure": {`{"took":3,"_shards":{"total":2,"failed":2,"failures":[{"shard":0,"reason":` + rejected + `},{"shard":1,"reason":{"type":"node_disconnected_exception"}}]}`, true, false},
		"a document says so":               {`{"took":3,"_shards":{"total":2,"failed":1,"failures":[]},"hits":{"hits":[{"_source":{"failures":[{"reason":` + rejected + `}]}}]}}`, true, false},
		"some shards":                      {`{"took":3,"_shards":{"total":2,"failed":1,"failures":[{"shard":0,"reason":` + rejected + `}]}`, true, true},
		"some shards, another failure":     {`{"took":3,"_shards":{"total":2,"failed":1,"failures":[{"shard":0,"reason":{"type":"node_disconnected_exception"}}]}`, true, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, QueuesFull([]byte(c.body), c.partial)) })
	}
}
