package es

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func response(tb testing.TB, name string) []byte {
	tb.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", "responses", name))
	require.NoError(tb, err)
	return body
}

func TestScanHeadOfRealResponses(t *testing.T) {
	tests := []struct {
		file string
		want Head
	}{
		{"opensearch-3.6.json", Head{HasTook: true, Took: 50 * time.Millisecond, HasShards: true, Total: 5, Successful: 3, Missing: 2}},
		{"opensearch-3.6-pretty-phase-took.json", Head{HasTook: true, Took: 2 * time.Millisecond, HasShards: true, Total: 2, Successful: 2}},
		{"opensearch-3.6-scroll.json", Head{HasTook: true, Took: 3 * time.Millisecond, HasShards: true, Total: 2, Successful: 2}},
		{"partial.json", Head{
			HasTook: true, Took: 1204 * time.Millisecond, HasShards: true,
			Total: 6, Successful: 3, Failed: 3,
			FailedNodes: []string{"x-h-GsjMRiGiAfkq9F230w", "k3_pQlmVS0yqW1w2yJ4xZg"}, NoNode: true,
		}},
		{"filtered-shards-failed.json", Head{HasShards: true}},
		{"filtered-hits.json", Head{}},
		{"no-nodes.json", Head{}},
		{"yaml.txt", Head{}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			body := response(t, tt.file)
			h, done := ScanHead(body, true)
			require.True(t, done)
			require.Equal(t, tt.want, h)
			requireMonotonic(t, body)
		})
	}
}

// requireMonotonic checks that a prefix either asks for more or says what the
// whole body says.
func requireMonotonic(t *testing.T, body []byte) {
	t.Helper()
	whole, wholeDone := ScanHead(body, false)
	for n := range len(body) {
		h, done := ScanHead(body[:n], false)
		if done {
			require.True(t, wholeDone)
			require.Equal(t, whole, h, "after %d bytes", n)
		}
	}
}

func TestScanHeadStopsAtTheEndOfShards(t *testing.T) {
	body := response(t, "partial.json")
	end := bytes.Index(body, []byte(`,"_clusters"`))
	_, done := ScanHead(body[:end-1], false)
	require.False(t, done)
	h, done := ScanHead(body[:end], false)
	require.True(t, done)
	require.True(t, h.HasShards)
}

func TestScanHeadOfOtherBodies(t *testing.T) {
	tests := []struct {
		name, body string
		complete   bool
		done       bool
		want       Head
	}{
		{"nothing yet", "", false, false, Head{}},
		{"nothing at all", "", true, true, Head{}},
		{"hits first", `{"took":1,"hits":{`, false, true, Head{HasTook: true, Took: time.Millisecond}},
		{"took cut in the middle", `{"took":1`, false, false, Head{}},
		{"truncated for good", `{"took":1,"_shards":{"total":`, true, true, Head{HasTook: true, Took: time.Millisecond}},
		{"failed is known before its list ends", `{"_shards":{"total":2,"failed":1,"failures":[{"node":"a","reas`, false, false,
			Head{Total: 2, Failed: 1, FailedNodes: []string{"a"}}},
		{"cbor", "\xbfdtook\x01", false, true, Head{}},
		{"html", "<html>", false, true, Head{}},
		{"array", "[1]", true, true, Head{}},
		{"strange types", `{"took":"1","timed_out":{"a":true},"_shards":7}`, true, true, Head{}},
		{"took is not whole", `{"took":1.5,"_shards":{}}`, true, true, Head{HasShards: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, done := ScanHead([]byte(tt.body), tt.complete)
			require.Equal(t, tt.done, done)
			require.Equal(t, tt.want, h)
		})
	}
}

func TestScanHeadKeepsAFewFailedNodes(t *testing.T) {
	body := []byte(`{"_shards":{"failed":40,"failures":[`)
	for i := range 40 {
		body = append(body, `{"node":"n`+strconv.Itoa(i)+`"},`...)
	}
	body = append(body[:len(body)-1], "]}}"...)
	h, done := ScanHead(body, true)
	require.True(t, done)
	require.True(t, h.HasShards)
	require.Len(t, h.FailedNodes, maxFailedNodes)
}

