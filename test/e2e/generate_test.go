package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"

	"sidestep/test/harness"
)

type object = map[string]any

// generator makes searches whose answers do not depend on which copy served:
// hits are ordered down to a unique field, and sums are those of integers.
type generator struct{ random *rand.Rand }

// targets are what searches are sent to; weights by repetition.
func targets() []string {
	return []string{
		"products", "products", "products", "products", "single", "routed", "logs-1,logs-2", "logs-*", "all-logs",
		"catalog", "cheap", "alphas", "*", "logs-*,-logs-2", "products,logs-1", "_all", "",
	}
}

func (g generator) pick(values ...string) string { return values[g.random.IntN(len(values))] }

func (g generator) word() string { return g.pick(harness.Words()...) }

func (g generator) category() string { return g.pick(harness.Words()[:harness.Categories]...) }

// search returns the next search.
func (g generator) search() search {
	s := search{target: g.pick(targets()...)}
	parameters := url.Values{}
	if s.target == "routed" && g.random.IntN(2) == 0 {
		parameters.Set("routing", g.pick(g.category(), g.category()+","+g.category()))
	}
	if g.random.IntN(8) == 0 {
		parameters.Set("request_cache", "false")
	}
	if g.random.IntN(10) == 0 {
		parameters.Set("search_type", "dfs_query_then_fetch")
	}
	if g.random.IntN(10) == 0 {
		parameters.Set("filter_path", "hits.hits._id,hits.total,_shards.total")
	}
	if g.random.IntN(6) == 0 {
		parameters.Set("q", "category:"+g.category()+" AND title:"+g.word())
		parameters.Set("sort", "n:"+g.pick("asc", "desc")+",_index:asc")
		parameters.Set("size", fmt.Sprint(g.random.IntN(20)))
		s.query = parameters.Encode()
		return s
	}
	s.query = parameters.Encode()
	s.body = g.body()
	s.method = g.pick(http.MethodPost, http.MethodPost, http.MethodGet)
	return s
}

func (g generator) body() string {
	body := object{"query": g.query()}
	tie := []any{object{"n": "asc"}, object{"_index": "asc"}}
	switch g.random.IntN(4) {
	case 0:
		body["size"] = 0
		body["aggs"] = g.aggregations()
	case 1:
		body["size"] = 5
		body["from"] = g.random.IntN(50)
		body["sort"] = append([]any{object{g.pick("price", "timestamp"): g.pick("asc", "desc")}}, tie...)
		body["_source"] = []string{"n", "price"}
	case 2:
		body["sort"] = append([]any{"_score"}, tie...)
		body["track_total_hits"] = g.random.IntN(2) == 0
		body["aggs"] = g.aggregations()
	default:
		body["sort"] = append([]any{object{"category": g.pick("asc", "desc")}}, tie...)
		body["track_total_hits"] = true
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // maps of strings and numbers always encode
	}
	return string(text)
}

func (g generator) query() object {
	switch g.random.IntN(5) {
	case 0:
		return object{"match_all": object{}}
	case 1:
		return object{"match": object{"title": object{"query": g.word() + " " + g.word(), "operator": g.pick("and", "or")}}}
	case 2:
		return object{"term": object{"category": g.category()}}
	case 3:
		from := g.random.IntN(80)
		return object{"range": object{"price": object{"gte": from, "lt": from + 10}}}
	default:
		return object{"bool": object{
			"must":   []any{object{"match": object{"title": g.word()}}},
			"filter": []any{object{"terms": object{"category": []string{g.category(), g.category()}}}},
		}}
	}
}

func (g generator) aggregations() object {
	switch g.random.IntN(3) {
	case 0:
		return object{"categories": object{
			"terms": object{"field": "category"},
			"aggs":  object{"sum": object{"sum": object{"field": "n"}}, "dearest": object{"max": object{"field": "price"}}},
		}}
	case 1:
		return object{"days": object{"date_histogram": object{"field": "timestamp", "fixed_interval": "12h", "min_doc_count": 1}}}
	default:
		return object{
			"prices":  object{"histogram": object{"field": "price", "interval": 25}},
			"kinds":   object{"cardinality": object{"field": "category"}},
			"average": object{"avg": object{"field": "n"}},
		}
	}
}

// padded returns a search body of at least size bytes.
func padded(size int) string {
	return `{"query":{"match":{"title":"alpha"}},"sort":["n"],` + strings.Repeat(" ", size) + `"size":3}`
}
