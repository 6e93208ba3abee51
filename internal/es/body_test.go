package es

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHasTopLevelPIT(t *testing.T) {
	tests := []struct {
		name, body    string
		pit, readable bool
	}{
		{"empty", "", false, true},
		{"white space", " \n\t\r ", false, true},
		{"empty object", "{}", false, true},
		{"plain query", `{"query":{"match":{"message":"timeout"}},"size":10}`, false, true},
		{"pit", `{"size":100,"pit":{"id":"46ToAwMDaWR5BXV1aWQy","keep_alive":"1m"},"sort":[{"@timestamp":"asc"}]}`, true, true},
		{"pit first, spaced", " {\n \"pit\" : { \"id\" : \"x\" } }\n", true, true},
		{"pit null", `{"pit":null}`, true, true},
		{"escaped key", `{"\u0070it":{"id":"x"}}`, true, true},
		{"escaped key, all of it", `{"\u0070\u0069\u0074":1}`, true, true},
		{"second of duplicates", `{"size":1,"size":2,"pit":{}}`, true, true},
		{"nested pit", `{"query":{"bool":{"filter":[{"term":{"pit":"x"}}]}},"aggs":{"pit":{"terms":{"field":"pit"}}}}`, false, true},
		{"pit as a value", `{"sort":"pit","_source":["pit"]}`, false, true},
		{"brackets in strings", `{"query":{"query_string":{"query":"a\"}],\"pit\":{"}},"size":0}`, false, true},
		{"scripts", `{"script_fields":{"a":{"script":"doc['x'].value / 2 // \n"}}}`, false, true},
		{"numbers", `{"from":0,"min_score":-1.5e+3,"a":[1,2.0,true,false,null]}`, false, true},

		{"top-level array", `[{"pit":{}}]`, false, false},
		{"string", `"pit"`, false, false},
		{"comment", `{/* c */"pit":{}}`, false, false},
		{"comment in a nested value", `{"query":{/* " */},"pit":{},"a":"*/"}`, false, false},
		{"line comment", "{\"a\":1//\n,\"pit\":1}", false, false},
		{"unquoted key", `{pit:{}}`, false, false},
		{"single quotes", `{'pit':{}}`, false, false},
		{"single quotes in a nested value", `{"a":{'"':1},"pit":1}`, false, false},
		{"byte order mark", "\ufeff{}", false, false},
		{"utf-16", "{\x00}\x00", false, false},
		{"truncated", `{"size":1`, false, false},
		{"truncated string", `{"size`, false, false},
		{"trailing object", `{}{"pit":1}`, false, false},
		{"trailing comma", `{"a":1,}`, false, false},
		{"bad escape in a key", `{"\x70it":1}`, false, false},
		{"yaml", "---\npit:\n  id: x\n", false, false},
		{"yaml flow", `{size: 1, "pit": {}}`, false, false},
		{"cbor", "\xa1cpit\xa0", false, false},
		{"smile", ":)\n\x00", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pit, readable := HasTopLevelPIT([]byte(tt.body))
			require.Equal(t, tt.readable, readable)
			require.Equal(t, tt.pit, pit)
		})
	}
}

func TestHasTopLevelPITDoesNotAllocate(t *testing.T) {
	body := []byte(`{"query":{"match":{"message":"time\"out"}},"size":10}`)
	require.Zero(t, testing.AllocsPerRun(100, func() { HasTopLevelPIT(body) }))
}

func FuzzHasTopLevelPIT(f *testing.F) {
	f.Add([]byte(`{"query":{"match":{"message":"timeout"}},"size":10}`))
	f.Add([]byte(`{"size":1,"pit":{"id":"x"}}`))
	f.Add([]byte(`{"\u0070it":[{"a":"\\\""}]}`))
	f.Add([]byte(` { "a" : { } , "pit" : -1.5e3 } `))
	f.Add([]byte(`{/* " */"a":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		pit, readable := HasTopLevelPIT(body)
		if !json.Valid(body) {
			return
		}
		var object map[string]json.RawMessage
		isObject := json.Unmarshal(body, &object) == nil && object != nil
		require.Equal(t, isObject, readable)
		_, has := object["pit"]
		require.Equal(t, has, pit)
	})
}

func BenchmarkHasTopLevelPIT(b *testing.B) {
	bodies := map[string]string{
		"query": `{"query":{"bool":{"must":[{"match":{"message":"timeout"}}],"filter":[{"range":{"@timestamp":{"gte":"now-1h"}}}]}},"size":10}`,
		"1MiB":  `{"query":{"terms":{"id":["` + strings.Repeat(`0123456789","`, 1<<20/13) + `"]}}}`,
	}
	for name, body := range bodies {
		b.Run(name, func(b *testing.B) {
			raw := []byte(body)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				HasTopLevelPIT(raw)
			}
		})
	}
}

func TestNamesPIT(t *testing.T) {
	for body, named := range map[string]bool{
		`{"pit":{"id":"x"}}`: true,
		`{"size":1,"query":{"match_all":{}},"pit":{"id":"`: true, // cut off
		`{"query":{"terms":{"a":[1,2,`:                     false,
		`{"query":{"match":{"pit":1}}}`:                    false,
		`{"query":{"match":{"a":"\"pit\""}}}`:              false,
		`["pit"]`:                                          false,
		`{"a":"pit"}`:                                      false,
		``:                                                 false,
	} {
		require.Equal(t, named, NamesPIT([]byte(body)), body)
	}
	for body, named := range map[string]bool{
		"{}\n{\"size\":1}\n{}\n{\"pit\":{\"id\":\"x\"}}\n": true,
		"{}\n{\"pit\":{\"id\":\"x\"}}\n{}\n{\"query\":":    true,
		"{\"pit\":1}\n{\"size\":1}\n":                      false, // a header
		"{}\n{\"size\":1}\n":                               false,
		"":                                                 false,
	} {
		require.Equal(t, named, ItemsNamePIT([]byte(body)), body)
	}
}
