package simcluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// writes counts what bulks wrote, by shard.
type writes struct {
	byShard sync.Map // shardRef to *atomic.Int64
	minted  atomic.Int64
}

// of returns the counter of a shard.
func (w *writes) of(ref shardRef) *atomic.Int64 {
	if n, ok := w.byShard.Load(ref); ok {
		return n.(*atomic.Int64)
	}
	n, _ := w.byShard.LoadOrStore(ref, new(atomic.Int64))
	return n.(*atomic.Int64)
}

// Written returns how many operations of bulks each shard of an index has got.
func (c *Cluster) Written(index string) []int {
	out := []int{}
	if ix := c.state.Load().index(index); ix != nil {
		for number := range ix.Shards {
			out = append(out, int(c.writes.of(shardRef{index, number}).Load()))
		}
	}
	return out
}

// operation is one of a bulk.
type operation struct {
	verb, index, id string
	routing         *string
	ref             shardRef
	err             *apiError
}

// bulk answers _bulk: the operations are counted and not kept. It takes as long as the
// slowest copy of the shards that they belong to.
func (n *Node) bulk(r *request, target string) (reply, *apiError) {
	operations, bad := readBulk(r, target)
	if bad != nil {
		return reply{}, bad
	}
	c, s := n.cluster, n.cluster.state.Load()
	groups := map[shardRef]*apiError{}
	for i := range operations {
		o := &operations[i]
		ix := s.index(o.index)
		if ix == nil {
			o.err = noSuchIndex(o.index)
			continue
		}
		if o.id == "" {
			o.id = "minted-" + strconv.FormatInt(c.writes.minted.Add(1), 10)
		}
		o.ref = shardRef{o.index, ix.Spec.shardOf(o.id, o.routing)}
		groups[o.ref] = nil
	}
	n.writeShards(r, s, groups)
	items, failed := make([]any, len(operations)), false
	for i, o := range operations {
		o.err = cmp.Or(o.err, groups[o.ref])
		failed = failed || o.err != nil
		items[i] = map[string]any{o.verb: c.item(o)}
	}
	return answer(map[string]any{"took": 1, "errors": failed, "items": items}), nil
}

// item is what is answered of an operation.
func (c *Cluster) item(o operation) map[string]any {
	item := map[string]any{"_index": o.index, "_id": o.id}
	if o.err != nil {
		item["status"], item["error"] = o.err.Status, o.err.object()
		return item
	}
	item["_version"], item["result"], item["status"] = 1, "created", http.StatusCreated
	item["_seq_no"], item["_primary_term"] = c.writes.of(o.ref).Add(1)-1, 1
	return item
}

// readBulk reads the operations of a bulk.
func readBulk(r *request, target string) (operations []operation, bad *apiError) {
	lines := bytes.Split(r.body, []byte("\n"))
	if len(lines[len(lines)-1]) > 0 {
		return nil, illegalArgument("The bulk request must be terminated by a newline [\\n]")
	}
	for i := 0; i < len(lines)-1; i++ {
		if len(bytes.TrimSpace(lines[i])) == 0 {
			continue
		}
		var action map[string]struct {
			Index   string  `json:"_index"`
			ID      string  `json:"_id"`
			Routing *string `json:"routing"`
		}
		if err := json.Unmarshal(lines[i], &action); err != nil || len(action) != 1 {
			return nil, illegalArgument(fmt.Sprintf("Malformed action/metadata line [%d]", i+1))
		}
		for verb, m := range action {
			o := operation{verb: verb, index: cmp.Or(m.Index, target), id: m.ID, routing: m.Routing}
			if o.routing == nil {
				o.routing = r.given("routing")
			}
			operations = append(operations, o)
			if verb != "delete" {
				i++ // its source
			}
		}
	}
	return operations, nil
}

// writeShards writes to all copies of these shards at once, and notes what went wrong.
func (n *Node) writeShards(r *request, s *state, groups map[shardRef]*apiError) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, ref := range slices.Collect(maps.Keys(groups)) { // groups is written meanwhile
		for _, cp := range s.index(ref.Index).Shards[ref.Number] {
			if !cp.active() {
				continue
			}
			wg.Go(func() {
				if err := n.cluster.byID[cp.Node].get(r.ctx, n); err != nil { // it takes about as long
					mu.Lock()
					defer mu.Unlock()
					groups[ref] = err
				}
			})
		}
	}
	wg.Wait()
}
