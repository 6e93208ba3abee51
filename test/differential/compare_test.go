package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func jsonAnswer(body string) answer {
	return answer{status: 200, header: http.Header{"Content-Type": {"application/json"}}, body: []byte(body)}
}

func TestDiffer(t *testing.T) {
	page := func(hits string) string {
		return `{"took":3,"_shards":{"total":5,"skipped":0,"failed":0},"hits":{"total":{"value":9,"relation":"eq"},"hits":[` + hits + `]}}`
	}
	const a, b, c, d = `{"_id":"a","_score":2.0}`, `{"_id":"b","_score":1.0}`, `{"_id":"c","_score":1.0}`, `{"_id":"d","_score":0.5}`
	for name, tc := range map[string]struct {
		want, got string
		uri       string
		how       string // part of what is said, "" if the same
	}{
		"the same":          {page(a), page(a), "", ""},
		"another took":      {`{"took":3,"x":1}`, `{"took":14,"x":1}`, "", ""},
		"another skipped":   {`{"_shards":{"skipped":0}}`, `{"_shards":{"skipped":3}}`, "", ""},
		"an error from far": {`{"reason":"parse_exception: x"}`, `{"reason":"x"}`, "", ""},
		"another error":     {`{"reason":"parse_exception: x"}`, `{"reason":"y"}`, "", ".reason"},
		"a text in pieces": {
			`{"reason":"Unexpected (''\n at [Source: (byte[])\"{ 'a': 1}\"; line: 2, column: 13]"}`,
			`{"reason":"Unexpected (''\n at [Source: (org.x.Reference$1); line: 2, column: 13]"}`, "", "",
		},
		"another place of a text": {
			`{"reason":"\n at [Source: (byte[])\"{ 'a': 1}\"; line: 2, column: 13]"}`,
			`{"reason":"\n at [Source: (byte[])\"{ 'a': 1}\"; line: 2, column: 14]"}`, "", ".reason",
		},
		"another id of an index":     {`{"reason":"index [a/FZxMaLGpS9-paiAAWYw10A] exists"}`, `{"reason":"index [a/w_buieRbSSa46aRcxuKg0Q] exists"}`, "", ""},
		"causes listed twice":        {`{"failed_shards":[{"reason":{"type":"a"}}]}`, `{"failed_shards":[{"index":"i","reason":{"type":"a"}},{"reason":{"type":"a"}}]}`, "", ""},
		"one cause quoted":           {`{"failed_shards":[{"reason":{"type":"a"}}],"caused_by":{"type":"a"}}`, `{"failed_shards":[{"reason":{"type":"a"}}]}`, "", ""},
		"another cause":              {`{"failed_shards":[{"reason":{"type":"a"}}]}`, `{"failed_shards":[{"reason":{"type":"b"}}]}`, "", "failed_shards"},
		"failed shards":              {`{"_shards":{"failed":0}}`, `{"_shards":{"failed":1}}`, "", "_shards.failed"},
		"other white space":          {`{"x":1}`, `{"x": 1}`, "", "other bytes"},
		"other order of keys":        {`{"x":1,"y":2}`, `{"y":2,"x":1}`, "", "other bytes"},
		"a float in another form":    {`{"x":1.0}`, `{"x":1}`, "", ".x: 1.0, through sidestep: 1"},
		"a key more":                 {`{"x":1}`, `{"x":1,"y":1}`, "", "keys"},
		"cut off":                    {`{"x":1}`, `{"x":1`, "", "at byte 6"},
		"equals in another order":    {page(a + "," + b + "," + c + "," + d), page(a + "," + c + "," + b + "," + d), "", ""},
		"others among equals":        {page(a + "," + b + "," + c + "," + d), page(a + "," + b + "," + b + "," + d), "", "hits[1:3]"},
		"cut off equals":             {page(a + "," + b), page(a + "," + c), "", ""},
		"cut off, but another rank":  {page(a + "," + b), page(a + "," + d), "", "ranks as"},
		"cut off, but fewer":         {page(a + "," + b), page(a), "", "2 hits, through sidestep: 1"},
		"the first of a page":        {page(b + "," + d), page(c + "," + d), "", "hits[0:1]"},
		"the first of a later page":  {page(b + "," + d), page(c + "," + d), "/_search?from=1", ""},
		"all hits are there":         {`{"hits":{"total":1,"hits":[` + b + `]}}`, `{"hits":{"total":1,"hits":[` + c + `]}}`, "", "hits[0:1]"},
		"without ranks":              {`{"hits":{"hits":[{"_id":"a"}]}}`, `{"hits":{"hits":[{"_id":"b"}]}}`, "", "hits[0:1]"},
		"equals by sort values":      {page(`{"_id":"a","sort":[1]},{"_id":"b","sort":[1]},{"_id":"c","sort":[2]}`), page(`{"_id":"b","sort":[1]},{"_id":"a","sort":[1]},{"_id":"c","sort":[2]}`), "", ""},
		"the same id, another field": {page(a + `,{"_id":"b","_score":1.0,"x":1},` + d), page(a + `,{"_id":"b","_score":1.0,"x":2},` + d), "", "hits[1:2]"},
		"buckets have an order":      {`{"buckets":[{"key":1},{"key":2}]}`, `{"buckets":[{"key":2},{"key":1}]}`, "", "buckets[0].key"},
		"copies have none":           {`{"shards":[[{"node":"x","shard":0},{"shard":1}]]}`, `{"shards":[[{"shard":1},{"node":"y","shard":0}]]}`, "/i/_search_shards", ""},
	} {
		t.Run(name, func(t *testing.T) {
			how := differ(jsonAnswer(tc.want), jsonAnswer(tc.got), request{method: "GET", uri: tc.uri})
			if tc.how == "" {
				require.Empty(t, how)
			} else {
				require.Contains(t, how, tc.how)
			}
		})
	}
}

