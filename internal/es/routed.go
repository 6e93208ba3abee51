package es

import (
	"bytes"
	"strings"
)

// routingParam is the parameter that narrows what an operation touches.
const routingParam = "routing"

// RoutedKind says what a routing means to an operation. The set is closed.
type RoutedKind uint8

// The kinds of operations.
const (
	// RoutedNot: it takes no routing, or one that is nobody else's concern.
	RoutedNot RoutedKind = iota
	// RoutedSearch: it visits the shards of its target that its routing values lead to.
	RoutedSearch
	// RoutedItems: it holds searches, each with a routing of its own in the line before
	// it; that of the request line is for those that have none.
	RoutedItems
	// RoutedByID: it reads or writes a document by its id.
	RoutedByID
)

// Routed is what the request line says of an operation that takes a routing.
type Routed struct {
	Kind RoutedKind
	// Target is the decoded index expression, empty for all indices, and Routing the
	// decoded value of the parameter, empty if there is none.
	Target, Routing string
	// Doubtful says that engines may read the line otherwise.
	Doubtful bool
}

// ReadRouted reads the request line, still encoded, of any request.
func ReadRouted(method, rawPath, rawQuery string) Routed {
	var buf [maxSegments]string
	path := splitPath(rawPath, buf[:0])
	r := Routed{Kind: routedKind(method, path)}
	if r.Kind == RoutedNot {
		return r
	}
	target := ""
	if isTarget(path[0]) {
		target = path[0]
	}
	params := readParams(rawQuery)
	decoded, ok := decode(target, false)
	if params.indexed && target == "" {
		decoded, params.indexed = params.index, false
	}
	r.Target, r.Routing = decoded, params.routing
	r.Doubtful = !ok || params.ambiguous || params.indexed || strings.IndexByte(target, '#') >= 0 || params.expands && isPattern(decoded)
	return r
}

func routedKind(method string, path []string) RoutedKind {
	if kind := typedKind(method, path); kind != RoutedNot {
		return kind
	}
	switch op, _, _ := operation(method, path); op {
	case Search, SearchTemplate, Count, AsyncSearch, PIT:
		return RoutedSearch
	case MSearch, MSearchTemplate:
		return RoutedItems
	case Get, Explain, TermVectors, MGet, MTermVectors:
		return RoutedByID
	case Write, Other:
	default:
		return RoutedNot
	}
	if len(path) > 0 && isTarget(path[0]) {
		path = path[1:]
	}
	if len(path) == 2 && path[0] != "_doc" && (path[1] == "_delete_by_query" || path[1] == "_update_by_query") {
		path = path[1:] // a mapping type came first
	}
	switch strings.Join(path, "/") {
	case "_delete_by_query", "_update_by_query", "_search_shards", "_knn_search", "_graph/explore", "_rollup_search", "_fleet/_fleet_search":
		return RoutedSearch
	case "_fleet/_fleet_msearch":
		return RoutedItems
	}
	if len(path) == 2 && (path[0] == "_doc" || path[0] == "_create" || path[0] == "_update") {
		return RoutedByID
	}
	return RoutedNot
}

// typedKind returns the kind of an operation below the mapping type `_doc` (7.x) that [operation] takes for a
// document with such an id.
func typedKind(method string, path []string) RoutedKind {
	if len(path) < 3 || path[1] != "_doc" || path[2][0] != '_' || !isTarget(path[0]) {
		return RoutedNot
	}
	switch api := strings.Join(path[2:], "/"); {
	case isRead(method) && api == "_count", method == "POST" && (api == "_delete_by_query" || api == "_update_by_query"):
		return RoutedSearch
	case isRead(method) && (api == "_msearch" || api == "_msearch/template"):
		return RoutedItems
	}
	return RoutedNot
}

// LocalTarget returns the part of an index expression that is about indices of this
// cluster. local is false if nothing of it is.
func LocalTarget(target string) (_ string, local bool) {
	if !hasRemote(target) {
		return target, true
	}
	var own []string
	for expr := range strings.SplitSeq(target, ",") {
		expr, _, _ = strings.Cut(expr, "::") // a part of an index
		if !hasRemote(expr) {
			own = append(own, expr)
		}
	}
	return strings.Join(own, ","), len(own) > 0
}

// AddRouting returns rawQuery with these values appended to the routing in it, which has a
// value. All other bytes stay as they are.
func AddRouting(rawQuery string, values []string) string {
	var out strings.Builder
	editParam(&out, rawQuery, routingParam, func(p param) {
		out.WriteString(rawQuery[p.start:p.end])
		for _, value := range values {
			out.WriteByte(',')
			writeEncoded(&out, value)
		}
	})
	return out.String()
}

// DropRouting returns rawQuery without its routing.
func DropRouting(rawQuery string) string {
	var out strings.Builder
	editParam(&out, rawQuery, routingParam, func(param) {})
	return out.String()
}

// HeaderRouting is what the header line of a search in a multi-search says of its
// routing.
type HeaderRouting struct {
	Target, Routing string // what the line does not say is the request line's
	// Doubtful says that the target may stand for other indices than by default.
	Doubtful bool

	at spot // of the routing
}

// ReadHeaderRouting reads a header line, without its line feed. r is what the request line
// says. ok is false for what engines may read otherwise.
func ReadHeaderRouting(line []byte, r Routed) (h HeaderRouting, ok bool) {
	h = HeaderRouting{Target: r.Target, Routing: r.Routing}
	next, seen, ok := eachHeaderKey(line, func(s *scanner, key headerKey) bool {
		start := s.i
		ok := s.headerValue(key, &h.Target, &h.Routing, &h.Doubtful)
		if key == keyRouting {
			h.at = spot{from: start, to: s.i}
		}
		return ok
	})
	if seen&keyRouting == 0 {
		h.at = next
	}
	h.Doubtful = h.Doubtful && isPattern(h.Target)
	return h, ok
}

// With returns the line with another routing; with none, if it is empty, whatever the
// request line says.
func (h HeaderRouting) With(line []byte, routing string) []byte {
	out := h.at.open(bytes.Clone(line[:h.at.from]), routingParam)
	if routing == "" {
		out = append(out, "null"...)
	} else {
		out = appendText(out, routing)
	}
	return append(h.at.end(out), line[h.at.to:]...)
}

// routing reads the value of a routing: a string, or a whole number, which engines take
// as it stands. A null is an empty one.
func (s *scanner) routing() (string, bool) {
	c, st := s.peek()
	if st != scanOK {
		return "", false
	}
	if c == '"' {
		return s.plainText()
	}
	value, st := s.scalar()
	if st == scanOK && string(value) == "null" {
		return "", true
	}
	if st != scanOK || strings.Trim(string(value), "-0123456789") != "" {
		return "", false
	}
	return string(value), true
}
