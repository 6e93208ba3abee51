package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
)

// search makes a search with all that may come with it.
func (g *generator) search() request {
	r := request{method: g.pick("POST", "POST", "GET"), uri: below(g.target(), "_search")}
	g.options(&r)
	g.shape(&r)
	g.heads(&r)
	switch {
	case g.one(12):
		r.method = "GET"
		g.uriSearch(&r)
	case g.one(40):
		g.otherBody(&r)
	case g.one(50):
	default:
		r = withContent(r, encode(g.body()))
	}
	return r
}

// withContent gives a request a JSON body, and the type unless it has one.
func withContent(r request, body string) request {
	r.body = body
	for _, h := range r.header {
		if h.name == "Content-Type" {
			return r
		}
	}
	r.set("Content-Type", "application/json")
	return r
}

// options adds parameters that say which copies are searched, and how.
func (g *generator) options(r *request) {
	g.which(r)
	if g.one(6) {
		r.param("preference=" + g.pick("session-7", "abc", "user%2042", "_local", "_only_nodes:@node1@,@node2@,@node3@",
			"_prefer_nodes:@node1@", "_prefer_nodes:@node2@,@node3@", "_only_nodes:node-*", "_shards:0", "_shards:0%7C_local",
			"_nonsense", "", "_only_nodes:ghost", "%E2%82%AC", "_primary"))
	}
	if g.one(10) {
		r.param("routing=" + g.pick(g.category(), g.category()+","+g.category(), "", "a%2Cb"))
	}
	if g.one(12) {
		r.param(g.pick("search_type=dfs_query_then_fetch", "search_type=query_then_fetch", "search_type=bogus"))
	}
	if g.one(15) {
		r.param(g.pick("request_cache=false", "request_cache=true", "batched_reduce_size=2", "max_concurrent_shard_requests=1",
			"pre_filter_shard_size=1", "allow_partial_search_results=false", "timeout=30s", "ccs_minimize_roundtrips=true",
			"cancel_after_time_interval=30s", "ignore_throttled=false", "ignore_throttled=true"))
	}
	if g.one(25) {
		g.odd(r)
	}
}

// which adds parameters that say which indices a target stands for.
func (g *generator) which(r *request) {
	if g.one(10) {
		r.param(g.pick("ignore_unavailable=true", "ignore_unavailable=false", "ignore_unavailable", "ignore_unavailable=maybe"))
	}
	if g.one(14) {
		r.param("allow_no_indices=" + g.pick("true", "false", "false"))
	}
	if g.one(14) {
		r.param("expand_wildcards=" + g.pick("open", "closed", "hidden", "all", "none", "open,closed", "open%2Chidden", "bogus", ""))
	}
}

// odd adds what no client should send, and some does.
func (g *generator) odd(r *request) {
	odd := g.pick(";size=3", "&&size=2", "size=1&size=2", "=x", "size", "size=", "sise=3", "unknown=1;other", "q=100%%", "%71=title:alpha",
		"routing=alpha&routing=beta", "preference=a&preference=b", "x=%zz", "from=-1", "size=1e1", "Preference=_local", "size=3&", "index=logs-1",
		"preference=_only_nodes:@node1@;preference=s", "+size=2", "source=%7B%22size%22%3A1%7D&source_content_type=application%2Fjson", "size=3#size=4")
	separator := "?"
	if strings.Contains(r.uri, "?") {
		separator = g.pick("&", ";", "&&", "&;")
	}
	r.uri += separator + odd
}

// shape adds parameters that change the form of the answer.
func (g *generator) shape(r *request) {
	if g.one(8) {
		g.ordered = true
		r.param("filter_path=" + g.pick("hits.hits._id,hits.total", "-took", "hits.hits.sort,_shards", "-_shards", "**._id", "hits.total", "ghost", "",
			"-hits.hits._source", "took,hits.max_score", "_shards.failed,hits.hits"))
	}
	if g.one(12) {
		g.ordered = true
		r.param("format=" + g.pick("json", "yaml", "cbor", "smile", "JSON", "text", "txt", "", "bogus"))
	}
	if g.one(8) {
		r.param(g.pick("pretty", "pretty=true", "pretty=false", "human", "error_trace", "error_trace=true", "typed_keys", "typed_keys=true",
			"rest_total_hits_as_int=true", "pretty&human&error_trace", "pretty=maybe"))
	}
}

