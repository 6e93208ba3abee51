package simcluster

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// searchAPI answers everything that ends in an operation like _search.
func (n *Node) searchAPI(r *request) (reply, *apiError) {
	first, last := r.at(0), r.at(-1)
	if refused := n.refusal(); refused != nil && last != "_search_shards" {
		return reply{}, refused
	}
	target := first
	if strings.HasPrefix(first, "_") && first != "_all" {
		target = ""
	}
	switch {
	case last == "_search":
		return n.searchHTTP(r, target)
	case last == "template" && r.at(-2) == "_search":
		return n.searchTemplate(r, target)
	case slices.Contains(foreignAPIs(n.cluster.opts.Engine), last) || slices.Contains(foreignAPIs(n.cluster.opts.Engine), r.at(-2)):
		return r.noHandler(), nil
	case last == "_async_search" || last == "_asynchronous_search":
		return n.asyncSearch(r, target)
	case last == "_msearch" || last == "template" && r.at(-2) == "_msearch":
		return n.multiSearch(r, target)
	case last == "_count":
		return n.count(r, target)
	case last == "_search_shards":
		return n.searchShards(r, target)
	case last == "scroll" || r.at(-2) == "scroll":
		return n.scroll(r)
	case last == "_pit" || last == "point_in_time" || r.at(-2) == "point_in_time":
		return n.pointInTime(r, target)
	case last == "_bulk":
		return n.bulk(r, target)
	case strings.HasPrefix(first, "_"):
		return r.noHandler(), nil
	default:
		return n.documentAPI(r)
	}
}

// foreignAPIs are what the other engine calls what both have.
func foreignAPIs(engine string) []string {
	if engine == Elasticsearch {
		return []string{"_asynchronous_search", "point_in_time"}
	}
	return []string{"_async_search", "_pit"}
}

// refusal is how a node with FailFast answers searches.
func (n *Node) refusal() *apiError {
	switch n.fault().FailFast {
	case 0:
		return nil
	case http.StatusTooManyRequests:
		n.life.Load().pool.reject()
		return n.cluster.rejection(n)
	default:
		return &apiError{Status: http.StatusServiceUnavailable, Type: "cluster_block_exception", Reason: "blocked by: [SERVICE_UNAVAILABLE/1/simulated];"}
	}
}

// searchBody is the part of a search body that matters here.
type searchBody struct {
	Explain bool `json:"explain"`
	Size    *int `json:"size"`
	From    int  `json:"from"`
	PIT     *struct {
		ID string `json:"id"`
	} `json:"pit"`
}

func parseError(err error) *apiError {
	return &apiError{Status: http.StatusBadRequest, Type: "parsing_exception", Reason: err.Error()}
}

// searchRequest merges URL and body of a search.
func (r *request) searchRequest(target string, body []byte) (searchRequest, *searchBody, *apiError) {
	b := &searchBody{}
	if len(bytes.TrimSpace(body)) > 0 {
		if err := json.Unmarshal(body, b); err != nil {
			return searchRequest{}, nil, parseError(err)
		}
	}
	s := searchRequest{
		target: target, routing: r.params.Get("routing"), preference: r.params.Get("preference"),
		from: b.From, size: 10, ignoreUnavailable: r.flag("ignore_unavailable"),
		explain: r.flag("explain") || b.Explain, maxConcurrent: 5,
		whole: r.params.Get("allow_partial_search_results") == "false",
	}
	if b.Size != nil {
		s.size = *b.Size
	}
	for name, into := range map[string]*int{"size": &s.size, "from": &s.from, "max_concurrent_shard_requests": &s.maxConcurrent} {
		if !r.params.Has(name) {
			continue
		}
		v, err := strconv.Atoi(r.params.Get(name))
		if err != nil {
			return s, nil, illegalArgument("Failed to parse int parameter [" + name + "] with value [" + r.params.Get(name) + "]")
		}
		*into = v
	}
	return s, b, nil
}

func (n *Node) searchHTTP(r *request, target string) (reply, *apiError) {
	if err := r.allow(searchParams()...); err != nil {
		return reply{}, err
	}
	out, err := n.searchFor(r, target, r.body)
	if err != nil {
		return reply{}, err
	}
	return answer(out), nil
}

// searchFor runs the search that URL and body ask for.
func (n *Node) searchFor(r *request, target string, body []byte) (*searchAnswer, *apiError) {
	s, b, err := r.searchRequest(target, body)
	if err != nil {
		return nil, err
	}
	return n.searchAs(r, s, b)
}

