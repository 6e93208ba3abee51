package main

import "strings"

func (g *generator) async() request {
	r := request{method: "POST", uri: g.pick(below(g.pick(plainTargets()...), "_async_search"), "/_plugins/_asynchronous_search?index=products")}
	if g.one(4) {
		return request{method: g.pick("GET", "DELETE"), uri: "/_async_search/broken"}
	}
	r.param("wait_for_completion_timeout=30s&keep_on_completion=false")
	return withJSON(r, g.body())
}

func (g *generator) searchShards() request {
	r := request{method: g.pick("GET", "POST"), uri: below(g.target(), "_search_shards")}
	g.which(&r)
	if g.one(4) {
		r.param(g.pick("routing=alpha", "local=true", "preference=_shards:0", "preference=_only_nodes:@node1@,@node2@,@node3@", "unknown=1"))
	}
	return r
}

func (g *generator) fieldCaps() request {
	r := request{method: g.pick("GET", "POST"), uri: below(g.target(), "_field_caps") + "?fields=" + g.pick("*", "n", "title,price", "ghost", "")}
	g.which(&r)
	if g.one(8) {
		r.param(g.pick("include_unmapped=true", "preference=_local", "pretty", "filter_path=fields.n"))
	}
	return r
}

func (g *generator) validate() request {
	r := request{method: g.pick("GET", "POST"), uri: below(g.pick("products", "single", "catalog", "ghost", "logs-1", "closed"), "_validate/query")}
	if g.one(3) {
		r.param(g.pick("explain=true", "preference=_local", "q=title:(", "rewrite=true"))
	}
	return withJSON(r, object{"query": g.query()})
}

func (g *generator) rankEval() request {
	r := request{method: "POST", uri: below(g.pick("products", "single", "ghost"), "_rank_eval")}
	if g.one(4) {
		r.param(g.pick("preference=_local", "search_type=dfs_query_then_fetch"))
	}
	return withJSON(r, object{
		"requests": []any{object{"id": "r", "request": object{"query": g.query(), "sort": []any{"n"}}, "ratings": []any{object{"_index": "products", "_id": "1", "rating": 1}}}},
		"metric":   object{"precision": object{"k": 5, "relevant_rating_threshold": 1}},
	})
}

// unsupported asks for what takes no preference, or what only one engine has.
func (g *generator) unsupported() request {
	r := request{method: g.pick("POST", "GET"), uri: g.pick("/products/_terms_enum", "/products/_mvt/geo/1/0/0", "/products/_eql/search", "/_query", "/_sql", "/_plugins/_sql",
		"/products/_knn_search", "/_search/point_in_time/_all?preference=x", "/products/_graph/explore", "/_render/template", "/products/_rollup_search", "/_scripts/ghost")}
	if g.one(4) {
		r.param("preference=_local")
	}
	return withJSON(r, object{"field": "category", "string": "al", "query": g.query()})
}

func (g *generator) cat() request {
	return request{method: "GET", uri: g.pick(
		"/_cat/indices/logs-*,products?h=index,pri,rep,docs.count&s=index", "/_cat/indices/logs-1?v&h=index,docs.count", "/_cat/aliases?v&s=alias,index", "/_cat/count/products?h=count",
		"/_cat/shards/products?h=index,shard,prirep,state,docs&s=shard,prirep", "/_cat/nodes?h=name,node.role&s=name", "/_cat", "/_cat/health?h=cluster,status,node.total",
		"/_cat/indices/products?format=json&h=index,pri", "/_cat/indices/products?format=yaml&h=index,pri", "/_cat/templates?h=name&s=name", "/_cat/indices/ghost", "/_cat/ghost",
		"/_cat/indices?help", "/_cat/shards/products?format=cbor&h=index,shard,prirep&s=shard,prirep", "/_cat/count?h=nonsense", "/_cat/plugins?h=component", "/_cat/nodes?preference=x",
		"/_cat/indices/logs-2?h=index,rep", "/_cat/indices/products?h=index&format=smile", "/_cat/indices/products?v=true;h=index",
	)}
}

