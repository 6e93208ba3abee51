package es

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
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
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, QueuesFull([]byte(c.body), c.partial))
			var pretty bytes.Buffer
			if json.Indent(&pretty, []byte(c.body), "", "  ") == nil { // some are cut short
				require.Equal(t, c.want, QueuesFull(pretty.Bytes(), c.partial), "pretty")
			}
		})
	}
}

// yamlFailure is an answer to a search of which two shards failed, with errors of these types.
func yamlFailure(first, second string) string {
	return "---\nerror:\n  root_cause:\n  - type: \"" + first + "\"\n    reason: \"rejected execution\"\n" +
		"  type: \"search_phase_execution_exception\"\n  reason: \"all shards failed\"\n  phase: \"query\"\n  grouped: true\n  failed_shards:\n" +
		"  - shard: 0\n    index: \"a\"\n    reason:\n      type: \"" + first + "\"\n      reason: \"rejected execution\"\n" +
		"  - shard: 1\n    index: \"a\"\n    reason:\n      type: \"" + second + "\"\n      reason: \"x\"\nstatus: 429\n"
}

func TestShardsRefuse(t *testing.T) {
	const refusal = `{"shard":0,"index":"a","node":"n","reason":{"type":"illegal_argument_exception","reason":"Text fields are not optimised","caused_by":{"type":"x_exception"}}}`
	const gone = `{"shard":0,"index":"b","node":"n","reason":{"type":"node_disconnected_exception","reason":"\"illegal_argument_exception\""}}`
	result := func(failures string) string {
		return `{"took":1,"_shards":{"total":3,"successful":1,"skipped":0,"failed":2,"failures":[` + failures + `]},"hits":{}}`
	}
	for name, c := range map[string]struct {
		body string
		want bool
	}{
		"one": {result(refusal), true},
		"no date": {result(`{"shard":0,"index":"a","node":"n","reason":{"type":"parse_exception","reason":"failed to parse date field [zz] with format [x]",` +
			`"caused_by":{"type":"illegal_argument_exception","reason":"failed to parse date field [zz] with format [x]"}}}`), true},
		"two":            {result(refusal + "," + refusal), true},
		"and a node":     {result(refusal + "," + gone), false},
		"a node":         {result(gone), false},
		"none is listed": {result(""), false},
		"cut":            {result(refusal + "," + refusal)[:300], true},
		"no list":        {`{"took":1,"_shards":{"total":3,"successful":2}}`, false},
		"YAML":           {yamlFailure("illegal_argument_exception", "illegal_argument_exception"), false},
	} {
		require.Equal(t, c.want, ShardsRefuse([]byte(c.body), true), name)
	}
	failed := func(cause, failures string) string {
		return `{"error":{"root_cause":[{"type":"` + cause + `","reason":"x"}],"type":"search_phase_execution_exception","reason":"all shards failed","failed_shards":[` + failures + `]},"status":500}`
	}
	require.True(t, ShardsRefuse([]byte(failed("illegal_argument_exception", refusal)), false))
	unthought := strings.Replace(refusal, "illegal_argument_exception", "null_pointer_exception", 1)
	require.True(t, ShardsRefuse([]byte(failed("null_pointer_exception", unthought+","+refusal)), false))
	require.False(t, ShardsRefuse([]byte(result(unthought)), true), "a node may not find the documents")
	some := strings.Replace(failed("null_pointer_exception", unthought), "all shards failed", "Partial shards failure", 1)
	require.False(t, ShardsRefuse([]byte(some), false), "partial results are not allowed")
	require.False(t, ShardsRefuse([]byte(failed("node_disconnected_exception", refusal)), false), "of as many shards as differ one is listed as a cause")
	require.False(t, ShardsRefuse([]byte(failed("illegal_argument_exception", refusal+","+gone)), false))
	require.False(t, ShardsRefuse([]byte(failed("illegal_argument_exception", "")), false), "the coordinating node")
}

func TestQueuesFullInOtherFormats(t *testing.T) {
	const rejected, other = "es_rejected_execution_exception", "node_disconnected_exception"
	require.True(t, QueuesFull([]byte(yamlFailure(rejected, rejected)), false))
	require.False(t, QueuesFull([]byte(yamlFailure(rejected, other)), false))
	require.False(t, QueuesFull([]byte("---\nerror:\n  root_cause:\n  - type: \""+rejected+"\"\n  type: \""+rejected+"\"\nstatus: 429\n"), false))
	cbor := "\xbf\x65error\xbf\x6dfailed_shards\x9f\xbf\x66reason\xbf\x64type\x78\x1f" + rejected + "\xff\xff\xff\xff\xff"
	require.True(t, QueuesFull([]byte(cbor), false))
}

