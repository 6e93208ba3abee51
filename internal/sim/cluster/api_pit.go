package simcluster

import (
	"net/http"
	"time"
)

// pointInTime opens and closes points in time. Opening runs no shard query.
func (n *Node) pointInTime(r *request, target string) (reply, *apiError) {
	if r.method == http.MethodDelete {
		return answer(map[string]any{"succeeded": true, "num_freed": 1}), nil
	}
	if err := r.allow("keep_alive", "preference", "routing", "expand_wildcards", "ignore_unavailable",
		"allow_partial_pit_creation", "allow_partial_search_results"); err != nil {
		return reply{}, err
	}
	s, _, err := r.searchRequest(target, nil)
	if err != nil {
		return reply{}, err
	}
	plan, err := n.plan(s)
	if err != nil {
		return reply{}, err
	}
	res := &searchResult{plan: plan, served: make([]string, len(plan))}
	for i, a := range plan {
		if len(a.copies) > 0 {
			res.served[i] = a.copies[0].Node
		}
	}
	id := openCursor(res, 0, 10).encode()
	if n.cluster.opts.Engine == Elasticsearch {
		return answer(map[string]any{"id": id, "_shards": n.shardsOf(res)}), nil
	}
	return answer(map[string]any{"pit_id": id, "_shards": n.shardsOf(res), "creation_time": time.Now().UnixMilli()}), nil
}

// mayNamePIT refuses what a search with a point in time must not say.
func (s searchRequest) mayNamePIT() *apiError {
	for _, given := range []struct{ what, value string }{{"indices", s.target}, {"preference", s.preference}, {"routing", s.routing}} {
		if given.value != "" {
			return &apiError{
				Status: http.StatusBadRequest, Type: "action_request_validation_exception",
				Reason: "Validation Failed: 1: [" + given.what + "] cannot be used with point in time;",
			}
		}
	}
	return nil
}

// searchPIT searches a point in time. Templates are not checked, as a template is
// rendered after that; what they should not say is ignored.
func (n *Node) searchPIT(r *request, s searchRequest, id string) (*searchAnswer, *apiError) {
	if err := s.mayNamePIT(); err != nil && r.at(-1) != "template" {
		return nil, err
	}
	c, ok := decodeCursor(id)
	if !ok {
		return nil, illegalArgument("invalid id: [" + id + "]")
	}
	res, err := n.search(r.ctx, c.plan(n.cluster.state.Load()), s)
	if err != nil {
		return nil, err
	}
	out := n.hits(res, s)
	out.PIT = id
	return out, nil
}