func TestDifferInHeads(t *testing.T) {
	with := func(change func(*answer)) answer {
		a := jsonAnswer(`{}`)
		change(&a)
		return a
	}
	for name, tc := range map[string]struct {
		got    answer
		method string
		how    string
	}{
		"status":         {with(func(a *answer) { a.status = 404 }), "GET", "status: 200, through sidestep: 404"},
		"no answer":      {with(func(a *answer) { a.err = errors.New("reset") }), "GET", "error"},
		"header more":    {with(func(a *answer) { a.header.Set("Date", "today") }), "GET", "header Date"},
		"header less":    {with(func(a *answer) { a.header.Del("Content-Type") }), "GET", "header Content-Type"},
		"charset":        {with(func(a *answer) { a.header.Set("Content-Type", "application/json; charset=UTF-8") }), "GET", "header Content-Type"},
		"length appears": {with(func(a *answer) { a.header.Set("Content-Length", "2") }), "GET", "header Content-Length"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, differ(jsonAnswer(`{}`), tc.got, request{method: tc.method}), tc.how)
		})
	}
	down := answer{err: errors.New("EOF")}
	require.Contains(t, differ(down, jsonAnswer(`{}`), request{}), "error", "an answer where the engine gives none")
	require.Empty(t, differ(down, with(func(a *answer) { a.status = 502 }), request{}), "it says so")
	length := func(n string) answer { return with(func(a *answer) { a.header.Set("Content-Length", n) }) }
	require.Empty(t, differ(length("1"), length("2"), request{method: "GET"}), "it follows the length of the took")
	require.NotEmpty(t, differ(length("1"), length("2"), request{method: "HEAD"}))
	warnings := func(w ...string) answer { return with(func(a *answer) { a.header["Warning"] = w }) }
	require.Empty(t, differ(warnings("a", "b"), warnings("b", "a"), request{}))
	require.NotEmpty(t, differ(warnings("a", "b"), warnings("a"), request{}))
	require.NotEmpty(t, differ(warnings(`299 Elasticsearch-9.2.0-1 "old"`), warnings(), request{}))
	require.Empty(t, differ(warnings("a", `299 OpenSearch-3.6.0-1 "old"`), warnings("a"), request{}), "each node tells it once")
}

