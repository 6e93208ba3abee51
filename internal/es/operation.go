package es

import "strings"

// maxSegments is one more than the longest path that is recognised, so that longer ones
// are seen as longer.
const maxSegments = 6

// splitPath appends the segments of a path to segments, still percent-encoded: the
// engines match keywords before they decode. Trailing slashes are ignored. It returns nil
// for a path that is not recognised: an empty segment, no leading slash, too long.
func splitPath(path string, segments []string) []string {
	path = strings.TrimRight(path, "/")
	for path != "" {
		if path[0] != '/' || len(segments) == cap(segments) {
			return nil
		}
		path = path[1:]
		end := strings.IndexByte(path, '/')
		if end < 0 {
			end = len(path)
		}
		if end == 0 {
			return nil
		}
		segments = append(segments, path[:end])
		path = path[end:]
	}
	return segments
}

// operation returns the operation of a path, and its target as it is in the path. typed
// says that the path has a mapping type (7.x).
func operation(method string, path []string) (op Operation, target string, typed bool) {
	if len(path) == 0 {
		return Other, "", false
	}
	if !isTarget(path[0]) {
		return clusterOperation(method, path), "", false
	}
	target, rest := path[0], path[1:]
	if len(rest) > 1 && (rest[0][0] != '_' || (rest[0] == "_doc" && rest[1] == "_search")) {
		typed, rest = true, rest[1:]
	}
	switch {
	case len(rest) == 0:
		return Other, "", false
	case typed:
		return readOperation(method, rest), target, true
	}
	return indexOperation(method, rest), target, false
}

// isTarget distinguishes an index expression from the name of an API: no index name
// starts with an underscore.
func isTarget(segment string) bool {
	return segment[0] != '_' || segment == "_all" || strings.HasPrefix(segment, "_all,")
}

// clusterOperation returns the operation of a path that starts with the name of an API.
func clusterOperation(method string, path []string) Operation {
	switch path[0] {
	case "_async_search":
		return asyncOperation(method, path[1:])
	case "_plugins", "_opendistro":
		if len(path) > 1 && path[1] == "_asynchronous_search" {
			return asyncOperation(method, path[2:])
		}
		return Other
	case "_pit":
		return only(method == "DELETE" && len(path) == 1, ClosePIT)
	case "_reindex":
		return only(method == "POST" && len(path) == 1, Write)
	case "_search":
		if len(path) > 1 && path[1] == "scroll" {
			return only((isRead(method) || method == "DELETE") && len(path) <= 3, Scroll)
		}
		if len(path) > 1 && path[1] == "point_in_time" {
			return only((method == "GET" || method == "DELETE") && len(path) <= 3, ClosePIT)
		}
	}
	return readOperation(method, path)
}

// asyncOperation returns the operation of an asynchronous search. rest follows the API's
// name.
func asyncOperation(method string, rest []string) Operation {
	if len(rest) == 0 {
		return only(method == "POST", AsyncSearch)
	}
	return only(method == "GET" || method == "DELETE", AsyncResult)
}

// indexOperation returns the operation of a path below an index expression. rest follows
// it.
func indexOperation(method string, rest []string) Operation {
	hasID := len(rest) == 2
	switch rest[0] {
	case "_doc":
		if hasID && (method == "GET" || method == "HEAD") {
			return Get
		}
		return only(hasID && isWrite(method) || method == "POST" && len(rest) == 1, Write)
	case "_source":
		return only(hasID && (method == "GET" || method == "HEAD"), Get)
	case "_explain":
		return only(hasID && isRead(method), Explain)
	case "_termvectors":
		return only(hasID && isRead(method), TermVectors)
	case "_create":
		return only(hasID && isWrite(method), Write)
	case "_update":
		return only(hasID && method == "POST", Write)
	case "_delete_by_query", "_update_by_query":
		return only(method == "POST" && len(rest) == 1, Write)
	case "_pit":
		return only(method == "POST" && len(rest) == 1, PIT)
	case "_async_search":
		return only(method == "POST" && len(rest) == 1, AsyncSearch)
	case "_plugins", "_opendistro":
		return only(method == "POST" && hasID && rest[1] == "_asynchronous_search", AsyncSearch)
	case "_search":
		if hasID && rest[1] == "point_in_time" {
			return only(method == "POST", PIT)
		}
	}
	return readOperation(method, rest)
}

// readOperation returns the operation of a path whose form is the same with and without
// index and type.
func readOperation(method string, rest []string) Operation {
	template := len(rest) == 2 && rest[1] == "template"
	if len(rest) > 1 && !template {
		return Other
	}
	switch rest[0] {
	case "_search":
		if template {
			return only(isRead(method), SearchTemplate)
		}
		return only(isRead(method), Search)
	case "_msearch":
		if template {
			return only(isRead(method), MSearchTemplate)
		}
		return only(isRead(method), MSearch)
	case "_count":
		return only(isRead(method) && !template, Count)
	case "_mget":
		return only(isRead(method) && !template, MGet)
	case "_mtermvectors":
		return only(isRead(method) && !template, MTermVectors)
	case "_bulk":
		return only((method == "POST" || method == "PUT") && !template, Bulk)
	}
	return Other
}

func only(known bool, op Operation) Operation {
	if known {
		return op
	}
	return Other
}

func isRead(method string) bool { return method == "GET" || method == "POST" }

func isWrite(method string) bool {
	return method == "PUT" || method == "POST" || method == "DELETE"
}
