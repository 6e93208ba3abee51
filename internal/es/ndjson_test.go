package es

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// read returns the only item of a multi-search with this header.
func read(t *testing.T, r Request, header, source string) (Item, []byte) {
	t.Helper()
	body := []byte(header + "\n" + source + "\n")
	if header == "" { // an empty line is a header only after the first
		body = append([]byte("{}\n{}\n"), body...)
	}
	items, readable := MultiSearch(nil, r, body)
	require.True(t, readable)
	return items[len(items)-1], body
}

func TestMultiSearchHeaders(t *testing.T) {
	line := Request{Operation: MSearch, Target: "path", Routing: "r0"}
	for _, tc := range []struct{ header, target, routing, preference, want string }{
		{`{}`, "path", "r0", "", `{"preference":"_p"}`},
		{``, "path", "r0", "", `{"preference":"_p"}`},
		{` { } `, "path", "r0", "", ` { "preference":"_p"} `},
		{"{}\r", "path", "r0", "", "{\"preference\":\"_p\"}\r"},
		{`{"index":"a"}`, "a", "r0", "", `{"index":"a","preference":"_p"}`},
		{`{"index":"a" , "routing" : "x,y" }`, "a", "x,y", "", `{"index":"a" , "routing" : "x,y" ,"preference":"_p"}`},
		{`{"index":"a,b-*,-b-1"}`, "a,b-*,-b-1", "r0", "", `{"index":"a,b-*,-b-1","preference":"_p"}`},
		{`{"indices":["a","b-*","-b-1"]}`, "a,b-*,-b-1", "r0", "", `{"indices":["a","b-*","-b-1"],"preference":"_p"}`},
		{`{"index":""}`, "", "r0", "", `{"index":"","preference":"_p"}`},
		{`{"index":[]}`, "", "r0", "", `{"index":[],"preference":"_p"}`},
		{`{"index":"<logs-{now/d}>"}`, "<logs-{now/d}>", "r0", "", `{"index":"<logs-{now/d}>","preference":"_p"}`},
		{`{"index":"b\u00fccher","routing":"\ud83d\ude00"}`, "bücher", "😀", "", `{"index":"b\u00fccher","routing":"\ud83d\ude00","preference":"_p"}`},
		{`{"index":"a","routing":7}`, "a", "7", "", `{"index":"a","routing":7,"preference":"_p"}`},
		{`{"index":"a","routing":null}`, "a", "", "", `{"index":"a","routing":null,"preference":"_p"}`},
		{`{"preference":"","index":"a"}`, "a", "r0", "", `{"preference":"_p","index":"a"}`},
		{`{"index":"a","preference" : "session-7" }`, "a", "r0", "session-7", `{"index":"a","preference" : "_p" }`},
		{`{"search_type":"dfs_query_then_fetch","ignore_unavailable":true,"allow_no_indices":false}`, "path", "r0", "", `{"search_type":"dfs_query_then_fetch","ignore_unavailable":true,"allow_no_indices":false,"preference":"_p"}`},
		{`{"ccs_minimize_roundtrips":true,"requestCache":"false","allow_partial_search_results":null}`, "path", "r0", "", `{"ccs_minimize_roundtrips":true,"requestCache":"false","allow_partial_search_results":null,"preference":"_p"}`},
		{`{"expand_wildcards":["open"],"index":"a*"}`, "a*", "r0", "", `{"expand_wildcards":["open"],"index":"a*","preference":"_p"}`},
		{`{"expand_wildcards":"all","index":"a"}`, "a", "r0", "", `{"expand_wildcards":"all","index":"a","preference":"_p"}`},
		{`{"cancel_after_time_interval":"1s","phase_took":true}`, "path", "r0", "", `{"cancel_after_time_interval":"1s","phase_took":true,"preference":"_p"}`},
	} {
		t.Run(tc.header, func(t *testing.T) {
			item, body := read(t, line, tc.header, `{"size":1}`)
			require.Equal(t, PassNone, item.Pass)
			require.Equal(t, [3]string{tc.target, tc.routing, tc.preference}, [3]string{item.Target, item.Routing, item.Preference})
			edited := SetPreferences(body, []Item{item}, []string{"_p"})
			require.Equal(t, strings.Replace(string(body), tc.header+"\n{\"size\"", tc.want+"\n{\"size\"", 1), string(edited))
			require.Equal(t, string(body), string(SetPreferences(body, []Item{item}, []string{""})))
		})
	}
}

