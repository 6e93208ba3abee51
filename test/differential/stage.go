package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"sidestep/test/harness"
)

// stage is a cluster of three nodes and two sidesteps before it: one that lists
// nodes for every search, and one as it is by default.
type stage struct {
	harness.Stage
	always, outlier *harness.Front
	client          *http.Transport
}

// openStage starts everything and fills the indices. What was started is in the
// stage even when it fails.
func openStage(ctx context.Context, distribution, version string, logf func(string, ...any)) (*stage, error) {
	s := &stage{client: &http.Transport{MaxIdleConnsPerHost: 8, DisableCompression: true, ExpectContinueTimeout: 10 * time.Second}}
	err := s.Open(ctx, harness.StageOptions{
		Cluster: harness.ClusterOptions{
			Distribution: distribution, Version: version, Nodes: 3, HeapMB: 1536, SerialGC: true, Logf: logf,
			Settings: map[string]string{
				// Writes say how many copies a shard has; one that moves has one more.
				"cluster.routing.rebalance.enable": "none",
				// A breaker that looks at the heap trips by chance, with what is only to be
				// collected: then one side refuses what the other one takes.
				"indices.breaker.total.use_real_memory": "false",
			},
		},
		Indices:   indices(),
		Fill:      func(ctx context.Context, c *harness.Cluster) error { return fill(ctx, c, logf) },
		Sidesteps: []harness.Sidestep{{Name: "outlier"}, {Name: "always", Config: harness.Always}},
	})
	s.outlier, s.always = s.Front("outlier"), s.Front("always")
	return s, err
}

// close stops everything; the logs stay after a failure.
func (s *stage) close(failed bool) error {
	s.client.CloseIdleConnections()
	return s.Close(failed)
}

// sides of the comparison.
const (
	directName = "d0"
	frontName  = "s0"
)

// direct is a node itself, another one for each number.
func (s *stage) direct(number uint64) side {
	n := s.Cluster.Nodes[number%uint64(len(s.Cluster.Nodes))]
	return side{name: directName, base: n.DirectURL, ids: s.ids(), client: s.client}
}

// through is sidestep: the one that always lists nodes for even numbers, else the
// one as it is by default.
func (s *stage) through(number uint64) side {
	f := s.outlier
	if number%2 == 0 {
		f = s.always
	}
	return side{name: frontName, base: f.URL, explain: true, ids: s.ids(), client: s.client}
}

func (s *stage) ids() []string {
	ids := make([]string, len(s.Cluster.Nodes))
	for i, n := range s.Cluster.Nodes {
		ids[i] = n.ID
	}
	return ids
}

// indices are what the grammar's targets name.
func indices() []harness.Index {
	day := func(offset int) string { return time.Now().UTC().AddDate(0, 0, offset).Format("day-2006.01.02") }
	return []harness.Index{
		{Name: "products", Shards: 5, Replicas: 1, Docs: 2000, Seed: 1},
		{Name: "single", Shards: 1, Replicas: 2, Docs: 500, Seed: 2},
		{Name: "routed", Shards: 3, Replicas: 1, Docs: 600, Seed: 3, Routed: true},
		{Name: "logs-1", Shards: 2, Replicas: 1, Docs: 400, Seed: 4},
		{Name: "logs-2", Shards: 2, Replicas: 1, Docs: 400, Seed: 5},
		{Name: "lonely", Shards: 2, Replicas: 0, Docs: 100, Seed: 6},
		{Name: "empty", Shards: 1, Replicas: 1},
		{Name: "closed", Shards: 1, Replicas: 1, Docs: 10, Seed: 7},
		{Name: ".concealed", Shards: 1, Replicas: 1, Docs: 50, Seed: 8},
		{Name: day(-1), Shards: 1, Replicas: 1, Docs: 50, Seed: 9},
		{Name: day(0), Shards: 1, Replicas: 1, Docs: 60, Seed: 10},
		{Name: day(1), Shards: 1, Replicas: 1, Docs: 70, Seed: 11},
		{Name: ownPrefix + directName + "-1", Shards: 1, Replicas: 1}, {Name: ownPrefix + directName + "-3", Shards: 3, Replicas: 1},
		{Name: ownPrefix + frontName + "-1", Shards: 1, Replicas: 1}, {Name: ownPrefix + frontName + "-3", Shards: 3, Replicas: 1},
	}
}

