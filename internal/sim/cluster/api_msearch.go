package simcluster

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// msearchHeader is a header line of a multi search.
type msearchHeader struct {
	Index             json.RawMessage `json:"index"` // string or list
	Indices           json.RawMessage `json:"indices"`
	Preference        string          `json:"preference"`
	Routing           *string         `json:"routing"`
	IgnoreUnavailable bool            `json:"ignore_unavailable"`
}

// headerKeys are the keys of a header line beyond those of msearchHeader.
func headerKeys() []string {
	return []string{
		"index", "indices", "preference", "routing", "ignore_unavailable", "search_type", "ccs_minimize_roundtrips",
		"request_cache", "allow_partial_search_results", "expand_wildcards", "allow_no_indices", "ignore_throttled",
	}
}

// target returns the item's target; an empty one stands for all indices, whatever
// the path says.
func (h msearchHeader) target(fallback string) string {
	raw := h.Index
	if raw == nil {
		raw = h.Indices
	}
	var one string
	var many []string
	switch {
	case raw == nil:
		return fallback
	case json.Unmarshal(raw, &one) == nil:
		return one
	case json.Unmarshal(raw, &many) == nil:
		return strings.Join(many, ",")
	default:
		return fallback
	}
}

// msearchItem is one search of a multi search.
type msearchItem struct {
	search searchRequest
	body   *searchBody
	err    *apiError // what is wrong with its template
}

func (n *Node) multiSearch(r *request, target string) (reply, *apiError) {
	if err := r.allow("max_concurrent_searches", "max_concurrent_shard_requests", "search_type", "typed_keys", "routing",
		"pre_filter_shard_size", "rest_total_hits_as_int", "ccs_minimize_roundtrips"); err != nil {
		return reply{}, err
	}
	// Whatever is wrong with one item's lines fails the whole request; what is wrong
	// with its search is part of the answer.
	items, err := n.msearchItems(r, target)
	if err != nil {
		return reply{}, err
	}
	responses := make([]json.RawMessage, len(items))
	var wg sync.WaitGroup
	for i := range responses {
		wg.Go(func() { responses[i] = n.oneOfMany(r, items[i]) })
	}
	wg.Wait()
	return answer(map[string]any{"took": 1, "responses": responses}), nil
}

// msearchItems splits a body into lines as the engines do: OpenSearch skips a
// leading line feed, which to Elasticsearch 8 ends an empty header; a last header
// without a body is dropped.
func (n *Node) msearchItems(r *request, target string) ([]msearchItem, *apiError) {
	body := r.body
	if n.cluster.opts.Engine == OpenSearch {
		body = bytes.TrimPrefix(body, []byte("\n"))
	}
	if len(body) > 0 && body[len(body)-1] != '\n' {
		return nil, illegalArgument("The msearch request must be terminated by a newline [\n]")
	}
	lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
	var items []msearchItem
	for ; len(lines) > 1; lines = lines[2:] {
		h, err := readMsearchHeader(lines[0])
		if err != nil {
			return nil, err
		}
		body := lines[1]
		if r.at(-1) == "template" {
			if body, err = render(body); err != nil {
				items = append(items, msearchItem{err: err})
				continue
			}
		}
		s, b, err := r.searchRequest(h.target(target), body)
		if err != nil {
			return nil, err
		}
		s.preference, s.ignoreUnavailable = h.Preference, h.IgnoreUnavailable
		if h.Routing != nil {
			s.routing = *h.Routing
		}
		if b.PIT != nil && r.at(-1) != "template" {
			if err := s.mayNamePIT(); err != nil {
				return nil, err
			}
		}
		items = append(items, msearchItem{s, b, nil})
	}
	if len(items) == 0 {
		return nil, &apiError{
			Status: http.StatusBadRequest, Type: "action_request_validation_exception", Reason: "Validation Failed: 1: no requests added;",
		}
	}
	return items, nil
}

func readMsearchHeader(line []byte) (h msearchHeader, _ *apiError) {
	if len(line) == 0 {
		return h, nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(line, &keys); err != nil {
		return h, parseError(err)
	}
	for _, key := range sortedKeys(keys) {
		if !slices.Contains(headerKeys(), key) {
			return h, illegalArgument("key [" + key + "] is not supported in the metadata section")
		}
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, parseError(err)
	}
	return h, nil
}

// oneOfMany runs one search of a multi search; its errors are part of the answer.
func (n *Node) oneOfMany(r *request, item msearchItem) json.RawMessage {
	if item.err != nil {
		return item.err.body()
	}
	out, err := n.searchAs(r, item.search, item.body)
	if err != nil {
		return err.body()
	}
	out.Status = http.StatusOK
	return mustJSON(out)
}
