package proxy

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheAnswerToARepeatedBulkIsPutInOrder(t *testing.T) {
	body := `{"took":3,"errors":true,"items":[
		{"create":{"_index":"x","_id":"P1","_version":1,"result":"created","_shards":{"total":2,"successful":2,"failed":0},"_seq_no":5,"_primary_term":1,"status":201}},
		{"create":{"_index":"x","_id":"P2","status":409,"error":{"type":"version_conflict_engine_exception","reason":"[P2]: version conflict, \"status\":409"}}},
		{"create":{"_index":"x","_id":"P3","status":409,"error":{"type":"version_conflict_engine_exception"}}}]}`
	got, ok := restoreItems([]byte(body), []bool{true, true, false})
	require.True(t, ok)
	require.JSONEq(t, `{"took":3,"errors":false,"items":[
		{"index":{"_index":"x","_id":"P1","_version":1,"result":"created","_shards":{"total":2,"successful":2,"failed":0},"_seq_no":5,"_primary_term":1,"status":201}},
		{"index":{"_index":"x","_id":"P2","_version":1,"result":"created","status":201}},
		{"create":{"_index":"x","_id":"P3","_version":1,"result":"created","status":201}}]}`, string(got))

	refused := `{"took":3,"errors":true,"items":[{"create":{"_index":"x","_id":"P1","status":429,"error":{"type":"es_rejected_execution_exception"}}}]}`
	got, ok = restoreItems([]byte(refused), []bool{true})
	require.True(t, ok)
	var answer struct{ Errors bool }
	require.NoError(t, json.Unmarshal(got, &answer))
	require.True(t, answer.Errors)

	for name, odd := range map[string]string{
		"not JSON": `{`, "too few items": `{"took":1,"items":[]}`, "another verb": `{"took":1,"items":[{"delete":{}}]}`, "an error": `{"error":"x","status":400}`,
	} {
		_, ok := restoreItems([]byte(odd), []bool{true})
		require.False(t, ok, name)
	}
}
