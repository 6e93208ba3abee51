package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// multi is a multi-search of these lines, each ended by a line feed.
func multi(path string, lines ...string) search {
	return search{
		method: http.MethodPost, path: path, body: strings.Join(lines, "\n") + "\n",
		headers: map[string]string{"Content-Type": "application/x-ndjson"},
	}
}

// header returns the header line of an item on the target, written in one of the
// ways that clients write it.
func (g generator) header(target string) string {
	header := object{}
	switch g.random.IntN(3) {
	case 0:
		header["index"] = target
	case 1:
		header["index"] = strings.Split(target, ",")
	default:
		header["indices"] = target
	}
	if target == "" {
		header = object{}
	}
	if target == "routed" && g.random.IntN(2) == 0 {
		header["routing"] = g.category()
	}
	switch g.random.IntN(10) {
	case 0:
		header["preference"] = "_local"
	case 1:
		header["preference"] = "session-" + g.word()
	case 2:
		header["search_type"] = "dfs_query_then_fetch"
	case 3:
		header["ignore_unavailable"] = true
	}
	text, err := json.Marshal(header)
	if err != nil {
		panic(err) // maps of strings always encode
	}
	if g.random.IntN(4) == 0 {
		return strings.ReplaceAll(string(text), ":", " : ") + " "
	}
	return string(text)
}

// multiSearch returns the next multi-search, and of how many items. The target of
// the path is that of the items without one.
func (g generator) multiSearch() (s search, items int) {
	var lines []string
	for range 1 + g.random.IntN(6) {
		target := g.pick(append(targets(), "", "", "nowhere", "products,nowhere", "-products,", "remote:products")...)
		lines = append(lines, g.header(target), g.body())
	}
	if g.random.IntN(3) == 0 { // never first: engines disagree
		lines = append(lines, "", g.body())
	}
	s = multi(g.pick("/_msearch", "/_msearch", "/logs-*/_msearch", "/single/_msearch"), lines...)
	s.query = g.pick("", "", "max_concurrent_searches=2", "typed_keys=true", "filter_path=responses.hits,responses.error.type,responses.status")
	if g.random.IntN(5) == 0 {
		s.body = strings.ReplaceAll(s.body, "\n", "\r\n")
		s.body = strings.ReplaceAll(s.body, "\n\r\n", "\n{}\r\n") // an empty header is no line of white space
	}
	return s, len(lines) / 2
}

// items returns how many searches in multi-searches were counted with this reason,
// all if it is empty.
func items(t *testing.T, reason string) int {
	t.Helper()
	labels := map[string]string{"reason": reason}
	if reason == "" {
		labels = nil
	}
	return int(sum(t, "sidestep_msearch_items_total", labels))
}

func TestGeneratedMultiSearches(t *testing.T) {
	for _, target := range targets() {
		learned(t, target)
	}
	g := generator{rand.New(rand.NewPCG(2, 2026))}
	reasons, total, found, failed := map[string]int{}, 0, 0, 0
	ranked, all := items(t, "ranked"), items(t, "")
	for range 100 {
		s, n := g.multiSearch()
		got := requireSame(t, s)
		require.Equal(t, http.StatusOK, got.status, "%s\n%s", s, got.body)
		reasons[got.decision.Reason]++
		var answer struct {
			Responses []struct {
				results
				Status int `json:"status"`
			} `json:"responses"`
		}
		require.NoError(t, json.Unmarshal(got.body, &answer))
		require.Len(t, answer.Responses, n, "%s\n%s", s, got.body)
		for _, r := range answer.Responses {
			found += len(r.Hits.Hits)
			if r.Status != http.StatusOK {
				failed++
			}
		}
		total += n
	}
	t.Logf("decisions about 100 multi-searches: %v; %d items, %d of them ranked, %d failed", reasons, total, items(t, "ranked")-ranked, failed)
	require.Greater(t, found, 500, "the searches find too little to compare")
	require.Greater(t, failed, 20, "too few items fail to compare errors")
	require.GreaterOrEqual(t, reasons["ranked"]+reasons["affinity"], 60, "steered multi-searches")
	require.Greater(t, items(t, "ranked")-ranked, 150, "steered items")
	require.LessOrEqual(t, items(t, "")-all, total)
}

