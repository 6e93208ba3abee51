package es

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadBulkAction(t *testing.T) {
	for _, tc := range []struct {
		line   string
		verb   BulkVerb
		index  string
		fields BulkFields
		bare   bool
	}{
		{`{"index":{}}`, BulkIndex, "", 0, true},
		{` { "create" : { } } ` + "\r", BulkCreate, "", 0, true},
		{`{"create":{"_index":"logs"}}`, BulkCreate, "logs", 0, false},
		{`{"\u0069ndex":{"_inde\u0078":"b\u00fccher"}}`, BulkIndex, "bücher", 0, false},
		{`{"index":{"_index":""}}`, BulkIndex, "", 0, false},
		{`{"index":{"_index":"a","require_data_stream":false,"list_executed_pipelines":true,"dynamic_templates":{"f":"t"}}}`, BulkIndex, "a", 0, false},
		{`{"index":{"_id":"1"}}`, BulkIndex, "", BulkID, false},
		{`{"index":{"_id":null}}`, BulkIndex, "", BulkID, false},
		{`{"index":{"routing":"1"}}`, BulkIndex, "", BulkRouting, false},
		{`{"index":{"_routing":"1"}}`, BulkIndex, "", BulkRouting | BulkOther, false},
		{`{"index":{"pipeline":"p"}}`, BulkIndex, "", BulkPipeline, false},
		{`{"index":{"version":3,"_id":"1"}}`, BulkIndex, "", BulkOther | BulkID, false},
		{`{"index":{"_type":"_doc"}}`, BulkIndex, "", BulkOther, false},
		{`{"index":{"require_alias":false}}`, BulkIndex, "", BulkOther, false},
		{`{"index":{"op_type":"create"}}`, BulkIndex, "", BulkOther, false},
		{`{"index":{"_index":7}}`, BulkIndex, "", BulkOther, false},
		{`{"index":{"_index":null}}`, BulkIndex, "", BulkOther, false},
		{`{"index":{"_index":"a","_index":"b"}}`, BulkIndex, "a", BulkOther, false},
		{`{"index":{"dynamic_templates":{},"_index":"a","dynamic_templates":{}}}`, BulkIndex, "a", BulkOther, false},
		{`{"index":{"require_data_stream":true,"require_data_stream":true}}`, BulkIndex, "", BulkOther, false},
		{`{"index":{"routing":"1","routing":"2"}}`, BulkIndex, "", BulkRouting | BulkOther, false},
		{`{"index":{"list_executed_pipelines":true,"list_executed_pipelines":true}}`, BulkIndex, "", BulkOther, false},
		{`{"index":{"_index":"\ud800"}}`, BulkIndex, "\ufffd", BulkOther, false},
		{`{"update":{"_id":"1","_index":"a"}}`, BulkUpdate, "a", BulkID, false},
		{`{"delete":{"_id":"1"}}`, BulkDelete, "", BulkID, false},
	} {
		a, ok := ReadBulkAction([]byte(tc.line))
		require.True(t, ok, tc.line)
		require.Equal(t, tc.verb, a.Verb, tc.line)
		require.Equal(t, tc.index, string(a.Index), tc.line)
		require.Equal(t, tc.fields, a.Fields, tc.line)
		require.Equal(t, tc.bare, a.Bare, tc.line)
		require.Equal(t, byte('{'), tc.line[a.Insert-1], tc.line)
	}
	for _, line := range []string{
		``, ` `, `{}`, `[]`, `"index"`, `null`, `{"index"}`, `{"index":null}`, `{"index":[]}`, `{"index":{}`, `{"index":{}}}`,
		`{"index":{}} {}`, `{"index":{},"create":{}}`, `{"get":{}}`, `{"Index":{}}`, `{"index":{"_index"}}`, `{"index":{"_index":"a",}}`,
		`{"index":{"_index":"a` + "\x01" + `"}}`, `{"index":{"_index":"` + "\xff" + `"}}`, `{"index":/* */{}}`, `{index:{}}`, "\xef\xbb\xbf{\"index\":{}}",
		`{"index":{"dynamic_templates":{"a":}}}`,
	} {
		_, ok := ReadBulkAction([]byte(line))
		require.False(t, ok, line)
	}
}

