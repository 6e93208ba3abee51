package es

import "strings"

// maxRequestLine is the engines' default limit on a request line
// (`http.max_initial_line_length`), in bytes.
const maxRequestLine = 4096

// OnlyNodes is the preference that allows only the nodes with these ids. A shard without
// a copy on them fails the search. See
// https://www.elastic.co/guide/en/elasticsearch/reference/7.2/search-request-preference.html.
func OnlyNodes(ids []string) string { return "_only_nodes:" + strings.Join(ids, ",") }

// PreferNodes is the preference that tries the nodes with these ids first.
func PreferNodes(ids []string) string { return "_prefer_nodes:" + strings.Join(ids, ",") }

// isKeyword distinguishes a preference that the engines interpret (`_local`, `_shards:0`)
// from a custom string.
func isKeyword(preference string) bool { return strings.HasPrefix(preference, "_") }

// FitsRequestLine reports whether a request line with this percent-encoded path and
// query, including its line end, is within the engines' default limit.
func FitsRequestLine(method, path, query string) bool {
	line := len(method) + len(" ") + len(path) + len(" HTTP/1.1\r\n")
	if query != "" {
		line += len("?") + len(query)
	}
	return line <= maxRequestLine
}
