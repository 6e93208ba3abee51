package simcluster

import "time"

// asyncSearch runs an asynchronous search to its end, which is always within the
// time that its client waits: it has no id, and nothing is kept.
func (n *Node) asyncSearch(r *request, target string) (reply, *apiError) {
	if err := r.allow(append(searchParams(), "index", "keep_alive", "keep_on_completion", "wait_for_completion_timeout")...); err != nil {
		return reply{}, err
	}
	if target == "" {
		target = r.params.Get("index")
	}
	begin := time.Now()
	out, err := n.searchFor(r, target, r.body)
	if err != nil {
		return reply{}, err
	}
	body := map[string]any{
		"start_time_in_millis": begin.UnixMilli(), "expiration_time_in_millis": begin.Add(5 * 24 * time.Hour).UnixMilli(), "response": out,
	}
	if n.cluster.opts.Engine == Elasticsearch {
		body["is_partial"], body["is_running"] = false, false
	} else {
		body["state"] = "SUCCEEDED"
	}
	return answer(body), nil
}