// heads adds request headers.
func (g *generator) heads(r *request) {
	if g.one(10) {
		r.set("Accept", g.pick("application/json", "application/yaml", "application/cbor", "application/smile", "*/*", "text/plain", "text/html",
			"application/vnd.elasticsearch+json;compatible-with=8", "application/vnd.elasticsearch+json; compatible-with=7",
			"application/json, text/plain, */*", "application/vnd.opensearch+json", "image/png", "application/json;charset=utf-8"))
	}
	if g.one(6) {
		r.set("Accept-Encoding", g.pick("gzip", "gzip", "deflate", "gzip, deflate", "br", "zstd", "identity", "gzip;q=0", "*", ""))
	}
	if g.one(12) {
		r.set("X-Opaque-Id", g.pick("client-1", "a b", "ä"))
	}
	if g.one(20) {
		r.set(g.pick("Authorization", "traceparent", "User-Agent", "Cookie", "X-Forwarded-For", "Cache-Control", "If-None-Match", "Range"),
			g.pick("Basic dXNlcjpwYXNz", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "bytes=0-5", "*"))
	}
	switch {
	case g.one(15):
		r.set("Transfer-Encoding", "chunked")
	case g.one(30):
		r.set("Expect", "100-continue")
	}
	// Ranks do not show in every format.
	for _, h := range r.header {
		if h.name == "Accept" {
			g.ordered = true
		}
	}
	if g.one(15) {
		r.set("Content-Type", g.pick("application/json; charset=utf-8", "application/vnd.elasticsearch+json;compatible-with=8", "text/plain",
			"application/x-www-form-urlencoded", "application/x-ndjson", "application/yaml", "nonsense"))
	}
}

// uriSearch puts the search into parameters.
func (g *generator) uriSearch(r *request) {
	r.param("q=" + g.pick("category:"+g.category(), "title:"+g.word()+"+AND+"+g.word(), g.word(), "n:%5B1+TO+50%5D", "price:%3C10", "title:(", "*"))
	if g.ordered || g.one(2) {
		r.param("sort=" + g.pick("n:asc,_index:asc", "n:desc,_index", "price,n,_index"))
	}
	if g.one(3) {
		r.param(fmt.Sprintf("size=%d", g.IntN(20)))
	}
	if g.one(8) {
		r.param(g.pick("df=title", "default_operator=AND", "lenient=true", "analyze_wildcard=true", "_source=false", "_source=n,price",
			"stored_fields=_none_", "docvalue_fields=n", "track_scores=true", "version=true", "seq_no_primary_term=true", "explain=true",
			"track_total_hits=false", "track_total_hits=5", "from=5", "_source_includes=n"))
	}
}

// zipped compresses the body of a request.
func zipped(r request) request {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, r.body)
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // a buffer takes everything
	}
	r.body = b.String()
	r.set("Content-Encoding", "gzip")
	return r
}

// otherBody gives the search a body that is not JSON.
func (g *generator) otherBody(r *request) {
	g.ordered = true
	switch g.IntN(6) {
	case 0:
		r.body = "---\nsize: 2\nsort: [n, _index]\nquery:\n  term:\n    category: " + g.category() + "\n"
		r.set("Content-Type", "application/yaml")
	case 1: // {"size":2,"sort":["n","_index"]}
		r.body = "\xa2\x64size\x02\x64sort\x82\x61n\x66_index"
		r.set("Content-Type", "application/cbor")
	case 2: // the same
		r.body = ":)\n\x00\xfa\x83size\xc4\x83sort\xf8\x40n\x45_index\xf9\xfb"
		r.set("Content-Type", "application/smile")
	case 3:
		*r = zipped(withContent(*r, encode(g.body())))
	case 4: // more than is held for a second try
		*r = withContent(*r, strings.Replace(encode(g.body()), "{", "{"+padding, 1))
	default:
		r.body = "{ // as the engines' lenient parsers take it, or not\n \"size\": 1, 'sort': [\"n\"]}"
		r.set("Content-Type", "application/json")
	}
}

// body is a search that is right, but for one in twenty.
func (g *generator) body() object {
	body := object{"query": g.query()}
	tie := []any{object{"n": g.pick("asc", "desc")}, object{"_index": "asc"}}
	switch form := g.IntN(7); {
	case form == 0:
		body["size"] = 0
		body["aggs"] = g.aggregations()
	case g.ordered || form < 4:
		body["sort"] = append([]any{g.key()}, tie...)
	case form == 4: // by score, ties as they come
	default: // many ties
		body["sort"] = []any{object{g.pick("category", "price"): g.pick("asc", "desc")}}
	}
	if g.one(3) {
		body["size"] = g.IntN(30)
		if g.one(3) {
			body["from"] = g.IntN(60)
		}
	}
	if g.one(3) {
		maps.Copy(body, g.extras())
	}
	if g.one(6) {
		body["aggs"] = g.aggregations()
	}
	if g.one(20) {
		maps.Copy(body, g.mistake())
	}
	return body
}

