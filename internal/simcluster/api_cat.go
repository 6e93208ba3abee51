package simcluster

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// catAPI answers _cat/shards[/target].
func (n *Node) catAPI(r *request) (reply, *apiError) {
	if r.at(1) != "shards" {
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
	columns := strings.Split("index,shard,prirep,state,docs,store,ip,node", ",")
	if h := r.params.Get("h"); h != "" {
		columns = strings.Split(h, ",")
	}
	rows := n.cluster.shardRows(s, names, columns)
	if r.params.Get("format") == "json" {
		return answer(rows), nil
	}
	return reply{status: 200, body: table(columns, rows, r.flag("v")), text: true}, nil
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

// shardRows has one row a copy. All values are strings, or null.
func (c *Cluster) shardRows(s *state, names, columns []string) []map[string]*string {
	rows := []map[string]*string{}
	for _, name := range names {
		ix := s.Indices[name]
		for number, copies := range ix.Shards {
			for _, cp := range copies {
				full := c.shardRow(shardRef{name, number}, cp, ix.Spec)
				row := make(map[string]*string, len(columns))
				for _, column := range columns {
					if v, known := full[column]; known {
						row[column] = v
					}
				}
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func (c *Cluster) shardRow(ref shardRef, cp shardCopy, spec IndexSpec) map[string]*string {
	str := func(s string) *string { return &s }
	row := map[string]*string{
		"index": str(ref.Index), "shard": str(strconv.Itoa(ref.Number)), "prirep": str(string(cp.Kind)),
		"state": str(string(cp.State)), "docs": nil, "store": nil, "ip": nil, "id": nil, "node": nil,
	}
	if cp.Node == "" {
		return row
	}
	node := c.byID[cp.Node]
	row["ip"], row["id"], row["node"] = str("127.0.0.1"), str(cp.Node), str(node.name)
	if cp.active() {
		row["docs"], row["store"] = str(strconv.Itoa(docsIn(spec, ref.Number))), str("4.2kb")
	}
	if cp.State == relocating {
		row["node"] = str(node.name + " -> 127.0.0.1 " + cp.Target + " " + c.byID[cp.Target].name)
	}
	return row
}

// table prints rows as text.
func table(columns []string, rows []map[string]*string, header bool) []byte {
	var b strings.Builder
	if header {
		b.WriteString(strings.Join(columns, " ") + "\n")
	}
	for _, row := range rows {
		for i, column := range columns {
			if i > 0 {
				b.WriteByte(' ')
			}
			if v := row[column]; v != nil {
				b.WriteString(*v)
			}
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}