func TestShardsWithoutAResult(t *testing.T) {
	for _, c := range []struct {
		shards   string
		lost     int
		noCopies bool
	}{
		{`{"total":5,"successful":5,"skipped":2,"failed":0}`, 0, false},
		{`{"total":5,"successful":4,"skipped":0,"failed":0}`, 1, true}, // OpenSearch, and Elasticsearch before 8.0
		{`{"total":5,"successful":3,"failed":1,"failures":[{"node":"a"}]}`, 2, false},
		{`{"total":5,"successful":4,"failed":1,"failures":[{"node":null}]}`, 1, true}, // Elasticsearch from 8.0 on
		{`{"total":5,"successful":3,"failed":2,"failures":[{"node":null},{"node":"a"}]}`, 2, false},
		{`{"total":5,"successful":4,"failed":1}`, 1, false}, // the client does not want to read of failures
		{`{"total":5,"failed":0}`, 0, false},
		{`{"failed":1}`, 1, false},
	} {
		h, done := ScanHead([]byte(`{"_shards":`+c.shards+`,"hits":{}}`), true)
		require.True(t, done)
		require.Equal(t, c.lost, h.Lost(), c.shards)
		require.Equal(t, c.noCopies, h.NoCopies(), c.shards)
	}
}

// A list of failures may be longer than the beginning that is read. How many there are stands before it.
func TestALongListOfFailuresIsKnownBeforeItEnds(t *testing.T) {
	list := strings.Repeat(`{"shard":1,"node":"a","reason":{}},`, 100)
	for shards, lost := range map[string]int{
		`{"total":200,"successful":80,"skipped":0,"failed":120,"failures":[`: 120,
		`{"total":200,"successful":80,"skipped":0,"failed":100,"failures":[`: 120,
	} {
		h, done := ScanHead([]byte(`{"took":1,"_shards":`+shards+list), false)
		require.False(t, done)
		require.False(t, h.HasShards)
		require.Equal(t, lost, h.Lost())
		require.Equal(t, []string{"a"}, h.FailedNodes)
	}
}

func TestScanHeadDoesNotAllocate(t *testing.T) {
	body := response(t, "opensearch-3.6-pretty-phase-took.json")
	require.Zero(t, testing.AllocsPerRun(100, func() { ScanHead(body, false) }))
}

