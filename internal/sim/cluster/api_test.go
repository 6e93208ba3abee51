package simcluster

import (
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestInfoByEngine(t *testing.T) {
	for engine, want := range map[string]struct{ number, distribution, product string }{
		OpenSearch:    {"3.6.0", "opensearch", ""},
		Elasticsearch: {"8.19.4", "", "Elasticsearch"},
	} {
		t.Run(engine, func(t *testing.T) {
			c := quick(t, func(o *Options) { o.Engine, o.Nodes = engine, 1 })
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URLs()[0], http.NoBody)
			require.NoError(t, err)
			res, err := client(t).Do(req)
			require.NoError(t, err)
			defer func() { require.NoError(t, res.Body.Close()) }()
			require.Equal(t, want.product, res.Header.Get("X-Elastic-Product"))
			o := object{}
			require.NoError(t, json.NewDecoder(res.Body).Decode(&o))
			require.Equal(t, want.number, o.at("version", "number"))
			distribution, _ := o.at("version", "distribution").(string)
			require.Equal(t, want.distribution, distribution)
		})
	}
}

func TestNodesInfo(t *testing.T) {
	c := quick(t, func(o *Options) { o.Attributes = []map[string]string{{"zone": "a"}, {"zone": "b"}} })
	state := ask(t, c.Nodes()[2], 200, "GET /_cluster/state/nodes?local=true")
	o := ask(t, c.Nodes()[0], 200, "GET /_nodes/http,os")
	for _, found := range []object{o, state} {
		require.Equal(t, map[string]any{"zone": "b"}, found.at("nodes", c.Nodes()[1].ID(), "attributes"))
		require.Equal(t, map[string]any{}, found.at("nodes", c.Nodes()[2].ID(), "attributes"))
	}
	for _, n := range c.Nodes() {
		require.Equal(t, n.Name(), o.at("nodes", n.ID(), "name"))
		require.Equal(t, n.URL(), "http://"+o.at("nodes", n.ID(), "http", "publish_address").(string))
		require.Equal(t, 2, o.number("nodes", n.ID(), "os", "allocated_processors"))
	}
	require.Equal(t, 5, o.number("_nodes", "successful"))
}

func TestCatShards(t *testing.T) {
	c := quick(t, func(o *Options) { o.RecoveryTime = time.Hour })
	require.NoError(t, c.Relocate("products", 0, c.Nodes()[0].ID(), c.Nodes()[3].ID()))
	require.NoError(t, c.CreateIndex(IndexSpec{Name: "wide", Replicas: 6}))
	rows := func(line string) []map[string]*string {
		_, raw := call(t, c.Nodes()[1], line)
		var rows []map[string]*string
		require.NoError(t, json.Unmarshal(raw, &rows), "%s", raw)
		return rows
	}
	all := rows("GET /_cat/shards/shop?format=json")
	require.Len(t, all, 10)
	require.Equal(t, "RELOCATING", *all[0]["state"])
	require.Equal(t, c.Nodes()[0].ID(), *all[0]["id"])
	require.Equal(t, "199", *all[0]["seq_no.max"])
	lonely := rows("GET /_cat/shards/wide?format=json")
	require.Len(t, lonely, 7)
	require.Equal(t, "UNASSIGNED", *lonely[6]["state"])
	for _, column := range []string{"id", "seq_no.max"} {
		require.Contains(t, lonely[6], column)
		require.Nil(t, lonely[6][column])
	}
	require.Empty(t, rows("GET /_cat/shards/none-*?format=json"))
	require.Equal(t, "index_not_found_exception", ask(t, c.Nodes()[0], 404, "GET /_cat/shards/none?format=json").at("error", "type"))
}

func TestClusterState(t *testing.T) {
	c := quick(t, nil)
	n := c.Nodes()[2]
	version := func() int { return ask(t, n, 200, "GET /_cluster/state/version?local=true").number("version") }
	changes := map[string]func() error{
		"create":   func() error { return c.CreateIndex(IndexSpec{Name: "new"}) },
		"alias":    func() error { return c.SetAlias("young", "new") },
		"settings": func() error { return c.SetAdaptive(true) },
		"relocate": func() error { return c.Relocate("products", 0, c.Nodes()[0].ID(), c.Nodes()[3].ID()) },
	}
	for _, name := range []string{"create", "alias", "settings", "relocate"} {
		before := version()
		require.NoError(t, changes[name](), name)
		require.Greater(t, version(), before, name)
	}
	require.NoError(t, c.DeleteIndex("new"))
	o := ask(t, n, 200, "GET /_cluster/state/routing_table,nodes/products?local=true")
	require.Len(t, o.at("nodes"), 5)
	require.Len(t, o.at("routing_table", "indices", "products", "shards"), 5)
	require.Nil(t, o.at("routing_table", "indices", "new"))
	require.Len(t, ask(t, n, 200, "GET /_cluster/state/nodes").at("nodes"), 5)
	meta := ask(t, n, 200, "GET /_cluster/state/metadata/products")
	require.Equal(t, 5, meta.number("metadata", "indices", "products", "routing_num_shards"))
	require.Equal(t, "green", ask(t, n, 200, "GET /_cluster/health").at("status"))
}

