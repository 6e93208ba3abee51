package simcluster

import (
	"strconv"
	"sync"
	"time"
)

// catAPI answers _cat/shards[/target]?format=json.
func (n *Node) catAPI(r *request) (reply, *apiError) {
	if r.at(1) != "shards" || r.params.Get("format") != "json" {
		return r.noHandler(), nil
	}
	s := n.cluster.state.Load()
	names, missing := s.resolve(r.at(2), time.Now())
	if missing != "" {
		return reply{}, noSuchIndex(missing)
	}
	if err := n.askAll(r); err != nil {
		return reply{}, err
	}
	rows := []map[string]any{}
	for _, name := range names {
		ix := s.index(name)
		for number, copies := range ix.Shards {
			for _, cp := range copies {
				rows = append(rows, n.cluster.catRow(ix.Spec, number, cp))
			}
		}
	}
	return answer(rows), nil
}

// askAll waits for every node: the engines fetch statistics from each, whatever
// the columns.
func (n *Node) askAll(r *request) *apiError {
	var wg sync.WaitGroup
	for _, m := range n.cluster.living() {
		wg.Go(func() { _ = m.travel(r.ctx, n) }) // a node that leaves is left out
	}
	wg.Wait()
	if r.ctx.Err() != nil {
		return n.failure(r.ctx, r.ctx.Err())
	}
	return nil
}

// catRow is what is told of a copy, whatever columns are asked for. All values are strings, or null.
func (c *Cluster) catRow(spec IndexSpec, number int, cp shardCopy) map[string]any {
	row := map[string]any{
		"index": spec.Name, "shard": strconv.Itoa(number), "prirep": string(cp.Kind), "state": string(cp.State), "id": nil, "seq_no.max": nil,
	}
	if cp.Node != "" {
		row["id"] = cp.Node
	}
	if cp.active() {
		row["seq_no.max"] = strconv.Itoa(docsIn(spec, number) + int(c.writes.of(shardRef{spec.Name, number}).Load()) - 1)
	}
	return row
}