// searchAs runs a search, of the point in time that its body may name.
func (n *Node) searchAs(r *request, s searchRequest, b *searchBody) (*searchAnswer, *apiError) {
	if b.PIT != nil {
		return n.searchPIT(r, s, b.PIT.ID)
	}
	res, err := n.planned(r.ctx, s)
	if err != nil {
		return nil, err
	}
	out := n.hits(res, s)
	if r.params.Has("scroll") {
		out.ScrollID = openCursor(res, s.from+s.size, s.size).encode()
	}
	return out, nil
}

// searchParams are the URL parameters of a search; others are refused.
func searchParams() []string {
	return []string{
		"allow_no_indices", "allow_partial_search_results", "analyze_wildcard", "analyzer", "batched_reduce_size",
		"cancel_after_time_interval", "ccs_minimize_roundtrips", "default_operator", "df", "docvalue_fields",
		"expand_wildcards", "explain", "from", "ignore_throttled", "ignore_unavailable", "include_named_queries_score",
		"lenient", "max_concurrent_shard_requests", "phase_took", "pre_filter_shard_size", "preference", "q",
		"request_cache", "rest_total_hits_as_int", "routing", "scroll", "search_pipeline", "search_type",
		"seq_no_primary_term", "size", "sort", "_source", "_source_excludes", "_source_includes", "stats",
		"stored_fields", "terminate_after", "timeout", "track_scores", "track_total_hits", "typed_keys", "version",
	}
}

// allow refuses URL parameters that an API does not know.
func (r *request) allow(names ...string) *apiError {
	general := []string{"pretty", "human", "error_trace", "filter_path", "format"}
	for _, name := range sortedKeys(r.params) {
		if !slices.Contains(names, name) && !slices.Contains(general, name) {
			return illegalArgument("request [" + r.path + "] contains unrecognized parameter: [" + name + "]")
		}
	}
	return nil
}

func (n *Node) count(r *request, target string) (reply, *apiError) {
	s, _, err := r.searchRequest(target, nil)
	if err != nil {
		return reply{}, err
	}
	s.size = 0
	res, err := n.planned(r.ctx, s)
	if err != nil {
		return reply{}, err
	}
	return answer(map[string]any{"count": n.total(res), "_shards": n.shardsOf(res)}), nil
}

// cursor is a scroll or point in time: it keeps the nodes chosen at its opening.
// It travels in its id, so nodes keep nothing.
type cursor struct {
	Shards []cursorShard `json:"s"`
	From   int           `json:"f"`
	Size   int           `json:"n"`
}

type cursorShard struct {
	Index  string `json:"i"`
	Number int    `json:"s"`
	Node   string `json:"n"`
}

func openCursor(res *searchResult, from, size int) cursor {
	c := cursor{From: from, Size: size}
	for i, a := range res.plan {
		if res.served[i] != "" {
			c.Shards = append(c.Shards, cursorShard{a.ref.Index, a.ref.Number, res.served[i]})
		}
	}
	return c
}

func (c cursor) encode() string { return base64.URLEncoding.EncodeToString(mustJSON(c)) }

func decodeCursor(id string) (cursor, bool) {
	var c cursor
	raw, err := base64.URLEncoding.DecodeString(id)
	return c, err == nil && json.Unmarshal(raw, &c) == nil && len(c.Shards) > 0
}

// plan has one copy for each shard: the context lives on that node alone.
func (c cursor) plan(s *state) []attempt {
	var plan []attempt
	for _, sh := range c.Shards {
		a := attempt{ref: shardRef{sh.Index, sh.Number}}
		if s.index(sh.Index) != nil && slices.Contains(s.Nodes, sh.Node) {
			a.copies = []shardCopy{{Node: sh.Node, State: started}}
		}
		plan = append(plan, a)
	}
	return plan
}

func (n *Node) scroll(r *request) (reply, *apiError) {
	if err := r.allow("scroll", "scroll_id", "rest_total_hits_as_int"); err != nil {
		return reply{}, err
	}
	if r.method == http.MethodDelete {
		return answer(map[string]any{"succeeded": true, "num_freed": 1}), nil
	}
	id := r.params.Get("scroll_id")
	if last := r.at(-1); last != "scroll" {
		id = last
	}
	var body struct {
		ID string `json:"scroll_id"`
	}
	if len(r.body) > 0 && json.Unmarshal(r.body, &body) == nil && body.ID != "" {
		id = body.ID
	}
	c, ok := decodeCursor(id)
	if !ok {
		return reply{}, illegalArgument("Cannot parse scroll id")
	}
	s := searchRequest{from: c.From, size: c.Size, maxConcurrent: 5}
	res, err := n.search(r.ctx, c.plan(n.cluster.state.Load()), s)
	if err != nil {
		return reply{}, err
	}
	out := n.hits(res, s)
	out.ScrollID = openCursor(res, c.From+c.Size, c.Size).encode()
	return answer(out), nil
}