func TestSettingsSwitchAdaptive(t *testing.T) {
	c := quick(t, nil)
	n := c.Nodes()[0]
	for _, step := range []struct {
		body string
		want bool
	}{
		{`{"transient":{"cluster.routing.use_adaptive_replica_selection":true}}`, true},
		{`{"persistent":{"cluster":{"routing":{"use_adaptive_replica_selection":"false"}}}}`, true}, // transient wins
		{`{"transient":{"cluster.routing.use_adaptive_replica_selection":null}}`, false},
	} {
		require.Equal(t, true, ask(t, n, 200, "PUT /_cluster/settings", step.body).at("acknowledged"))
		require.Equal(t, step.want, c.state.Load().Adaptive, step.body)
	}
	require.Equal(t, "false", ask(t, n, 200, "GET /_cluster/settings").at("persistent", adaptiveSetting))
	ask(t, n, 400, "PUT /_cluster/settings", `{"transient":{"cluster.routing.use_adaptive_replica_selection":"maybe"}}`)
	require.Nil(t, ask(t, n, 200, "GET /_cluster/settings").at("transient", adaptiveSetting), "what was refused is not kept")
	ask(t, n, 400, "PUT /_cluster/settings", `{`)
}

func TestSearchShardsAgreesWithSearch(t *testing.T) {
	c := quick(t, nil)
	n := c.Nodes()[0]
	o := ask(t, n, 200, "GET /shop/_search_shards?local=true")
	require.Len(t, o.at("shards"), 5)
	require.Len(t, o.at("nodes"), 5)
	require.Equal(t, []any{"shop"}, o.at("indices", "products", "aliases"))
	require.Len(t, ask(t, n, 200, "GET /shop/_search_shards?routing=ann").at("shards"), 1)
	require.Equal(t, 1, ask(t, n, 200, "GET /shop/_search?routing=ann").number("_shards", "total"))
	require.Equal(t, "index_not_found_exception", ask(t, n, 404, "GET /none/_search_shards?local=true").at("error", "type"))
}

func TestSearchForms(t *testing.T) {
	c := quick(t, nil)
	n := c.Nodes()[0]
	for line, body := range map[string]string{
		"GET /_search":                                        "",
		"POST /products/_search":                              `{"query":{"match_all":{}},"size":3}`,
		"GET /shop/_search?size=3":                            "",
		"GET /prod*/_search?q=x;size=3":                       "",
		"GET //products//_search":                             `{"size":3}`,
		"POST /products/_search?preference=someone":           "",
		"POST /products/_search?preference=_prefer_nodes%3Ax": "",
	} {
		o := ask(t, n, 200, line, body)
		require.Equal(t, 5, o.number("_shards", "successful"), line)
		require.Zero(t, o.number("_shards", "failed"), line)
		require.Equal(t, 1000, o.number("hits", "total", "value"), line)
		first := o.at("hits", "hits").([]any)[0].(map[string]any)
		require.Equal(t, "0", first["_id"], line)
	}
	require.Equal(t, 1000, ask(t, n, 200, "GET /products/_count").number("count"))
	require.Zero(t, ask(t, n, 200, "GET /none-*/_search").number("_shards", "total"))
}

