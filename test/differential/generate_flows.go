package main

import "fmt"

// scroll opens a scroll, reads on, clears it, and asks once more.
func (g *generator) scroll() conversation {
	g.ordered = true
	body := object{"query": g.query(), "size": 1 + g.IntN(40), "sort": []any{object{"n": "asc"}, "_index"}}
	open := request{operation: "scroll_open", method: "POST", uri: below(g.target(), "_search") + "?scroll=" + g.pick("1m", "1m", "5m", "bogus")}
	if g.one(3) {
		g.options(&open)
	}
	steps := []request{withJSON(open, body)}
	for range 1 + g.IntN(3) {
		next := request{operation: "scroll", method: g.pick("POST", "GET"), uri: "/_search/scroll"}
		switch g.IntN(4) {
		case 0:
			next.uri += "?scroll=1m&scroll_id=@scroll@"
		case 1:
			next.uri += g.pick("/@scroll@?scroll=1m", "?pretty", "?preference=_local", "?rest_total_hits_as_int=true")
			next = withJSON(next, object{"scroll": "1m", "scroll_id": "@scroll@"})
		default:
			next = withJSON(next, object{"scroll": "1m", "scroll_id": "@scroll@"})
		}
		steps = append(steps, next)
	}
	if g.one(6) {
		steps = append(steps, withJSON(request{operation: "scroll", method: "POST", uri: "/_search/scroll"}, object{"scroll": "1m", "scroll_id": "broken"}))
	}
	clear := withJSON(request{operation: "scroll", method: "DELETE", uri: "/_search/scroll"}, object{"scroll_id": []string{"@scroll@"}})
	return conversation{steps: append(steps, clear)}
}

// pit opens a point in time, searches it page by page, and closes it.
func (g *generator) pit() conversation {
	g.ordered = true
	openPath, closePath := "_search/point_in_time", "/_search/point_in_time"
	closing := object{"pit_id": []string{"@pit@"}}
	if (g.engine == "elasticsearch") != g.one(15) {
		openPath, closePath, closing = "_pit", "/_pit", object{"id": "@pit@"}
	}
	open := request{operation: "pit_open", method: "POST", uri: below(g.target(), openPath) + "?keep_alive=" + g.pick("1m", "1m", "5m", "bogus")}
	if g.one(3) {
		g.which(&open)
	}
	if g.one(4) {
		open.param(g.pick("preference=_local", "preference=session-7", "routing=alpha", "preference=_only_nodes:@node1@,@node2@,@node3@", "allow_partial_pit_creation=true"))
	}
	steps := []request{open}
	for page := range 1 + g.IntN(3) {
		body := object{"query": g.query(), "size": 4, "sort": []any{object{"n": "asc"}, object{"_index": "asc"}}, "pit": object{"id": "@pit@", "keep_alive": "1m"}}
		if page > 0 {
			body["search_after"] = []any{page * 20, "a"}
		}
		search := request{operation: "pit_search", method: "POST", uri: g.pick("/_search", "/_search", "/_search", "/products/_search", "/_search?preference=_local")}
		steps = append(steps, withJSON(search, body))
	}
	return conversation{steps: append(steps, withJSON(request{operation: "pit", method: "DELETE", uri: closePath}, closing))}
}

// own returns an index of the side's own. The ids of a conversation are its own, too.
const ownPrefix = "mine-"

func (g *generator) own() string { return ownPrefix + "@side@-" + g.pick("1", "3") }

func (g *generator) ownID(i int) string { return fmt.Sprintf("k%d-%d", g.number, i) }

func (g *generator) source2(i int) object {
	return object{"n": int(g.number)*10 + i, "title": g.word() + " " + g.word(), "category": g.category(), "price": float64(g.IntN(1000)) / 4}
}

// write indexes, updates, reads and deletes single documents.
func (g *generator) write() conversation {
	index, id := g.own(), g.ownID(0)
	doc := "/" + index + "/_doc/" + id
	steps := []request{withJSON(request{method: "PUT", uri: doc + g.pick("", "?refresh=true", "?routing=alpha", "?pretty", "?op_type=create", "?timeout=1m", "?unknown=1")}, g.source2(0))}
	for i := range 2 + g.IntN(4) {
		steps = append(steps, g.writeStep(index, id, i+1))
	}
	steps = append(steps,
		request{operation: "write_refresh", method: "POST", uri: "/" + index + "/_refresh"},
		withJSON(request{operation: "write_search", method: "POST", uri: "/" + index + "/_search"},
			object{"query": object{"range": object{"n": object{"gte": int(g.number) * 10, "lt": int(g.number)*10 + 10}}}, "sort": []any{"n"}}))
	return conversation{steps: steps, writes: true}
}