func TestMultiSearchItemsThatStay(t *testing.T) {
	for _, tc := range []struct {
		header, source string
		want           PassReason
	}{
		{`{"index":"a","preference":"_local"}`, `{}`, PassClientPreference},
		{`{"index":"remote:a"}`, `{}`, PassRemoteTarget},
		{`{"index":["a","remote:b"]}`, `{}`, PassRemoteTarget},
		{`{"index":"a*","expand_wildcards":"all"}`, `{}`, PassIndicesOptions},
		{`{"index":"a*","expandWildcards":["open","hidden"]}`, `{}`, PassIndicesOptions},
		{`{"index":"a*","ignore_throttled":false}`, `{}`, PassIndicesOptions},
		{`{"index":",,"}`, `{}`, PassAmbiguousQuery},
		{`{"index":"a","type":"doc"}`, `{}`, PassTypedPath},
		{`{"index":"a"}`, `{"pit":{"id":"x"}}`, PassPIT},
		{`{"index":"a"}`, `{"size":1,"\u0070it":{"id":"x"}}`, PassPIT},
		{`{"index":"a"}`, `{"query":{"term":{"a":"pit`, PassUnreadableBody},
		{`{"index":"a"}`, "{\x00}", PassUnreadableBody},
		{`{"index":null}`, `{}`, PassUnreadableHeader},
		{`{"index":5}`, `{}`, PassUnreadableHeader},
		{`{"index":["a",null]}`, `{}`, PassUnreadableHeader},
		{`{"index":["a,b"]}`, `{}`, PassUnreadableHeader},
		{`{"index":["a",""]}`, `{}`, PassUnreadableHeader},
		{`{"index":"a","index":"b"}`, `{}`, PassUnreadableHeader},
		{`{"index":"a","indices":"b"}`, `{}`, PassUnreadableHeader},
		{`{"request_cache":true,"requestCache":true}`, `{}`, PassUnreadableHeader},
		{`{"index":"a","preference":null}`, `{}`, PassUnreadableHeader},
		{`{"index":"a","preference":7}`, `{}`, PassUnreadableHeader},
		{`{"index":"a","routing":7.5}`, `{}`, PassUnreadableHeader},
		{`{"index":"a","routing":"\ud83d"}`, `{}`, PassUnreadableHeader},
		{`{"index":"a","expand_wildcards":null}`, `{}`, PassUnreadableHeader},
		{`{"index":"a","project_routing":"x"}`, `{}`, PassUnreadableHeader},
		{`{"index":"a","nonsense":1}`, `{}`, PassUnreadableHeader},
		{`{"index":"a"`, `{}`, PassUnreadableHeader},
		{`{"index":"a"} {}`, `{}`, PassUnreadableHeader},
		{`{"index":"a",}`, `{}`, PassUnreadableHeader},
		{`{index:"a"}`, `{}`, PassUnreadableHeader},
		{`{"index":'a'}`, `{}`, PassUnreadableHeader},
		{`{"index":"a","request_cache":tru}`, `{}`, PassUnreadableHeader},
		{"{\"index\":\"a\xff\"}", `{}`, PassUnreadableHeader},
		{`["index"]`, `{}`, PassUnreadableHeader},
		{` `, `{}`, PassUnreadableHeader},
		{"\r", `{}`, PassUnreadableHeader},
		{`null`, `{}`, PassUnreadableHeader},
	} {
		t.Run(tc.header+tc.source, func(t *testing.T) {
			item, _ := read(t, Request{Operation: MSearch}, tc.header, tc.source)
			require.Equal(t, tc.want, item.Pass)
		})
	}
}

func TestMultiSearchTemplates(t *testing.T) {
	for _, tc := range []struct {
		header, source string
		want           PassReason
	}{
		{`{"index":"a"}`, `{"id":"stored","params":{"n":1}}`, PassNone},
		{`{"index":"a"}`, `{"source":"{\"query\":{\"match_all\":{}}}"}`, PassNone},
		{`{"index":"a"}`, `{"source":"{\"pit\":{\"id\":\"x\"}}"}`, PassUnreadableBody},
		{`{"index":"a"}`, `{"source":{"pit":{}}}`, PassUnreadableBody},
		{`{}`, `{"id":"stored"}`, PassUnreadableBody},
	} {
		item, _ := read(t, Request{Operation: MSearchTemplate}, tc.header, tc.source)
		require.Equal(t, tc.want, item.Pass, tc.header+tc.source)
	}
}

func TestMultiSearchRequestLine(t *testing.T) {
	item, _ := read(t, Request{Operation: MSearch, Target: "a*", Expands: true}, ``, `{}`)
	require.Equal(t, PassIndicesOptions, item.Pass)
	item, _ = read(t, Request{Operation: MSearch, Target: "remote:a"}, ``, `{}`)
	require.Equal(t, PassRemoteTarget, item.Pass)
	item, _ = read(t, Request{Operation: MSearch, Target: "remote:a"}, `{"index":"b"}`, `{}`)
	require.Equal(t, PassNone, item.Pass, "the header's target counts")
}

