package es

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestMGetDocuments(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want []Document
	}{
		"ids":              {`{"ids":["1", 2 ,true]}`, []Document{{"idx", "1", "r"}, {"idx", "2", "r"}, {"idx", "true", "r"}}},
		"docs":             {`{"docs":[{"_id":"1"},{"_index":"b","_id":7,"routing":"x"}]}`, []Document{{"idx", "1", "r"}, {"b", "7", "x"}}},
		"both":             {` { "ids" : [ ] , "docs" : [ { "_id" : "1" } ] } `, []Document{{"idx", "1", "r"}}},
		"other keys":       {`{"docs":[{"_source":{"a":["}"]},"stored_fields":["x"],"_id":"1","version":3,"_type":"_doc"}]}`, []Document{{"idx", "1", "r"}}},
		"null is nothing":  {`{"docs":[{"_index":null,"_id":"1","routing":null}]}`, []Document{{"idx", "1", "r"}}},
		"escapes":          {`{"ids":["\u00e4\ud83d\ude00\n"]}`, []Document{{"idx", "ä😀\n", "r"}}},
		"none":             {`{}`, nil},
		"last of the same": {`{"docs":[{"_id":"1","_id":"2"}]}`, []Document{{"idx", "2", "r"}}},
	} {
		t.Run(name, func(t *testing.T) {
			docs, ok := MGetDocuments([]byte(tc.body), "idx", "r")
			require.True(t, ok)
			require.Equal(t, tc.want, docs)
		})
	}
	for name, body := range map[string]string{
		"nothing": ``, "no object": `["1"]`, "cut off": `{"ids":["1"`, "cut off later": `{"ids":["1"]`, "two": `{"ids":["1"]}{}`,
		"comment": `{/* */"ids":["1"]}`, "unknown key": `{"ids":["1"],"x":1}`, "ids is a string": `{"ids":"1"}`,
		"docs is an object": `{"docs":{}}`, "id is an object": `{"ids":[{}]}`, "doc is a string": `{"docs":["1"]}`,
		"no id": `{"docs":[{"_index":"a"}]}`, "null id": `{"ids":[null]}`, "empty id": `{"ids":[""]}`,
		"empty routing": `{"docs":[{"_id":"1","routing":""}]}`, "half a character": `{"ids":["\ud83d"]}`,
		"not UTF-8": "{\"ids\":[\"\xff\"]}", "compressed": "\x1f\x8b\x08\x00",
	} {
		t.Run(name, func(t *testing.T) {
			_, ok := MGetDocuments([]byte(body), "idx", "r")
			require.False(t, ok)
		})
	}
	_, ok := MGetDocuments([]byte(`{"ids":["1"]}`), "", "")
	require.False(t, ok, "a document without an index")
}

// What is read as documents is read so by another JSON parser, too.
func FuzzMGetDocuments(f *testing.F) {
	f.Add([]byte(`{"ids":["1",2]}`))
	f.Add([]byte(`{"docs":[{"_id":"1"},{"_index":"b","_id":"x","routing":"y","_source":["a"]}]}`))
	f.Add([]byte(`{"docs":[{"_index":null,"_id":"\u00e4","routing":null}],"ids":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		docs, ok := MGetDocuments(body, "idx", "r")
		if !ok {
			return
		}
		for _, doc := range docs {
			require.NotEmpty(t, doc.Index)
			require.NotEmpty(t, doc.ID)
			require.True(t, utf8.ValidString(doc.ID))
		}
		var parsed struct {
			Docs []map[string]any `json:"docs"`
			IDs  []any            `json:"ids"`
		}
		if json.Unmarshal(body, &parsed) != nil {
			return // laxer inside what it skips
		}
		for i, doc := range parsed.Docs {
			id, isText := doc["_id"].(string)
			if isText && len(parsed.IDs) == 0 && len(parsed.Docs) == len(docs) {
				require.Equal(t, id, docs[i].ID)
			}
		}
	})
}

func TestKeepsDocument(t *testing.T) {
	for body, want := range map[string]bool{
		"": true, `{}`: true, `{"fields":["a"],"filter":{"routing":1}}`: true,
		`{"doc":{}}`: false, `{"_id":"2"}`: false, `{"_index":"b"}`: false, `{"routing":"x"}`: false, "---\n_id: 2": false, `{"fields":`: false,
	} {
		require.Equal(t, want, KeepsDocument([]byte(body)), body)
	}
}