func TestMaskedFormats(t *testing.T) {
	of := func(contentType, body string) answer {
		return answer{status: 200, header: http.Header{"Content-Type": {contentType}}, body: []byte(body)}
	}
	for contentType, bodies := range map[string][3]string{
		"application/yaml":    {"---\ntook: 3\n_node: \"a\"\nx: 1\n", "---\ntook: 12\n_node: \"b\"\nx: 1\n", "---\ntook: 3\n_node: \"a\"\nx: 2\n"},
		"application/cbor":    {"\xbf\x64took\x03\x61x\x01\xff", "\xbf\x64took\x19\x01\x00\x61x\x01\xff", "\xbf\x64took\x03\x61x\x02\xff"},
		"application/smile":   {":)\n\x05\xfa\x83took\xc6\x80x\xc2\xfb", ":)\n\x05\xfa\x83took\x24\x01\x8a\x80x\xc2\xfb", ":)\n\x05\xfa\x83took\xc6\x80x\xc4\xfb"},
		"application/smile;x": {":)\n\x05\xfa\x80x\x42669\xfb", ":)\n\x05\xfa\x80x\x81669\xfb", ":)\n\x05\xfa\x80x\x42668\xfb"},
		"text/plain":          {"a 1", "a 1", "a  1"},
		"application/smile; node": {
			":)\n\x05\xfa\x83nodeUa3JacYHESQaHwV9fyN1diw\x80xC\xfb", ":)\n\x05\xfa\x83nodeUfUYRoJtqSy6_ZaKLFfQfNA\x80xC\xfb",
			":)\n\x05\xfa\x83nodeUfUYRoJtqSy6_ZaKLFfQfNA\x80xD\xfb",
		},
	} {
		t.Run(contentType, func(t *testing.T) {
			require.Empty(t, differ(of(contentType, bodies[0]), of(contentType, bodies[1]), request{}), "another took")
			require.Contains(t, differ(of(contentType, bodies[0]), of(contentType, bodies[2]), request{}), "at byte")
		})
	}
}

func TestCompressedBodiesAreCompared(t *testing.T) {
	zip := func(body string) answer {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write([]byte(body))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		a := jsonAnswer(b.String())
		a.header.Set("Content-Encoding", "gzip")
		return a
	}
	require.Empty(t, differ(zip(`{"took":1}`), zip(`{"took":22}`), request{}))
	require.NotEmpty(t, differ(zip(`{"x":1}`), zip(`{"x":2}`), request{}))
	require.NotEmpty(t, differ(zip(`{"x":1}`), jsonAnswer(`{"x":1}`), request{}))
}

func TestJudge(t *testing.T) {
	good, otherGood := jsonAnswer(`{"x":1}`), jsonAnswer(`{"x":2}`)
	part := jsonAnswer(`{"_shards":{"total":5,"successful":4,"skipped":0,"failed":0}}`)
	missing, down := jsonAnswer(`{}`), jsonAnswer(`{}`)
	missing.status, down.status = 404, 503
	for name, tc := range map[string]struct {
		before, it, after answer
		want              finding
	}{
		"the same":                {good, good, good, fine},
		"like the one before":     {good, good, otherGood, fine},
		"like the one after":      {part, good, good, fine},
		"another one":             {good, otherGood, good, other},
		"between two of its kind": {good, jsonAnswer(`{"x":3}`), otherGood, undecided},
		"partial":                 {good, part, good, worse},
		"missing":                 {good, missing, otherGood, worse},
		"missing after partial":   {part, missing, good, worse},
		"down":                    {missing, down, missing, worse},
		"no answer":               {good, answer{err: errors.New("reset")}, good, worse},
		"down like the next":      {good, down, down, fine},
		"better":                  {down, good, missing, fine},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, judge(tc.before, tc.it, tc.after, request{}))
		})
	}
}

func TestBeyondChance(t *testing.T) {
	require.False(t, beyondChance(0, 0))
	require.False(t, beyondChance(3, 0), "too few to tell")
	require.True(t, beyondChance(12, 0))
	require.False(t, beyondChance(20, 15))
	require.True(t, beyondChance(60, 15))
}

func TestWhatWasForOneShardIsNotCompared(t *testing.T) {
	const begin, end = `{"reason":"[six][0] Not enough active copies, request: [BulkShardRequest [[six][0]] containing `, `"}`
	want := placeless([]byte(begin + `[2] requests and a refresh]` + end))
	require.Equal(t, string(want), string(placeless([]byte(begin+`[index {[six][a_b], source[{\"n\":[1],\"t\":\"x}]\"}]}] and a refresh]`+end))))
	require.NotEqual(t, string(want), string(placeless([]byte(`{"reason":"[six][0] Not enough active copies"}`))))
}
