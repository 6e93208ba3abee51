package simcluster

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// searchRequest is what a search asks, from its URL and body.
type searchRequest struct {
	target, routing, preference string
	from, size                  int
	ignoreUnavailable           bool
	explain                     bool // each hit says who served it
	whole                       bool // an answer without some shards is an error
	// maxConcurrent bounds the shard queries under way on one node.
	maxConcurrent int
}

// noShardAvailable is the type of the error of a shard that has no copy to ask.
const noShardAvailable = "no_shard_available_action_exception"

// attempt is a shard with the copies to try, in order.
type attempt struct {
	ref    shardRef
	copies []shardCopy
}

// shardFailure says that no copy of a shard answered; node, empty if none was
// tried, is the last one.
type shardFailure struct {
	ref  shardRef
	node string
	err  *apiError
}

func (f shardFailure) object() map[string]any {
	o := map[string]any{"shard": f.ref.Number, "index": f.ref.Index, "node": nil, "reason": f.err.object()}
	if f.node != "" {
		o["node"] = f.node
	}
	return o
}

// plan finds the copies that a search would try, and the names of the indices.
func (n *Node) plan(r searchRequest) ([]attempt, *apiError) {
	s := n.cluster.state.Load()
	names, missing := s.resolve(r.target, time.Now())
	if missing != "" && !r.ignoreUnavailable {
		return nil, noSuchIndex(missing)
	}
	filter, err := shardFilter(r.preference)
	if err != nil {
		return nil, err
	}
	order := n.orderer(s)
	var plan []attempt
	for _, ref := range s.shardsOf(names, r.routing) {
		if filter != nil && !filter[ref.Number] {
			continue
		}
		copies, err := order.order(ref, r.preference)
		if err != nil {
			return nil, err
		}
		plan = append(plan, attempt{ref, copies})
	}
	return plan, nil
}

func (n *Node) orderer(s *state) orderer {
	name := func(id string) string { return n.cluster.byID[id].name }
	o := orderer{state: s, local: n.id, name: name, rotate: n.turn, strict: n.cluster.strictWeights.Load()}
	if s.Adaptive {
		seen := n.life.Load().seen
		pending := seen.pending()
		o.rank = func(copies []shardCopy) []shardCopy { return seen.rank(copies, pending) }
	}
	return o
}

// searchResult is what came of the shards of a search.
type searchResult struct {
	plan     []attempt
	served   []string // parallel to plan: the node id that answered, empty if none
	failures []shardFailure
	took     time.Duration
}

// planned runs a search on the copies that are its turn.
func (n *Node) planned(ctx context.Context, r searchRequest) (*searchResult, *apiError) {
	plan, err := n.plan(r)
	if err != nil {
		return nil, err
	}
	return n.search(ctx, plan, r)
}

// search runs a plan with this node as coordinating node. It returns an error if
// every shard failed, or one did and the answer is to be whole.
func (n *Node) search(ctx context.Context, plan []attempt, r searchRequest) (*searchResult, *apiError) {
	begin := time.Now()
	res := &searchResult{plan: plan, served: make([]string, len(plan))}
	failed := make([]*shardFailure, len(plan))
	limit := newNodeLimit(r.maxConcurrent)
	var wg sync.WaitGroup
	for i, a := range plan {
		wg.Go(func() { res.served[i], failed[i] = n.searchShard(ctx, a, r.size > 0, limit) })
	}
	wg.Wait()
	for _, f := range failed {
		if f != nil {
			res.failures = append(res.failures, *f)
		}
	}
	res.took = time.Since(begin)
	switch failed := len(res.failures); {
	case failed > 0 && failed == len(plan):
		return nil, shardsFailed("all shards failed", res.failures)
	case failed > 0 && r.whole:
		return nil, shardsFailed("Partial shards failure", res.failures)
	}
	return res, nil
}

// searchShard tries the copies of a shard in turn.
func (n *Node) searchShard(ctx context.Context, a attempt, fetch bool, limit *nodeLimit) (string, *shardFailure) {
	failure := &shardFailure{ref: a.ref, err: &apiError{
		Status: http.StatusServiceUnavailable, Type: noShardAvailable,
	}}
	for _, cp := range a.copies {
		if cp.State == initializing {
			failure.node = cp.Node
			continue // not ready to serve, as a recovering shard is not
		}
		err := n.ask(ctx, n.cluster.byID[cp.Node], fetch, limit)
		if err == nil {
			return cp.Node, nil
		}
		failure.node, failure.err = cp.Node, err
		if ctx.Err() != nil {
			break
		}
	}
	return "", failure
}

// ask sends a shard query to a data node and learns from the answer.
func (n *Node) ask(ctx context.Context, data *Node, fetch bool, limit *nodeLimit) *apiError {
	leave, ok := limit.enter(ctx, data.id)
	if !ok {
		return data.failure(ctx, ctx.Err())
	}
	defer leave()
	seen := n.life.Load().seen
	seen.begin(data.id)
	defer seen.end(data.id)
	begin := time.Now()
	r, err := data.query(ctx, n, fetch)
	if err == nil {
		seen.record(data.id, r.queue, time.Since(begin), r.service)
	}
	return err
}

// nodeLimit is max_concurrent_shard_requests: how many shard queries of one search
// run on one node at a time.
type nodeLimit struct {
	bound int
	mu    sync.Mutex
	slots map[string]chan struct{}
}

func newNodeLimit(bound int) *nodeLimit {
	return &nodeLimit{bound: max(bound, 1), slots: map[string]chan struct{}{}}
}

func (l *nodeLimit) enter(ctx context.Context, node string) (leave func(), ok bool) {
	l.mu.Lock()
	slot := l.slots[node]
	if slot == nil {
		slot = make(chan struct{}, l.bound)
		l.slots[node] = slot
	}
	l.mu.Unlock()
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, true
	case <-ctx.Done():
		return nil, false
	}
}

// shardsFailed is the error of a search that got nothing, or too little. Its status is
// that of the first failure, or of the last one that is a server error.
func shardsFailed(reason string, failures []shardFailure) *apiError {
	status := failures[0].err.Status
	shards := make([]any, 0, len(failures))
	causes := []any{}
	known := map[string]bool{}
	for _, f := range failures {
		if f.err.Status >= http.StatusInternalServerError {
			status = f.err.Status
		}
		shards = append(shards, f.object())
		if key := f.err.Error(); !known[key] {
			known[key] = true
			causes = append(causes, f.err.object())
		}
	}
	return &apiError{
		Status: status, Type: "search_phase_execution_exception", Reason: reason,
		Fields: map[string]any{"phase": "query", "grouped": true, "failed_shards": shards, "root_cause": causes},
	}
}