func TestSearchErrors(t *testing.T) {
	c := quick(t, nil)
	n := c.Nodes()[0]
	two := c.Nodes()[0].ID() + "," + c.Nodes()[1].ID()
	for line, want := range map[string]struct {
		status       int
		kind, reason string
	}{
		"GET /none/_search":                              {404, "index_not_found_exception", "no such index [none]"},
		"GET /products/_search?nonsense=1":               {400, "illegal_argument_exception", "request [/products/_search] contains unrecognized parameter: [nonsense]"},
		"GET /products/_search?preference=_only_nodes:x": {400, "illegal_argument_exception", "no data nodes with criteria [x] found for shard: [products][0]"},
		"GET /products/_search?preference=_only_nodes:" + two: {400, "illegal_argument_exception",
			"no data nodes with criterion [" + two + "] found for shard: [products][2]"},
		"GET /products/_search?preference=_best": {400, "illegal_argument_exception", "no Preference for [_best]"},
		"GET /_search/scroll?preference=x":       {400, "illegal_argument_exception", "request [/_search/scroll] contains unrecognized parameter: [preference]"},
		"GET /" + strings.Repeat("a", 4096):      {400, "too_long_http_line_exception", "An HTTP line is larger than 4096 bytes."},
		"GET /_nodes/_local/stats/indices/search,jvm": {400, "illegal_argument_exception",
			"request [/_nodes/_local/stats/indices/search,jvm] contains unrecognized index metric: [jvm]"},
	} {
		o := ask(t, n, want.status, line)
		require.Equal(t, want.status, o.number("status"))
		require.Equal(t, want.kind, o.at("error", "type"))
		require.Equal(t, want.reason, o.at("error", "reason"))
		cause := object(o.at("error", "root_cause").([]any)[0].(map[string]any))
		require.Equal(t, want.kind, cause.at("type"))
	}
	require.Equal(t, "no handler found for uri [/_nowhere] and method [GET]", ask(t, n, 400, "GET /_nowhere").at("error"))
	require.Equal(t, "parsing_exception", ask(t, n, 400, "POST /_search", `{"size":`).at("error", "type"))
}

func TestOnlyNodesAreServedByTheListed(t *testing.T) {
	c := quick(t, nil)
	nodes := c.Nodes()
	list := nodes[0].ID() + "," + nodes[2].ID() + "," + nodes[4].ID()
	for range 20 {
		ask(t, nodes[1], 200, "GET /products/_search?preference=_only_nodes:"+list)
	}
	require.Zero(t, nodes[1].Searches()+nodes[3].Searches())
	require.EqualValues(t, 100, nodes[0].Searches()+nodes[2].Searches()+nodes[4].Searches())
}

func TestExplainedHitsNameTheirNode(t *testing.T) {
	c := quick(t, nil)
	n := c.Nodes()[2]
	hits := ask(t, c.Nodes()[0], 200, "GET /products/_search?routing=x&explain=true").at("hits", "hits").([]any)
	require.NotEmpty(t, hits)
	hit := object(hits[0].(map[string]any))
	require.Regexp(t, `^\[products\]\[\d\]$`, hit.at("_shard"))
	require.Contains(t, c.byID, hit.at("_node"))

	require.NoError(t, c.CreateIndex(IndexSpec{Name: "one", Replicas: 4}))
	hits = ask(t, c.Nodes()[0], 200, "GET /one/_search?explain&preference=_only_nodes:"+n.ID()).at("hits", "hits").([]any)
	require.Equal(t, n.ID(), object(hits[0].(map[string]any)).at("_node"))
	plain := ask(t, c.Nodes()[0], 200, "GET /one/_search").at("hits", "hits").([]any)
	require.NotContains(t, plain[0], "_node")
}

func TestMultiSearch(t *testing.T) {
	c := quick(t, nil)
	body := `{"index":"products"}` + "\n" + `{"size":1}` + "\n" +
		`{"index":["none"]}` + "\n" + `{}` + "\n" +
		`{"preference":"_only_nodes:x"}` + "\n" + `{}` + "\n"
	o := ask(t, c.Nodes()[0], 200, "POST /shop/_msearch", body)
	responses := o.at("responses").([]any)
	var statuses []int
	for _, r := range responses {
		statuses = append(statuses, object(r.(map[string]any)).number("status"))
	}
	require.Equal(t, []int{200, 404, 400}, statuses)
}

// What is wrong with the lines of one item fails the whole request.
func TestMultiSearchFraming(t *testing.T) {
	item := `{"index":"products"}` + "\n" + `{"size":1}` + "\n"
	for engine, statuses := range map[string]map[string]int{
		OpenSearch: {
			item: 200, "\n" + item: 200, item + item[:21]: 200, item + "\n{}\n": 200, strings.TrimSpace(item): 400, item[:21]: 400, "": 400,
			item + "{\"nonsense\":1}\n{}\n": 400, item + "{\"index\":\n{}\n": 400, item + "{}\n{\n": 400,
			item + "{\"preference\":\"x\"}\n{\"pit\":{\"id\":\"x\"}}\n": 400,
		},
		Elasticsearch: {item: 200, "\n{}\n" + item: 200, "\nnot JSON\n" + item: 400},
	} {
		c := quick(t, func(o *Options) { o.Engine = engine })
		for body, status := range statuses {
			ask(t, c.Nodes()[0], status, "POST /_msearch", body)
		}
	}
}