func TestMultiSearchFraming(t *testing.T) {
	for body, want := range map[string]int{
		"{}\n{}\n":             1,
		"{}\n{}\n\n{}\n":       2,
		"{}\r\n{}\r\n":         1,
		"{}\n{}\n{}\n":         1, // the last header has no body
		"{}\n":                 0,
		"{}\n\n":               1, // an empty body: the engine's to judge
		"":                     -1,
		"\n{}\n{}\n":           -1,
		"{}\n{}":               -1,
		"{}\n{}\n{}\n{}":       -1,
		`{"index":"a"}{}`:      -1,
		"{}\n{}\n{\n}\n{}\n{}": -1,
	} {
		items, readable := MultiSearch(nil, Request{Operation: MSearch}, []byte(body))
		require.Equal(t, want >= 0, readable, "%q", body)
		require.Len(t, items, max(want, 0), "%q", body)
	}
}

func TestSetPreferencesOfSome(t *testing.T) {
	body := []byte("{\"index\":\"a\"}\n{}\n\n{}\n{\"index\":\"b\",\"preference\":\"s\"}\n{}\n{\"index\":\"c\"}\n")
	items, readable := MultiSearch(nil, Request{Operation: MSearch}, body)
	require.True(t, readable)
	require.Len(t, items, 3)
	require.Equal(t, "{\"index\":\"a\",\"preference\":\"_p:1\"}\n{}\n\n{}\n{\"index\":\"b\",\"preference\":\"_p:3\"}\n{}\n{\"index\":\"c\"}\n",
		string(SetPreferences(body, items, []string{"_p:1", "", "_p:3"})))
	require.Equal(t, "{\"index\":\"a\"}\n{}\n{\"preference\":\"\\\"é\"}\n{}\n{\"index\":\"b\",\"preference\":\"s\"}\n{}\n{\"index\":\"c\"}\n",
		string(SetPreferences(body, items, []string{"", "\"é", ""})))
}

func TestReadsLines(t *testing.T) {
	for contentType, want := range map[string]bool{
		"application/json":                                         true,
		"application/x-ndjson":                                     true,
		"Application/X-NDJSON; charset=UTF-8":                      true,
		`application/json;charset="utf-8"`:                         true,
		"application/vnd.elasticsearch+x-ndjson;compatible-with=8": true,
		"application/vnd.elasticsearch+json; compatible-with=9":    true,
		"application/json; charset=utf-16":                         false,
		"application/cbor":                                         false,
		"application/smile":                                        false,
		"application/yaml":                                         false,
		"application/vnd.elasticsearch+cbor;compatible-with=8":     false,
		"text/plain": false,
		"":           false,
	} {
		require.Equal(t, want, ReadsLines(contentType), contentType)
	}
}

// FuzzMultiSearch: a JSON parser sees the same headers but for the preference, and
// the lines of bodies, their number and their order stay.
func FuzzMultiSearch(f *testing.F) {
	f.Add([]byte("{}\n{}\n"))
	f.Add([]byte("{\"index\":\"a\",\"preference\":\"s\"}\r\n{\"size\":1}\r\n\n{\"pit\":{}}\n"))
	f.Add([]byte("{ \"index\" : [ \"a\" , \"b\" ] , \"routing\":\"\\u00e9\" }\n{}\n{\"preference\":\"_local\"}\n{}\n"))
	f.Add([]byte("\n{}\n{}\n"))
	f.Add([]byte("{\"index\":\"a\",\"index\":\"b\"}\n{}\n{}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		const preference = "_prefer_nodes:x"
		items, readable := MultiSearch(nil, Request{Operation: MSearch, Target: "path"}, body)
		if !readable {
			require.Empty(t, items)
			return
		}
		preferences := make([]string, len(items))
		for i, item := range items {
			if item.Pass == PassNone {
				preferences[i] = preference
			}
		}
		before := bytes.Split(body, []byte("\n"))
		after := bytes.Split(SetPreferences(body, items, preferences), []byte("\n"))
		require.Len(t, after, len(before))
		for i := range before {
			item := i / 2
			if i%2 == 1 || item >= len(items) || preferences[item] == "" {
				require.Equal(t, before[i], after[i])
				continue
			}
			old, edited := map[string]any{}, map[string]any{}
			if len(before[i]) > 0 {
				require.NoError(t, json.Unmarshal(before[i], &old))
			}
			require.NoError(t, json.Unmarshal(after[i], &edited))
			require.Equal(t, preference, edited["preference"])
			if was, ok := old["preference"]; ok {
				require.Equal(t, items[item].Preference, was)
			}
			delete(old, "preference")
			delete(edited, "preference")
			require.Equal(t, old, edited)
		}
	})
}

func BenchmarkMultiSearch(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("items=%d", n), func(b *testing.B) {
			body := []byte(strings.Repeat("{\"index\":\"logs-2026.11\",\"ignore_unavailable\":true}\n{\"query\":{\"match\":{\"message\":\"timeout\"}},\"size\":10}\n", n))
			preferences := make([]string, n)
			for i := range preferences {
				preferences[i] = PreferNodes([]string{"x-h_GkXbT0aS0fUdZpLQWg", "k3J9sT2bQ0e1LrVdXn5cYw"})
			}
			var items []Item
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				items, _ = MultiSearch(items[:0], Request{Operation: MSearch}, body)
				SetPreferences(body, items, preferences)
			}
		})
	}
}