func FuzzScanHead(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "responses", "*"))
	require.NoError(f, err)
	for _, file := range files {
		f.Add(response(f, filepath.Base(file)))
	}
	f.Add([]byte(`{"t\u006fok":3,"_shards":{"failures":[{"node":"a\n"}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) < 2048 {
			requireMonotonic(t, body)
		}
		h, done := ScanHead(body, true)
		require.True(t, done)
		if json.Valid(body) && utf8.Valid(body) {
			require.Equal(t, headByDecoder(body), h)
		}
	})
}

// headByDecoder is [ScanHead] for a whole valid body, built on encoding/json.
func headByDecoder(body []byte) (h Head) {
	for _, m := range membersByDecoder(body) {
		switch m.key {
		case "took":
			n, ok := wholeNumber(m.value)
			h.HasTook, h.Took = ok, time.Duration(n)*time.Millisecond
		case "_shards":
			if m.value[0] != '{' {
				return h
			}
			shardsByDecoder(&h, m.value)
			h.HasShards = true
			return h
		case "hits", "error":
			return h
		}
	}
	return h
}

func shardsByDecoder(h *Head, body []byte) {
	succeeded := false
	for _, m := range membersByDecoder(body) {
		n, _ := wholeNumber(m.value)
		switch m.key {
		case "total":
			h.Total = int(n)
		case "successful":
			h.Successful, succeeded = int(n), true
		case "failed":
			h.Failed = int(n)
		case "failures":
			var failures []json.RawMessage
			_ = json.Unmarshal(m.value, &failures) // anything else is no list
			for _, failure := range failures {
				for _, m := range membersByDecoder(failure) {
					var node string
					if m.key == "node" && m.value[0] != '"' {
						h.NoNode = true
					}
					if m.key != "node" || m.value[0] != '"' || json.Unmarshal(m.value, &node) != nil {
						continue
					}
					if len(h.FailedNodes) < maxFailedNodes && !slices.Contains(h.FailedNodes, node) {
						h.FailedNodes = append(h.FailedNodes, node)
					}
				}
			}
		}
	}
	if succeeded {
		h.Missing = max(0, h.Total-h.Successful-h.Failed)
	}
}

type member struct {
	key   string
	value json.RawMessage
}

// membersByDecoder lists the members of an object in order, duplicates and all.
func membersByDecoder(body []byte) (members []member) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return members
		}
		m := member{key: key.(string)}
		if dec.Decode(&m.value) != nil {
			return members
		}
		members = append(members, m)
	}
	return members
}

var digits = regexp.MustCompile(`^\d+$`)

func wholeNumber(raw []byte) (int64, bool) {
	if !digits.Match(raw) {
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0, false
	}
	return n, true
}

func BenchmarkScanHead(b *testing.B) {
	for _, file := range []string{"opensearch-3.6.json", "opensearch-3.6-pretty-phase-took.json", "partial.json"} {
		b.Run(file, func(b *testing.B) {
			body := response(b, file)
			b.ReportAllocs()
			for b.Loop() {
				ScanHead(body, false)
			}
		})
	}
}

func TestItemForbidden(t *testing.T) {
	const (
		refused = `{"error":{"root_cause":[],"type":"preference_based_search_not_allowed_exception","reason":"Preference type based routing not allowed with strict weighted shard routing enabled"},"status":403}`
		missing = `{"error":{"type":"index_not_found_exception","reason":"no such index [x]"},"status":404}`
		found   = `{"took":1,"_shards":{"total":1},"hits":{"hits":[{"_source":{"error":"Preference type based routing not allowed with strict weighted shard routing enabled"}}]},"status":200}`
	)
	for _, tc := range []struct {
		name, body      string
		item            int
		forbidden, done bool
	}{
		{"first", `{"took":2,"responses":[` + refused, 0, true, true},
		{"status first", `{"took":2,"responses":[{"status":403,` + refused[1:], 0, true, true},
		{"second", `{"took":2,"responses":[` + found + `,` + refused + `]}`, 1, true, true},
		{"another item's", `{"took":2,"responses":[` + refused + `,` + found + `]}`, 1, false, true},
		{"another error", `{"took":2,"responses":[` + missing, 0, false, true},
		{"found", `{"took":2,"responses":[{"took":1`, 0, false, true},
		{"cut short", `{"took":2,"responses":[` + refused[:60], 0, false, false},
		{"cut before", `{"took":2,"responses":[` + found[:60], 1, false, false},
		{"not so many", `{"took":2,"responses":[` + found + `]}`, 1, false, true},
		{"no responses", `{"error":{}}`, 0, false, true},
		{"not JSON", `took: 2`, 0, false, true},
		{"no list", `{"responses":{}}`, 0, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			forbidden, done := ItemForbidden([]byte(tc.body), false, tc.item)
			require.Equal(t, tc.forbidden, forbidden)
			require.Equal(t, tc.done, done)
			_, done = ItemForbidden([]byte(tc.body), true, tc.item)
			require.True(t, done)
		})
	}
}

// FuzzItemForbidden: what the beginning of an answer has decided, the rest does not
// change.
func FuzzItemForbidden(f *testing.F) {
	f.Add([]byte(`{"took":2,"responses":[{"took":1,"hits":{}},{"error":{"reason":"Preference type based routing not allowed with strict weighted shard routing enabled"},"status":403}]}`), 1, 60)
	f.Add([]byte(`{"responses":[{"status":403,"error":{}}]}`), 0, 20)
	f.Add([]byte(`{"error":{"type":"x"},"status":400}`), 0, 3)
	f.Fuzz(func(t *testing.T, body []byte, item, cut int) {
		if item < 0 || cut < 0 || cut > len(body) {
			return
		}
		whole, done := ItemForbidden(body, true, item)
		require.True(t, done)
		if early, done := ItemForbidden(body[:cut], false, item); done {
			require.Equal(t, whole, early)
		}
		require.True(t, !whole || IsWeightedRoutingError(body))
	})
}