// fill makes what else the grammar's targets name.
func fill(ctx context.Context, c *harness.Cluster, logf func(string, ...any)) error {
	hide := object{"index": object{"hidden": true}}
	for _, step := range []step{
		{http.MethodPost, "/closed/_close", nil},
		{http.MethodPut, "/.concealed,mine-*/_settings", hide},
		{http.MethodPost, "/_aliases", aliases()},
		{http.MethodPost, "/products,single,routed,logs-*,lonely,day-*/_forcemerge?max_num_segments=1", nil},
		{http.MethodPost, "/_refresh", nil},
	} {
		if err := c.Do(ctx, step.method, step.path, step.body, nil); err != nil {
			return err
		}
	}
	// Not every distribution has these; the requests then compare its errors.
	for what, step := range optional() {
		if err := c.Do(ctx, step.method, step.path, step.body, nil); err != nil {
			logf("without %s: %.200v", what, err)
		}
	}
	return fillStream(ctx, c, logf)
}

// aliases are filtered, routed, and over several indices.
func aliases() object {
	add := func(index, alias string, more object) object {
		action := object{"index": index, "alias": alias}
		for key, value := range more {
			action[key] = value
		}
		return object{"add": action}
	}
	cheap := object{"filter": object{"range": object{"price": object{"lt": 20}}}}
	return object{"actions": []any{
		add("products", "catalog", nil),
		add("products", "cheap", cheap),
		add("logs-*", "all-logs", nil),
		add("logs-1", "switch", nil),
		add("routed", "alphas", object{"routing": "alpha", "filter": object{"term": object{"category": "alpha"}}}),
		add("products", "mixed", cheap),
		add("single", "mixed", nil),
		add("routed", "twice", object{"search_routing": "alpha,beta", "index_routing": "alpha"}),
	}}
}

// step is a call of the engine's.
type step struct {
	method, path string
	body         any
}

// optional is what some distributions lack.
func optional() map[string]step {
	fields := object{"properties": object{
		"@timestamp": object{"type": "date"}, "timestamp": object{"type": "date"}, "n": object{"type": "long"}, "price": object{"type": "double"},
		"category": object{"type": "keyword"}, "title": object{"type": "text"},
	}}
	return map[string]step{
		"data streams": {http.MethodPut, "/_index_template/stream", object{
			"index_patterns": []string{"stream"}, "data_stream": object{}, "priority": 500,
			"template": object{"mappings": fields, "settings": object{"number_of_shards": 2, "number_of_replicas": 1, "refresh_interval": "-1"}},
		}},
		"stored templates": {http.MethodPut, "/_scripts/by-category", object{"script": object{
			"lang": "mustache", "source": `{"query":{"term":{"category":"{{c}}"}},"sort":["n","_index"],"size":3}`,
		}}},
	}
}

// fillStream writes the documents of the data stream, if there are data streams.
func fillStream(ctx context.Context, c *harness.Cluster, logf func(string, ...any)) error {
	var body string
	for n := range 60 {
		doc := object{
			"@timestamp": harness.FirstTimestamp + n*60_000, "timestamp": harness.FirstTimestamp + n*60_000, "n": n, "price": float64(n%7) + 0.25,
			"category": harness.Words()[n%harness.Categories], "title": harness.Words()[n%24] + " " + harness.Words()[(n*7)%24],
		}
		body += `{"create":{"_id":"` + fmt.Sprint(n) + `"}}` + "\n" + encode(doc) + "\n"
	}
	if err := c.Do(ctx, http.MethodPost, "/stream/_bulk?refresh=true", []byte(body), nil); err != nil {
		logf("the data stream stays a name: %.200v", err)
	}
	return c.WaitGreen(ctx, "")
}
