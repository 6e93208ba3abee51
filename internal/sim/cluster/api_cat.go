package simcluster

import (
	"net/http"
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
	t := n.cluster.newTable(r)
	t.begin()
	for _, name := range names {
		ix := s.index(name)
		for number := range ix.Shards {
			t.add(ix, number)
		}
	}
	return t.reply(), nil
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

// shardTable prints one row a copy, as text or JSON. It writes row by row: the
// table of a big cluster has a hundred thousand of them.
type shardTable struct {
	cluster      *Cluster
	columns      []string
	json, header bool
	out          []byte
	rows         int
}

func (c *Cluster) newTable(r *request) *shardTable {
	columns := "index,shard,prirep,state,docs,store,ip,node"
	if h := r.params.Get("h"); h != "" {
		columns = h
	}
	return &shardTable{cluster: c, columns: strings.Split(columns, ","), json: r.params.Get("format") == "json", header: r.flag("v")}
}

func (t *shardTable) begin() {
	switch {
	case t.json:
		t.out = append(t.out, '[')
	case t.header:
		t.out = append(t.out, strings.Join(t.columns, " ")+"\n"...)
	}
}

// add prints the copies of a shard.
func (t *shardTable) add(ix *indexState, number int) {
	for _, cp := range ix.Shards[number] {
		if t.json {
			t.addJSON(ix, number, cp)
		} else {
			t.addText(ix, number, cp)
		}
		t.rows++
	}
}

func (t *shardTable) addText(ix *indexState, number int, cp shardCopy) {
	for i, column := range t.columns {
		if i > 0 {
			t.out = append(t.out, ' ')
		}
		value, _ := t.value(column, ix, number, cp)
		t.out = append(t.out, value...)
	}
	t.out = append(t.out, '\n')
}

// addJSON prints an object. All values are strings, or null.
func (t *shardTable) addJSON(ix *indexState, number int, cp shardCopy) {
	if t.rows > 0 {
		t.out = append(t.out, ',')
	}
	t.out = append(t.out, '{')
	for _, column := range t.columns {
		value, known := t.value(column, ix, number, cp)
		if !known {
			continue
		}
		if t.out[len(t.out)-1] != '{' {
			t.out = append(t.out, ',')
		}
		t.out = append(strconv.AppendQuote(t.out, column), ':')
		if value == "" {
			t.out = append(t.out, "null"...)
			continue
		}
		t.out = strconv.AppendQuote(t.out, value) // no value needs other escapes than JSON has
	}
	t.out = append(t.out, '}')
}

// value returns what a column says of a copy, empty if nothing.
func (t *shardTable) value(column string, ix *indexState, number int, cp shardCopy) (value string, known bool) {
	switch column {
	case "index":
		return ix.Spec.Name, true
	case "shard":
		return strconv.Itoa(number), true
	case "prirep":
		return string(cp.Kind), true
	case "state":
		return string(cp.State), true
	case "docs", "store", "seq_no.max":
		if !cp.active() {
			return "", true
		}
		return t.size(column, ix, number), true
	case "ip", "id", "node":
		return t.place(column, cp), true
	}
	return "", false
}

// size says how much a copy has.
func (t *shardTable) size(column string, ix *indexState, number int) string {
	if column == "store" {
		return "4.2kb"
	}
	documents := docsIn(ix.Spec, number) + int(t.cluster.writes.of(shardRef{ix.Spec.Name, number}).Load())
	if column == "seq_no.max" {
		documents--
	}
	return strconv.Itoa(documents)
}

// place says where a copy is. A relocating one names its target besides.
func (t *shardTable) place(column string, cp shardCopy) string {
	switch {
	case cp.Node == "":
		return ""
	case column == "ip":
		return "127.0.0.1"
	case column == "id":
		return cp.Node
	case cp.State == relocating:
		return t.cluster.byID[cp.Node].name + " -> 127.0.0.1 " + cp.Target + " " + t.cluster.byID[cp.Target].name
	}
	return t.cluster.byID[cp.Node].name
}

// reply ends the table.
func (t *shardTable) reply() reply {
	if t.json {
		return reply{status: http.StatusOK, body: append(t.out, ']')}
	}
	return reply{status: http.StatusOK, body: t.out, text: true}
}