// key is what hits are ordered by first.
func (g *generator) key() any {
	if g.one(4) {
		return "_score"
	}
	return object{g.pick("price", "timestamp", "category"): g.pick("asc", "desc")}
}

// extras change what the hits carry.
func (g *generator) extras() object {
	all := []object{
		{"track_total_hits": true}, {"track_total_hits": false}, {"track_total_hits": 7}, {"_source": false}, {"_source": []string{"n", "price"}},
		{"explain": true}, {"version": true, "seq_no_primary_term": true}, {"docvalue_fields": []string{"n", "timestamp"}},
		{"highlight": object{"fields": object{"title": object{}}}}, {"stored_fields": "_none_"}, {"fields": []string{"cat*"}},
		{"post_filter": object{"term": object{"category": g.category()}}}, {"min_score": 0.5}, {"timeout": "30s"}, {"profile": false},
		{"suggest": object{"s": object{"text": "alpa", "term": object{"field": "title"}}}}, {"indices_boost": []any{object{"logs-1": 1.3}}},
		{"runtime_mappings": object{}}, {"track_scores": true},
	}
	if g.ordered {
		return object{}
	}
	return all[g.IntN(len(all))]
}

// mistake makes a search wrong.
func (g *generator) mistake() object {
	all := []object{
		{"query": object{"nonsense": object{}}}, {"sise": 3}, {"size": -1}, {"from": 20000}, {"size": "x"}, {"sort": []any{"ghost"}},
		{"sort": []any{"title"}}, {"aggs": object{"a": object{"terms": object{"field": "title"}}}}, {"query": object{"range": object{"n": object{"gte": "x"}}}},
		{"aggs": object{"a": object{"nonsense": object{}}}}, {"pit": object{"id": "broken"}}, {"pit": object{}}, {"slice": object{"id": 0, "max": 2}},
		{"search_after": []any{1}}, {"query": object{"query_string": object{"query": "("}}}, {"query": nil}, {"preference": "_local"},
		{"script_fields": object{"x": object{"script": "1 +"}}}, {"collapse": object{"field": "title"}},
	}
	return all[g.IntN(len(all))]
}

func (g *generator) query() object {
	switch g.IntN(8) {
	case 0:
		return object{"match_all": object{}}
	case 1:
		return object{"match": object{"title": object{"query": g.word() + " " + g.word(), "operator": g.pick("and", "or")}}}
	case 2:
		return object{"term": object{"category": g.category()}}
	case 3:
		from := g.IntN(80)
		return object{"range": object{"price": object{"gte": from, "lt": from + 10}}}
	case 4:
		return object{"match_phrase": object{"title": g.word() + " " + g.word()}}
	case 5:
		return object{"ids": object{"values": []string{"1", "2", fmt.Sprint(g.IntN(300)), "ghost"}}}
	case 6:
		return object{"constant_score": object{"filter": object{"prefix": object{"category": g.category()[:2]}}}}
	default:
		return object{"bool": object{
			"must":   []any{object{"match": object{"title": g.word()}}},
			"filter": []any{object{"terms": object{"category": []string{g.category(), g.category()}}}},
		}}
	}
}

// aggregations are those whose numbers do not depend on the order of summation.
func (g *generator) aggregations() object {
	switch g.IntN(6) {
	case 0:
		return object{"categories": object{
			"terms": object{"field": "category", "size": 3 + g.IntN(8)},
			"aggs":  object{"sum": object{"sum": object{"field": "n"}}, "dearest": object{"max": object{"field": "price"}}},
		}}
	case 1:
		return object{"days": object{"date_histogram": object{"field": "timestamp", "fixed_interval": "12h", "min_doc_count": 1}}}
	case 2:
		return object{"top": object{"terms": object{"field": "category"}, "aggs": object{
			"hit": object{"top_hits": object{"size": 2, "sort": []any{object{"n": "asc"}, "_index"}, "_source": "n"}},
		}}}
	case 3:
		return object{"pages": object{"composite": object{"size": 5, "sources": []any{object{"c": object{"terms": object{"field": "category"}}}}}}}
	case 4:
		return object{"some": object{"filter": object{"term": object{"category": g.category()}}, "aggs": object{"s": object{"stats": object{"field": "n"}}}}}
	default:
		return object{
			"prices":  object{"histogram": object{"field": "price", "interval": 25}},
			"kinds":   object{"cardinality": object{"field": "category"}},
			"average": object{"avg": object{"field": "n"}},
		}
	}
}