func (g *generator) writeStep(index, id string, i int) request {
	doc := "/" + index + "/_doc/" + id
	switch g.IntN(10) {
	case 0:
		return withJSON(request{method: "PUT", uri: "/" + index + "/_create/" + g.pick(id, g.ownID(i))}, g.source2(i))
	case 1:
		return withJSON(request{method: "POST", uri: "/" + index + "/_update/" + g.pick(id, id, "ghost")}, object{"doc": object{"price": i}})
	case 2:
		return withJSON(request{method: "POST", uri: "/" + index + "/_update/" + id + "?_source=true"},
			object{"script": object{"source": "ctx._source.price += params.x", "params": object{"x": 3}}, "upsert": g.source2(i)})
	case 3:
		return request{method: "DELETE", uri: "/" + index + "/_doc/" + g.pick(id, "ghost")}
	case 4:
		return request{operation: "write_get", method: g.pick("GET", "HEAD"), uri: doc}
	case 5:
		return withJSON(request{method: "PUT", uri: doc + g.pick("?version=3", "?if_seq_no=0&if_primary_term=1", "?version=7&version_type=external", "?if_seq_no=x")}, g.source2(i))
	case 6:
		return withJSON(request{method: "POST", uri: "/" + ownPrefix + "@side@-1/_doc"}, g.source2(i))
	case 7:
		return withJSON(request{method: "PUT", uri: doc}, object{"n": "not a number"})
	case 8:
		return withContent(request{method: "PUT", uri: doc}, `{"n":`)
	default:
		return withJSON(request{method: "PUT", uri: doc + g.pick("", "?refresh=true", "?refresh")}, g.source2(i))
	}
}

// bulk writes several documents at once, and reads them.
func (g *generator) bulk() conversation {
	index := g.own()
	var body string
	for i := range 1 + g.IntN(8) {
		action := object{"_index": index, "_id": g.ownID(i)}
		switch g.IntN(6) {
		case 0:
			body += encode(object{"delete": action}) + "\n"
		case 1:
			body += encode(object{"update": action}) + "\n" + encode(object{"doc": object{"price": i}, "doc_as_upsert": g.one(2)}) + "\n"
		case 2:
			body += encode(object{"create": action}) + "\n" + encode(g.source2(i)) + "\n"
		case 3:
			body += encode(object{"index": action}) + "\n" + `{"n":"not a number"}` + "\n"
		default:
			body += encode(object{"index": action}) + "\n" + encode(g.source2(i)) + "\n"
		}
	}
	if g.one(10) {
		body = g.breakLines(body)
	}
	r := request{method: g.pick("POST", "PUT"), uri: g.pick("/_bulk", "/"+index+"/_bulk") + "?refresh=" + g.pick("true", "true", "false"), body: body}
	r.set("Content-Type", g.pick("application/x-ndjson", "application/x-ndjson", "application/json", "text/plain"))
	refresh := request{operation: "write_refresh", method: "POST", uri: "/" + index + "/_refresh"}
	read := withJSON(request{operation: "write_mget", method: "POST", uri: "/" + index + "/_mget"}, object{"ids": []string{g.ownID(0), g.ownID(1), g.ownID(2)}})
	return conversation{steps: []request{r, refresh, read}, writes: true}
}

// byQuery updates or deletes by query.
func (g *generator) byQuery() conversation {
	index := g.own()
	fill := request{operation: "bulk", method: "POST", uri: "/" + index + "/_bulk?refresh=true"}
	fill.set("Content-Type", "application/x-ndjson")
	for i := range 5 {
		fill.body += encode(object{"index": object{"_id": g.ownID(i)}}) + "\n" + encode(g.source2(i)) + "\n"
	}
	mine := object{"query": object{"range": object{"n": object{"gte": int(g.number) * 10, "lt": int(g.number)*10 + g.IntN(8)}}}}
	r := request{method: "POST", uri: "/" + index + "/" + g.pick("_delete_by_query", "_update_by_query") + "?refresh=true"}
	if g.one(4) {
		r.param(g.pick("preference=_local", "routing=alpha", "conflicts=proceed", "max_docs=2&sort=n", "unknown=1", "slices=2", "scroll_size=2"))
	}
	count := withJSON(request{operation: "write_count", method: "POST", uri: "/" + index + "/_count"}, mine)
	return conversation{steps: []request{fill, withJSON(r, mine), count}, writes: true}
}

// manage makes an index, uses and deletes it.
func (g *generator) manage() conversation {
	index := fmt.Sprintf("%s@side@-new-%d", ownPrefix, g.number)
	search := request{operation: "write_search", method: "GET", uri: "/" + index + "/_search"}
	steps := []request{
		search,
		// Writes say how many copies took them: all must be there.
		withJSON(request{method: "PUT", uri: "/" + index + "?wait_for_active_shards=all"}, object{"settings": object{"number_of_shards": 1 + g.IntN(3), "number_of_replicas": 1, "hidden": true}}),
		withJSON(request{method: "PUT", uri: "/" + index}, object{}),
		{method: "HEAD", uri: "/" + index},
		withJSON(request{operation: "write", method: "PUT", uri: "/" + index + "/_doc/1?refresh=true"}, g.source2(0)),
		search,
		{method: "GET", uri: "/" + index + "/_mapping"},
		{method: "DELETE", uri: "/" + index},
		search,
	}
	return conversation{steps: steps, writes: true}
}
