package es

import "strings"

// hidden replaces what must not be shown of a path.
const hidden = "{id}"

// HideIDs returns the path of a request line with its ids replaced: ids of documents,
// which are private, and of scrolls and asynchronous searches, which give access to
// results. It drops what follows a "?".
func HideIDs(path string) string {
	path, _, _ = strings.Cut(path, "?")
	segments := strings.Split(path, "/")
	changed := false
	for i := 2; i < len(segments); i++ {
		if segments[i] == "" || segments[i] == hidden || !followsID(segments[:i]) || isAPI(segments[i]) {
			continue
		}
		segments[i], changed = hidden, true
	}
	if !changed {
		return path
	}
	return strings.Join(segments, "/")
}

// followsID reports whether the segment after the given ones is an id.
func followsID(before []string) bool {
	last := before[len(before)-1]
	switch last {
	case "_doc", "_source", "_create", "_update", "_explain", "_termvectors", "scroll",
		"_async_search", "_asynchronous_search", "_async_query", "async", "status", "delete", hidden: // an id with a slash
		return true
	case "search":
		return before[len(before)-2] == "_eql"
	}
	// A mapping type (7.x): /index/type/id.
	return len(before) == 3 && last != "" && last[0] != '_' && before[1] != "" && isTarget(before[1])
}

// isAPI reports whether a segment after one with an id is the name of an API.
func isAPI(segment string) bool {
	switch segment {
	case "_search", "_count", "_msearch", "_mget", "_bulk", "_mapping", "_update", "_source", "_explain", "_termvectors", "_create", "template", "status", "async", "delete":
		return true
	}
	return false
}