// What engines tolerate in the framing of lines, and what they refuse.
func TestMultiSearchFraming(t *testing.T) {
	learned(t, "single")
	const header, body = `{"index":"single"}`, `{"size":2,"sort":["n"]}`
	raw := func(body string) search {
		s := multi("/single/_msearch")
		s.body = body
		return s
	}
	for name, s := range map[string]search{
		"crlf":              raw(header + "\r\n" + body + "\r\n"),
		"leading line feed": raw("\n" + header + "\n" + body + "\n"),
		"two of them":       raw("\n\n" + body + "\n" + header + "\n" + body + "\n"),
		"empty header":      multi("/single/_msearch", header, body, "", body),
		"blank header":      multi("/single/_msearch", header, body, " ", body),
		"empty body":        multi("/single/_msearch", header, "", header, body),
		"header too many":   multi("/single/_msearch", header, body, header),
		"only a header":     multi("/single/_msearch", header),
		"no last line feed": raw(header + "\n" + body),
		"nothing":           raw(""),
		"unknown key":       multi("/_msearch", header, body, `{"index":"single","nonsense":1}`, body),
		"twice":             multi("/_msearch", header, body, `{"index":"single","index":"products"}`, body),
		"both keys":         multi("/_msearch", header, body, `{"index":"single","indices":"single"}`, body),
		"not JSON":          multi("/_msearch", header, body, `{"index":`, body),
		"two objects":       multi("/_msearch", header, body, header+header, body),
		"list":              multi("/_msearch", header, body, `["single"]`, body),
		"bad body":          multi("/_msearch", header, `{"size":`, header, body),
		"bad query":         multi("/_msearch", header, body, header, `{"query":{"nonsense":{}}}`),
		"bad value":         multi("/_msearch", header, body, `{"index":"single","request_cache":"maybe"}`, body),
		"no such type":      multi("/_msearch", header, body, `{"index":"single","search_type":"nonsense"}`, body),
		"null":              multi("/_msearch", header, body, `{"index":null,"preference":null,"routing":null}`, body),
		"number":            multi("/_msearch", header, body, `{"index":7,"preference":7,"routing":7}`, body),
		"empty index":       multi("/single/_msearch", header, body, `{"index":""}`, `{"size":0}`),
		"empty list":        multi("/single/_msearch", header, body, `{"index":[]}`, `{"size":0}`),
		"comma in a list":   multi("/_msearch", header, body, `{"index":["single,products"]}`, body),
		"empty preference":  multi("/_msearch", `{"preference":"","index":"single"}`, body),
		"empty routing":     multi("/routed/_msearch", `{"routing":""}`, `{"size":0}`, `{"routing":"alpha"}`, `{"size":0}`),
		"date math":         multi("/_msearch", header, body, `{"index":"<single{now/d}>"}`, body),
		"escapes":           multi("/_msearch", `{"index":"s\u0069ngle","routing":"\u00e9"}`, body),
		"surrogate":         multi("/_msearch", `{"index":"single","routing":"\ud83d"}`, body),
		"no such keyword":   multi("/_msearch", header, body, `{"index":"single","preference":"_nonsense"}`, body),
		"pit and target":    multi("/_msearch", header, body, header, `{"pit":{"id":"x"}}`),
		"in the URL":        {method: http.MethodPost, path: "/_msearch", query: "preference=x", body: header + "\n" + body + "\n"},
		"as int, inexact":   {method: http.MethodPost, path: "/_msearch", query: "rest_total_hits_as_int=true", body: header + "\n" + `{"track_total_hits":5}` + "\n"},
		"GET":               {method: http.MethodGet, path: "/_msearch", query: "rest_total_hits_as_int=true", body: header + "\n" + body + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := requireSame(t, s)
			t.Logf("%d, %s", got.status, got.decision.Reason)
		})
	}
}

func TestMultiSearchOfAPointInTime(t *testing.T) {
	learned(t, "products")
	opened := directly(t, openPIT("products")).results(t)
	pit, err := json.Marshal(object{"id": opened.ES + opened.OS})
	require.NoError(t, err)
	got := requireSame(t, multi("/_msearch", `{"index":"products"}`, `{"size":1,"sort":["n"]}`,
		`{}`, `{"size":1,"sort":["n"],"pit":`+string(pit)+`}`))
	require.Equal(t, http.StatusOK, got.status, "%s", got.body)
	require.Equal(t, "ranked", got.decision.Reason, "the other item is steered")
	require.NotContains(t, string(got.body), `"error"`)
}

// Elasticsearch is tested without the module that renders templates.
func TestMultiSearchTemplates(t *testing.T) {
	learned(t, "products")
	s := multi("/products/_msearch/template",
		`{}`, `{"source":{"query":{"match":{"title":"{{word}}"}},"sort":["n"],"size":3},"params":{"word":"alpha"}}`,
		`{"index":"logs-*"}`, `{"source":"{\"query\":{\"match\":{\"title\":\"{{word}}\"}},\"sort\":[\"n\",\"_index\"]}","params":{"word":"beta"}}`,
		`{"index":"nowhere"}`, `{"source":{"size":0}}`,
		`{}`, `{"id":"no-such-template"}`,
	)
	got := requireSame(t, s)
	if lacks(t, "template language", s) {
		return
	}
	require.Equal(t, http.StatusOK, got.status, "%s", got.body)
	require.Equal(t, "ranked", got.decision.Reason)
	require.Equal(t, 2, strings.Count(string(got.body), `"_shards"`), "%s", got.body)
}

// The nodes' own counters say that the items' preferences reach the engine.
func TestMultiSearchIsServedByTheNodesNamed(t *testing.T) {
	learned(t, "single")
	var got *answer
	servedAlone(t, 10, func() {
		got = through(t, multi("/single/_msearch", `{}`, `{"size":1}`, `{"index":"single"}`, `{"size":2}`, `{"indices":["single"]}`, `{"size":3}`))
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
	}, func(served map[string]int) { requireNamed(t, got.decision, 3, served) })
}
