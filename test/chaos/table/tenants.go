package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"sidestep/test/harness"
)

// tenant is one who sends searches of its own, in an open loop.
type tenant struct {
	name    string
	rate    float64 // searches/s
	request func(i int) *http.Request
}

const (
	heavyIndex = "reports"
	heavyNodes = 2 // of the cluster, which hold all copies of the heavy index
	heavyDocs  = 40_000
	// lightRate and heavyRate together are four fifths of what two cores carry.
	lightRate = 20.0
	heavyRate = 5.9 // their searches are rarely due at once
	// heavyWarm is how long the heavy searches are sent before anything counts.
	heavyWarm = 5 * time.Second
)

// heavy is the tenant of the heavy index.
func heavy() *tenant { return &tenant{name: "heavy", rate: heavyRate, request: heavySearch} }

// heavySearch returns the search number i on the heavy index: all documents are counted in
// many buckets. It asks for a hit, as caches hold answers without any.
func heavySearch(i int) *http.Request {
	random := rand.New(rand.NewPCG(uint64(i), 5))
	body := fmt.Appendf(nil, `{"size":1,"query":{"range":{"price":{"gte":%d}}},"aggs":{"prices":{"histogram":{"field":"price","interval":0.1},"aggs":{"categories":{"terms":{"field":"category"}}}}}}`,
		random.IntN(20))
	r := harness.Post("/"+heavyIndex+"/_search", "application/json", body)
	r.URL.RawQuery = "filter_path=took,timed_out,_shards,hits"
	return r
}

// addHeavy makes the heavy index, with a copy of every shard on each of its nodes, and
// warms it up through every way. What it returns deletes it.
func addHeavy(ctx context.Context, s *stage) (repair, error) {
	// The copies of the light index stay where they are.
	stay := map[string]any{"index.routing.rebalance.enable": "none"}
	if err := s.Cluster.Do(ctx, http.MethodPut, "/"+index+"/_settings", stay, nil); err != nil {
		return nil, err
	}
	names := nodeName(0)
	for i := 1; i < heavyNodes; i++ {
		names += "," + nodeName(i)
	}
	err := s.Cluster.CreateIndex(ctx, harness.Index{
		Name: heavyIndex, Shards: 2, Replicas: heavyNodes - 1, Docs: heavyDocs, Seed: 2,
		Settings: map[string]any{"routing.allocation.include._name": names, "routing.rebalance.enable": "none"},
	})
	remove := func(ctx context.Context) error {
		return s.Cluster.Do(ctx, http.MethodDelete, "/"+heavyIndex, nil, nil)
	}
	if err != nil {
		return remove, err
	}
	alone := scenario{second: heavy()}
	for _, way := range []string{loadEngine, loadSidestep} {
		if err := s.quiet(ctx, alone, way, heavyWarm); err != nil {
			return remove, err
		}
	}
	return remove, nil
}