// FuzzReadBulkAction compares with encoding/json what both read.
func FuzzReadBulkAction(f *testing.F) {
	for _, line := range []string{
		`{"index":{}}`, `{"create":{"_index":"logs"}}`, `{"delete":{"_id":"1"}}`, `{"index":{"dynamic_templates":{"a":"b"},"_index":"x"}}`,
		`{"in\u0064ex":{"_index":"\ud83d\ude00"}}`, `{"update":{"_index":"a","_index":"b"}}`, `{"index":{},"index":{}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		a, ok := ReadBulkAction(line)
		if !ok {
			return
		}
		var actions map[BulkVerb]map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(line, &actions))
		require.Len(t, actions, 1)
		metadata, found := actions[a.Verb]
		require.True(t, found)
		require.Equal(t, len(metadata) == 0, a.Bare)
		_, id := metadata["_id"]
		require.Equal(t, id, a.Fields&BulkID != 0)
		if raw, named := metadata["_index"]; named && a.Fields&BulkOther == 0 {
			var index string
			require.NoError(t, json.Unmarshal(raw, &index))
			require.Equal(t, index, string(a.Index))
		}
		edited := string(line[:a.Insert]) + `"inserted":1`
		if !a.Bare {
			edited += ","
		}
		edited += string(line[a.Insert:])
		actions = nil
		require.NoError(t, json.Unmarshal([]byte(edited), &actions))
		require.Len(t, actions[a.Verb], len(metadata)+1)
	})
}

func TestBulkErrors(t *testing.T) {
	for _, c := range []struct {
		prefix        string
		failed, known bool
	}{
		{`{"took":3,"errors":false,"items":[{"index":{"sta`, false, true},
		{`{"errors" : true,`, true, true},
		{`{"took":3,"ingest_took":7,"errors":true}`, true, true},
		{`{"took":3,"errors":fals`, false, false},
		{`{"took":3,`, false, false},
		{`{"items":[{"index":{"errors":false}}]}`, false, false},
		{`{"errors":null,"items":[]}`, false, false},
		{`---`, false, false},
		{``, false, false},
	} {
		failed, known := BulkErrors([]byte(c.prefix))
		require.Equal(t, c.known, known, c.prefix)
		require.Equal(t, c.failed, failed && known, c.prefix)
	}
}

func TestReadBulkLine(t *testing.T) {
	for query, want := range map[string]BulkLine{
		"":                             {Plain: true},
		"refresh=false&timeout=1m":     {Plain: true},
		"refresh&pretty":               {Plain: true, Refreshes: true},
		"include_source_on_error=true": {Plain: true},
		"routing=a":                    {},
		"filter_path=items.*.status":   {Plain: true},
		"filter_path=errors,items.*.status,items.*.error&refresh=wait_for":      {Plain: true, Refreshes: true},
		"filter_path=errors%2Citems.%2A.error%2Citems.%2A.status":               {Plain: true},
		"filter_path=errors,items.*.error,items.*.status,items.*.failure_store": {Plain: true},
		"filter_path=errors,items.*.error":                                      {Plain: true, Filtered: true},
		"filter_path=items.*.status,items.*._id":                                {Plain: true, Filtered: true},
		"filter_path=items.*.status,-took":                                      {Plain: true, Filtered: true},
		"filter_path=":                                                          {Plain: true, Filtered: true},
		"filter_path=items.*.status%zz":                                         {Plain: true, Filtered: true},
		"filter_path=items.*.status&filter_path=took":                           {Plain: true, Filtered: true},
	} {
		want.Index = "i"
		require.Equal(t, want, ReadBulkLine("/i/_bulk", query), query)
	}
}