func TestFailureOf(t *testing.T) {
	for body, want := range map[string]Failure{
		`{"error":{"type":"circuit_breaking_exception"}}`:                                          FailureBreaker,
		"{\n  \"error\" : {\n    \"type\" : \"too_many_clauses\"\n  }\n}":                          FailureRequest,
		`{"error":{"type":"x","reason":"no circuit_breaking_exception, and no too_many_clauses"}}`: FailureOther,
		yamlFailure("circuit_breaking_exception", "circuit_breaking_exception"):                    FailureBreaker,
		yamlFailure("task_cancelled_exception", "task_cancelled_exception"):                        FailureRequest,
		"\xbf\x64type\x78\x1acircuit_breaking_exception\xff":                                       FailureBreaker,
		":)\n\x05\xfa\x83type\x59circuit_breaking_exception\xfb":                                   FailureBreaker,
		`{"error":{"root_cause":[],"failed_shards":[],"caused_by":{"type":"aggregation_execution_exception","reason":"Merging/Reducing the aggregations failed"}},"status":500}`:                                          FailureRequest,
		`{"error":{"root_cause":[],"failed_shards":[],"caused_by":{"type":"class_cast_exception","reason":"class java.lang.Long cannot be cast"}},"status":500}`:                                                          FailureRequest,
		`{"error":{"root_cause":[{"type":"aggregation_execution_exception","reason":"Failed to build aggregation [x]"}],"failed_shards":[{"shard":0,"reason":{"type":"aggregation_execution_exception"}}]},"status":500}`: FailureOther,
		`{"error":{"root_cause":[{"type":"query_phase_execution_exception","reason":"Time exceeded"}]},"status":500}`:                                                                                                     FailureTimeout,
		`{"error":{"root_cause":[{"type":"search_timeout_exception","reason":"Time exceeded"}]},"status":429}`:                                                                                                            FailureTimeout,
		`{"error":{"root_cause":[{"type":"query_phase_execution_exception","reason":"Query Failed"}]},"status":500}`:                                                                                                      FailureOther,
		"\xbf\x64type\x70too_many_clauses\xff": FailureRequest,
		"":                                     FailureOther,
	} {
		require.Equal(t, want, FailureOf([]byte(body)), body)
	}
}

// manyFailures is an answer to a search of which 30 shards failed. The first root cause is of a type of its own.
func manyFailures(first, others string) string {
	var causes, shards []string
	for i := range 30 {
		cause := fmt.Sprintf(`{"type":%q,"reason":"rejected execution of task %d%s"}`, others, i, strings.Repeat(" x", 250))
		if i == 0 {
			cause = strings.Replace(cause, others, first, 1)
		}
		causes, shards = append(causes, cause), append(shards, fmt.Sprintf(`{"shard":%d,"index":"a","node":"n","reason":%s}`, i, cause))
	}
	return `{"error":{"root_cause":[` + strings.Join(causes, ",") + `],"type":"search_phase_execution_exception","failed_shards":[` +
		strings.Join(shards, ",") + `]},"status":429}`
}

func TestRootCausesTellBeforeTheFailedShards(t *testing.T) {
	const rejected = "es_rejected_execution_exception"
	all, mixed := manyFailures(rejected, rejected), manyFailures("node_disconnected_exception", rejected)
	cause, list := strings.Index(all, `},{`), strings.Index(all, `"failed_shards"`)
	for name, c := range map[string]struct {
		start        string
		full, unread bool
	}{
		"8 KiB":                        {all[:8<<10], true, true},
		"everything":                   {all, true, false},
		"some shards":                  {all[:list+2000], true, false},
		"before the list":              {all[:list], true, true},
		"one, which may be the node's": {all[:cause+2], false, true},
		"another, too":                 {mixed[:8<<10], false, true},
		"another, everything":          {mixed, false, false},
		"two of the node's":            {`{"error":{"root_cause":[{"type":"` + rejected + `"},{"type":"` + rejected + `"}],"type":"x"},"status":429}`, false, false},
		"YAML":                         {"---\nerror:\n  root_cause:\n  - type: \"" + rejected, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.full, QueuesFull([]byte(c.start), false))
			require.Equal(t, c.unread, ShardsUnread([]byte(c.start)))
		})
	}
}