func TestMultiSearchTargets(t *testing.T) {
	c := quick(t, nil)
	require.NoError(t, c.CreateIndex(IndexSpec{Name: "more", Shards: 2}))
	headers := []string{`{}`, `{"indices":["products"]}`, `{"index":""}`, `{"index":[]}`, `{"routing":"a"}`, `{"index":"more,shop"}`}
	responses := ask(t, c.Nodes()[0], 200, "POST /products/_msearch", strings.Join(headers, "\n{}\n")+"\n{}\n").at("responses").([]any)
	var shards []int
	for _, r := range responses {
		shards = append(shards, object(r.(map[string]any)).number("_shards", "total"))
	}
	require.Equal(t, []int{5, 5, 7, 7, 1, 7}, shards, "an empty target stands for all indices")
}

func TestMultiSearchOfAPointInTime(t *testing.T) {
	c := quick(t, nil)
	id := ask(t, c.Nodes()[0], 200, "POST /products/_search/point_in_time?keep_alive=1m").at("pit_id").(string)
	responses := ask(t, c.Nodes()[0], 200, "POST /_msearch", "{}\n{\"pit\":{\"id\":\""+id+"\"}}\n").at("responses").([]any)
	require.Equal(t, 5, object(responses[0].(map[string]any)).number("_shards", "successful"))
}

func TestMultiSearchOfTemplates(t *testing.T) {
	c := quick(t, nil)
	body := "{}\n" + `{"source":"{\"size\":{{n}}}","params":{"n":2}}` + "\n{}\n{}\n"
	responses := ask(t, c.Nodes()[0], 200, "POST /products/_msearch/template", body).at("responses").([]any)
	require.Len(t, object(responses[0].(map[string]any)).at("hits", "hits"), 2)
	require.Equal(t, 400, object(responses[1].(map[string]any)).number("status"))
}

func TestStrictWeightsRefusePreferencesForNodes(t *testing.T) {
	c := quick(t, nil)
	c.SetStrictWeights(true)
	n := c.Nodes()[0]
	ask(t, n, 403, "POST /products/_search?preference=_only_nodes:"+n.ID())
	ask(t, n, 200, "POST /products/_search?preference=_local")
	body := "{\"preference\":\"_prefer_nodes:" + n.ID() + "\"}\n{}\n{}\n{}\n"
	responses := ask(t, n, 200, "POST /products/_msearch", body).at("responses").([]any)
	require.Equal(t, 403, object(responses[0].(map[string]any)).number("status"))
	require.Equal(t, 200, object(responses[1].(map[string]any)).number("status"))
	c.SetStrictWeights(false)
	ask(t, n, 200, "POST /products/_search?preference=_only_nodes:"+n.ID()+","+c.Nodes()[1].ID()+","+c.Nodes()[2].ID()+","+c.Nodes()[3].ID()+","+c.Nodes()[4].ID())
}

func TestScrollKeepsItsNodes(t *testing.T) {
	c := quick(t, nil)
	n := c.Nodes()[0]
	list := c.Nodes()[0].ID() + "," + c.Nodes()[2].ID() + "," + c.Nodes()[4].ID()
	first := ask(t, n, 200, "POST /products/_search?scroll=1m&size=400&preference=_only_nodes:"+list)
	body := func(o object) string { return `{"scroll":"1m","scroll_id":"` + o.at("_scroll_id").(string) + `"}` }
	second := ask(t, c.Nodes()[1], 200, "POST /_search/scroll", body(first))
	third := ask(t, n, 200, "POST /_search/scroll", body(second))
	require.Len(t, first.at("hits", "hits"), 400)
	require.Len(t, second.at("hits", "hits"), 400)
	require.Len(t, third.at("hits", "hits"), 200)
	require.Zero(t, c.Nodes()[1].Searches()+c.Nodes()[3].Searches())
	require.Equal(t, true, ask(t, n, 200, "DELETE /_search/scroll", body(third)).at("succeeded"))
	ask(t, n, 400, "POST /_search/scroll", `{"scroll_id":"?"}`)
}

func TestPointInTime(t *testing.T) {
	c := quick(t, nil)
	n := c.Nodes()[0]
	id := ask(t, n, 200, "POST /products/_search/point_in_time?keep_alive=1m").at("pit_id").(string)
	body := `{"pit":{"id":"` + id + `"}}`
	require.Equal(t, 5, ask(t, n, 200, "POST /_search", body).number("_shards", "successful"))
	ask(t, n, 400, "POST /_search?preference=x", body)
	ask(t, n, 400, "POST /products/_search", body)
}