func (g *generator) clusterRead() request {
	r := request{method: "GET", uri: g.pick(
		"/", "/products", "/products/_mapping", "/products/_settings", "/logs-*/_settings?flat_settings=true&filter_path=**.number_of_shards", "/_alias/catalog", "/catalog/_alias",
		"/_cluster/health/products?filter_path=status,number_of_nodes", "/products/_mapping/field/n", "/_resolve/index/prod*", "/_cluster/settings", "/ghost/_mapping", "/_alias/ghost",
		"/products/_analyze?text=Alpha+Beta", "/_analyze", "/_ingest/pipeline/ghost", "/_nodes/_all/http?filter_path=_nodes", "/products/_stats/docs?filter_path=_all.primaries.docs", "/_index_template/*?filter_path=index_templates.name",
		"/_cluster/state/metadata/products?filter_path=metadata.indices.*.state", "/_data_stream/stream?filter_path=data_streams.name", "/_nodes/http?filter_path=nodes.*.name", "/_remote/info",
	)}
	if g.one(4) {
		r.param(g.pick("pretty", "human", "format=yaml", "flat_settings", "unknown=1", "local=true"))
	}
	if g.one(6) {
		r.method = "HEAD"
	}
	g.heads(&r)
	return r
}

// malformed makes requests that no engine understands, or hardly. A path that does
// not decode is not among them: Go's server answers that with a 400 of its own.
func (g *generator) malformed() request {
	r := request{method: g.pick("POST", "GET"), uri: g.pick("/products/_search", "/_search", "/products/_count", "/logs-*/_search", "/_msearch", "/products/_search/template", "/_mget", "/products/_explain/1",
		"/products//_search", "//products/_search", "/products/_search/", "/products/_search//", "/products/../products/_search", "/products/./_search", "/products/_search?", "/%2Fproducts/_search",
		"/products/_search/x", "/products/type/_search", "/products/_search%2F", "/products/_se%61rch", "/_search/scroll", "/pro%C3%A4ducts/_search", "/products/_search?%",
		"/products/_search?preference=%zz", "/products/_search?preference=%%", "/products;x/_search", "/products/_search;size=1", "/products/_search?q=%E4", "/"+strings.Repeat("a", 300)+"/_search", "/products/_explain/"+strings.Repeat("x", 600),
		"/products/_search?q="+strings.Repeat("y", 3000), "/products/_search?q="+strings.Repeat("y", 5000), "/_search?size=0&"+strings.Repeat("&", 50))}
	if g.one(3) {
		return r
	}
	r.body = g.pick(`{"query":`, `{"query":{}}`, "[]", "null", `"x"`, "1", "{}{}", "{\"query\":\x00}", `{"size":1,"size":2}`, `{"a":`+strings.Repeat("[", 2000)+"}", " ", "\n\n", "{", `{"query":{"match_all":{}},}`,
		`{"size":0}`, `{"size":1,"sort":["n","_index"]}`, "not JSON at all", `{"query":{"match":{"title":"\ud800"}}}`, "\xef\xbb\xbf{\"size\":0}", `{"size":0} trailing`)
	r.set("Content-Type", g.pick("application/json", "application/json", "application/json", "", "text/plain", "application/cbor", "application/smile", "application/yaml", "application/x-ndjson", "x", "application/json; charset=latin1"))
	if g.one(12) { // in CBOR the error would quote an offset in a buffer that is used again
		r.body = "\xff\xfe"
		r.set("Content-Type", g.pick("application/json", "application/smile", "application/yaml", "text/plain"))
	}
	if g.one(10) {
		r.set("Content-Encoding", g.pick("gzip", "deflate", "br"))
	}
	return r
}

// method asks with methods that do not fit.
func (g *generator) method() request {
	r := request{method: g.pick("PUT", "DELETE", "PATCH", "OPTIONS", "OPTIONS", "HEAD", "HEAD", "POST", "TRACE", "NONSENSE", "get"),
		uri: g.pick("/products/_search", "/_search", "/products/_count", "/products/_doc/1/_x", "/_msearch", "/products/_search/template", "/_cat/indices/products?h=index", "/", "/products/_explain/1",
			"/_cluster/health?filter_path=status", "/products/_validate/query", "/_nodes/_local?filter_path=x", "/ghost/_nothing", "/_search/scroll", "/products/_pit", "/products/_source/1", "/products/_mget", "/products/_termvectors/1", "/_field_caps")}
	if r.method == "DELETE" && r.uri == "/_search/scroll" {
		r.uri = "/_search/scroll/broken" // without an id it would clear the other side's
	}
	if g.one(4) && r.method != "DELETE" {
		r = withJSON(r, object{"size": 0})
	}
	return r
}
