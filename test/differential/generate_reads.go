package main

import (
	"fmt"
	"strings"
)

func (g *generator) count() request {
	r := request{method: g.pick("POST", "GET"), uri: below(g.target(), "_count")}
	g.options(&r)
	if g.one(10) {
		r.param(g.pick("filter_path=count", "format=yaml", "format=cbor", "pretty", "filter_path=-_shards", "error_trace"))
	}
	if g.one(8) {
		r.param("q=" + g.pick("category:"+g.category(), "title:"+g.word(), "("))
		return r
	}
	g.heads(&r)
	switch {
	case g.one(8):
	case g.one(15):
		r = withContent(r, encode(g.mistake()))
	default:
		r = withContent(r, encode(object{"query": g.query()}))
	}
	return r
}

// msearch makes a list of searches, some of them broken.
func (g *generator) msearch() request {
	r := request{method: g.pick("POST", "POST", "GET"), uri: "/_msearch"}
	if g.one(3) {
		r.uri = below(g.pick(plainTargets()...), "_msearch")
	}
	if g.one(4) {
		r.param(g.pick("typed_keys=true", "rest_total_hits_as_int=true", "max_concurrent_searches=1", "pretty", "ccs_minimize_roundtrips=false",
			"search_type=dfs_query_then_fetch", "max_concurrent_shard_requests=2", "pre_filter_shard_size=1"))
	}
	if g.one(25) {
		r.param(g.pick("preference=_local", "unknown=1", "routing=alpha", "index=single"))
	}
	g.careless = g.one(6)
	if g.one(10) {
		g.ordered = true
		r.param("filter_path=" + g.pick("responses.hits.hits._id", "-took", "responses.status", "-responses._shards"))
	}
	r.set("Content-Type", g.pick("application/x-ndjson", "application/x-ndjson", "application/json", "application/vnd.elasticsearch+x-ndjson;compatible-with=8"))
	r.body = g.lines(1+g.IntN(6), func() string { return encode(g.body()) })
	if g.one(15) {
		r.body = g.breakLines(r.body)
	}
	if g.one(25) {
		return zipped(r)
	}
	return r
}

// lines is an NDJSON body of n items.
func (g *generator) lines(n int, body func() string) string {
	var b strings.Builder
	end := "\n"
	if g.one(20) {
		end = "\r\n"
	}
	for range n {
		b.WriteString(g.itemHeader() + end + body() + end)
	}
	return b.String()
}

// itemHeader is the header line of one search of an _msearch.
func (g *generator) itemHeader() string {
	if g.careless && g.one(2) {
		return g.pick("{}", "", "{ }", `{"index":[]}`, `{"index":""}`, `{"index":null}`, `{"indices":"logs-1"}`, `{"index":"products","sise":1}`,
			`{"index" : [ "logs-1" , "single" ] }`, `{"index":"products","preference":null}`, `{"index":"products","preference":"x","preference":"y"}`,
			`{"index":"products","index":"logs-1"}`, `{"Index":"products"}`, `{"index":1}`, `{"index":"prod\u0075cts"}`, `{"index":"products"} `)
	}
	header := object{}
	if !g.one(6) {
		target := g.target()
		if target == "" || strings.Contains(target, "%") {
			target = "products"
		}
		header["index"] = target
		if g.one(4) {
			header["index"] = strings.Split(target, ",")
		}
	}
	if g.one(6) {
		header["preference"] = g.pick("session-7", "abc", "_local", "_prefer_nodes:@node1@", "_only_nodes:@node1@,@node2@,@node3@", "_nonsense", "")
	}
	if g.one(8) {
		header["routing"] = g.pick(g.category(), g.category()+","+g.category())
	}
	if g.one(10) {
		header["search_type"] = g.pick("query_then_fetch", "dfs_query_then_fetch")
	}
	if g.one(10) {
		header["ignore_unavailable"] = true
	}
	if g.one(16) {
		header["expand_wildcards"] = g.pick("open", "all", "none", "closed")
	}
	if g.one(16) {
		header[g.pick("request_cache", "allow_no_indices", "ccs_minimize_roundtrips", "allow_partial_search_results")] = g.one(2)
	}
	return encode(header)
}

// breakLines breaks the framing of an NDJSON body.
func (g *generator) breakLines(body string) string {
	switch g.IntN(5) {
	case 0:
		return strings.TrimSuffix(body, "\n")
	case 1:
		return "\n" + body
	case 2:
		return body + "{}\n"
	case 3:
		return body[:len(body)/2]
	default:
		return strings.Replace(body, "\n", "\n\n", 1)
	}
}