func TestSearchTemplate(t *testing.T) {
	c := quick(t, nil)
	n := c.Nodes()[0]
	body := `{"source":{"query":{"match_all":{}},"size":"{{size}}"},"params":{"size":3}}`
	ask(t, n, 400, "POST /products/_search/template", body) // a size that is a text
	body = `{"source":"{\"size\":{{size}}}","params":{"size":3}}`
	list := c.Nodes()[0].ID() + "," + c.Nodes()[2].ID() + "," + c.Nodes()[4].ID()
	o := ask(t, n, 200, "POST /products/_search/template?preference=_only_nodes:"+list, body)
	require.Len(t, o.at("hits", "hits"), 3)
	require.Zero(t, c.Nodes()[1].Searches()+c.Nodes()[3].Searches())

	id := ask(t, n, 200, "POST /products/_search/point_in_time?keep_alive=1m").at("pit_id").(string)
	body = `{"source":{"pit":{"id":"{{id}}"}},"params":{"id":"` + id + `"}}`
	require.Equal(t, 5, ask(t, n, 200, "POST /_search/template", body).number("_shards", "successful"))
	o = ask(t, n, 200, "POST /products/_search/template?preference=_only_nodes:x", body)
	require.Equal(t, 5, o.number("_shards", "successful"), "a point in time that comes of a template is not checked")
	ask(t, n, 400, "POST /products/_search/template", `{}`)
	ask(t, n, 400, "POST /products/_search/template?sise=3", body)
}

func TestAsyncSearch(t *testing.T) {
	elastic := quick(t, func(o *Options) { o.Engine = Elasticsearch }).Nodes()[0]
	o := ask(t, elastic, 200, "POST /products/_async_search?wait_for_completion_timeout=5s", `{"size":3}`)
	require.Equal(t, false, o.at("is_running"))
	require.Len(t, o.at("response", "hits", "hits"), 3)
	open := quick(t, nil).Nodes()[0]
	o = ask(t, open, 200, "POST /_plugins/_asynchronous_search?index=products", `{"size":3}`)
	require.Equal(t, "SUCCEEDED", o.at("state"))
	require.Equal(t, 1000, o.number("response", "hits", "total", "value"))
	ask(t, open, 404, "POST /_plugins/_asynchronous_search?index=nowhere", `{}`)
	for n, path := range map[*Node]string{open: "/products/_async_search?x=1", elastic: "/_plugins/_asynchronous_search?x=1"} {
		require.Contains(t, ask(t, n, 400, "POST "+path, `{}`).at("error"), "no handler found for uri ["+path+"]")
	}
}

func TestGzipWhenAsked(t *testing.T) {
	c := quick(t, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URLs()[0]+"/products/_search", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Accept-Encoding", "gzip")
	res, err := client(t).Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, res.Body.Close()) }()
	require.Equal(t, "gzip", res.Header.Get("Content-Encoding"))
	z, err := gzip.NewReader(res.Body)
	require.NoError(t, err)
	o := object{}
	require.NoError(t, json.NewDecoder(z).Decode(&o))
	require.Equal(t, 5, o.number("_shards", "total"))
}

func TestNodeStatistics(t *testing.T) {
	c := quick(t, func(o *Options) { o.Adaptive = true })
	n := c.Nodes()[0]
	for range 10 {
		ask(t, n, 200, "GET /products/_search")
	}
	o := ask(t, n, 200, "GET /_nodes/_local/stats/thread_pool,indices,jvm,os,breaker,adaptive_selection/search")
	require.Equal(t, 1, o.number("_nodes", "total"))
	require.Equal(t, int(n.Searches()), o.number("nodes", n.ID(), "indices", "search", "query_total"))
	require.Equal(t, int(n.Searches()), o.number("nodes", n.ID(), "thread_pool", "search", "completed"))
	require.Equal(t, 4, o.number("nodes", n.ID(), "thread_pool", "search", "threads"))
	seen := o.at("nodes", n.ID(), "adaptive_selection").(map[string]any)
	require.Len(t, seen, 5)
	for _, v := range seen {
		require.IsType(t, "", v.(map[string]any)["rank"])
		require.Positive(t, object(v.(map[string]any)).number("avg_response_time_ns"))
	}
	all := ask(t, n, 200, "GET /_nodes/stats/indices/search")
	require.Len(t, all.at("nodes"), 5)
	require.Nil(t, all.at("nodes", n.ID(), "jvm"))
}