// templateBody is a search template with its parameters.
func (g *generator) templateBody() object {
	if g.one(12) {
		return object{"id": "ghost", "params": object{"c": "alpha"}}
	}
	if g.one(4) {
		return object{"id": "by-category", "params": object{"c": g.category()}}
	}
	return object{
		"source": `{"query":{"term":{"category":"{{c}}"}},"sort":["n","_index"],"size":{{s}}` + g.pick("", "", `,"aggs":{"k":{"sum":{"field":"n"}}}`) + `}`,
		"params": object{"c": g.category(), "s": g.IntN(8)},
	}
}

func (g *generator) template() request {
	r := request{method: g.pick("POST", "GET"), uri: below(g.target(), "_search/template")}
	g.options(&r)
	g.shape(&r)
	return withJSON(r, g.templateBody())
}

func (g *generator) msearchTemplate() request {
	r := request{method: "POST", uri: g.pick("/_msearch/template", "/products/_msearch/template")}
	r.set("Content-Type", "application/x-ndjson")
	r.body = g.lines(1+g.IntN(4), func() string { return encode(g.templateBody()) })
	return r
}

// document returns a target and id for reads by id, and the routing they take.
func (g *generator) document(r *request, path string) {
	target := g.pick("products", "single", "routed", "logs-1", "catalog", "lonely", "cheap")
	if g.one(4) {
		target = g.pick("mixed", "all-logs", "twice", "alphas", "ghost", "closed", "%3Cday-%7Bnow%2Fd%7D%3E", "stream", "logs-*", "empty")
	}
	r.uri = "/" + target + "/" + path + "/" + g.id()
	if target == "routed" || g.one(20) {
		r.param("routing=" + g.category())
	}
	if g.one(8) {
		r.param("preference=" + g.pick("session-7", "_local", "_prefer_nodes:@node2@", "_nonsense", "", "_only_nodes:@node1@,@node2@,@node3@"))
	}
	if g.one(8) {
		r.param(g.pick("_source=false", "_source=n", "_source_excludes=n", "realtime=false", "stored_fields=n", "version=1", "version=99", "pretty",
			"format=yaml", "format=cbor", "filter_path=_id", "unknown=1", "error_trace", "_source_includes=title&pretty", "x=%zz", "version=-4"))
	}
}

func (g *generator) get() request {
	r := request{method: g.pick("GET", "GET", "GET", "HEAD")}
	g.document(&r, "_doc")
	g.heads(&r)
	return r
}

func (g *generator) source() request {
	r := request{method: g.pick("GET", "GET", "HEAD")}
	g.document(&r, "_source")
	return r
}

func (g *generator) explain() request {
	r := request{method: g.pick("GET", "POST")}
	g.document(&r, "_explain")
	if g.one(6) {
		r.param("q=title:" + g.word())
		return r
	}
	return withJSON(r, object{"query": g.query()})
}

func (g *generator) termVectors() request {
	r := request{method: g.pick("GET", "POST")}
	g.document(&r, "_termvectors")
	switch g.IntN(4) {
	case 0:
		r.uri = "/" + g.pick("products", "single") + "/_termvectors" // of a document that is not there
		return withJSON(r, object{"doc": object{"title": g.word() + " " + g.word()}, "term_statistics": g.one(2)})
	case 1:
		return withJSON(r, object{"fields": []string{"title"}, "term_statistics": true, "positions": false})
	case 2:
		r.param("fields=title")
	}
	return r
}

func (g *generator) mget() request {
	r := request{method: g.pick("POST", "GET"), uri: below(g.pick("", "", "products", "single", "routed", "catalog", "all-logs", "ghost"), "_mget")}
	if g.one(8) {
		r.param(g.pick("_source=false", "realtime=false", "preference=_local", "preference=session-7", "routing=alpha", "pretty", "filter_path=docs._id", "format=yaml", "unknown=1"))
	}
	if g.one(3) {
		return withJSON(r, object{"ids": []string{fmt.Sprint(g.IntN(300)), fmt.Sprint(g.IntN(300)), "ghost"}})
	}
	return withJSON(r, object{"docs": g.documents()})
}

// documents are items of an _mget or _mtermvectors.
func (g *generator) documents() []any {
	var docs []any
	for range 1 + g.IntN(6) {
		doc := object{"_id": fmt.Sprint(g.IntN(300))}
		if !g.one(6) {
			doc["_index"] = g.pick("products", "products", "single", "logs-1", "catalog", "routed", "ghost", "alphas", "all-logs", "closed")
		}
		if doc["_index"] == "routed" || g.one(10) {
			doc["routing"] = g.category()
		}
		docs = append(docs, doc)
	}
	if g.one(15) {
		docs = append(docs, object{"_index": "products"}, object{"_id": 7, "_index": "products"})
	}
	return docs
}

func (g *generator) mtermVectors() request {
	r := request{method: g.pick("POST", "GET"), uri: below(g.pick("", "products", "single"), "_mtermvectors")}
	if g.one(3) {
		r.param("ids=1,2,3")
		return r
	}
	return withJSON(r, object{"docs": g.documents()})
}
