package es

import (
	"strconv"
	"strings"
)

// Classify returns what a request asks for, by its request line alone. rawPath is the
// percent-encoded path and rawQuery the query without its `?`, both exactly as on the
// request line.
func Classify(method, rawPath, rawQuery string) Request {
	var buf [maxSegments]string
	path := splitPath(rawPath, buf[:0])
	op, target, typed := operation(method, path)
	if op.Steering() == SteerNone {
		return Request{Operation: op, Pass: PassNotSteerable}
	}
	if op.Steering() == SteerItems {
		return classifyItems(op, target, typed, rawQuery)
	}
	r := Request{Operation: op}
	decodedTarget, targetOK := decode(target, false)
	params := readParams(rawQuery)
	if params.indexed && op == AsyncSearch && target == "" {
		decodedTarget, params.indexed = params.index, false
	}
	r.Target, r.Routing, r.Preference = decodedTarget, params.routing, params.preference
	r.Scroll, r.Unverifiable = params.scroll, params.unverifiable
	keepsCopies := params.scroll || op.Steering() == SteerOnce
	if op.Steering() == SteerByID && !typed {
		var ok bool
		r.ID, typed, ok = documentID(op, path)
		// The engines do not ignore an empty routing when a document is read.
		params.ambiguous = params.ambiguous || !ok || params.routed && params.routing == ""
	}
	switch {
	case typed:
		r.Pass = PassTypedPath
	case !targetOK || params.ambiguous || params.indexed || isBlankList(decodedTarget) || strings.IndexByte(target, '#') >= 0:
		r.Pass = PassAmbiguousQuery
	case isKeyword(params.preference), params.preference != "" && keepsCopies:
		r.Pass = PassClientPreference
	case params.remote || hasRemote(decodedTarget):
		r.Pass = PassRemoteTarget
	case decodedTarget == "" && (op == SearchTemplate || op.TakesPIT() && params.source):
		// A template may be rendered to a point in time.
		r.Pass = PassUnreadableBody
	case params.expands && isPattern(decodedTarget):
		r.Pass = PassIndicesOptions
	}
	return r
}

// documentID returns the id in the path of a read by id; none if the body names the
// documents. typed says that it is the name of an API below a mapping type (7.x, as in
// /logs/_doc/_count).
func documentID(op Operation, path []string) (id string, typed, ok bool) {
	if op == MGet {
		return "", false, true
	}
	id, ok = decode(path[2], false)
	ok = ok && strings.IndexByte(path[2], '#') < 0
	typed = strings.HasPrefix(id, "_") && strings.Trim(id, "_abcdefghijklmnopqrstuvwxyz") == ""
	return id, typed, ok
}

// params is the content of the query string.
type params struct {
	preference, routing string
	routed              bool   // there is a routing parameter
	index               string // names the target, if indexed
	indexed             bool
	scroll              bool // opens a scroll
	filtered            bool // filter_path: any part of the answer may be missing
	unverifiable        bool // the answer may not show `_shards` in JSON
	ambiguous           bool
	remote              bool // it includes other clusters or projects
	source              bool // the body is a parameter
	expands             bool // wildcards match other indices than by default
	atOnce              int  // searches of a multi-search
}

func readParams(query string) params {
	var s params
	// A fragment ends the query for the engines; no client sends one on purpose.
	s.ambiguous = strings.IndexByte(query, '#') >= 0
	var routings int
	for p, next := nextParam(query, 0); next >= 0; p, next = nextParam(query, next) {
		name, ok := decode(p.name, true)
		if !ok {
			s.ambiguous = true
			continue
		}
		switch name {
		case preferenceParam:
			s.preference = s.decode(p.value) // the last one counts
		case "routing":
			routings++
			s.routing = s.decode(p.value)
		case "scroll":
			s.scroll = true
		case "filter_path":
			s.filtered = true
			s.unverifiable = s.unverifiable || !keepsShards(s.decode(p.value))
		case "format":
			s.unverifiable = s.unverifiable || !strings.EqualFold(s.decode(p.value), "json")
		case "source":
			s.source = true
		case "project_routing":
			s.remote = true
		case "index":
			// The engines keep parameters of path and query in one map: index= may name
			// the target.
			s.ambiguous = s.ambiguous || s.indexed
			s.index, s.indexed = s.decode(p.value), true
		case "expand_wildcards":
			s.expands = s.expands || s.decode(p.value) != "open"
		case "ignore_throttled":
			s.expands = s.expands || s.decode(p.value) != "true"
		case "max_concurrent_searches":
			s.atOnce, _ = strconv.Atoi(p.value) // else the engine refuses it
		}
	}
	s.ambiguous, s.routed = s.ambiguous || routings > 1, routings > 0
	return s
}

func (s *params) decode(value string) string {
	decoded, ok := decode(value, true)
	s.ambiguous = s.ambiguous || !ok
	return decoded
}

// keepsShards reports whether a filter_path certainly keeps all of `_shards` in the answer.
func keepsShards(filter string) bool {
	keeps := false
	for pattern := range strings.SplitSeq(filter, ",") {
		switch strings.TrimSpace(pattern) {
		case "_shards", "_shards.*", "_shards.**", "*", "**":
			keeps = true
		}
		if strings.HasPrefix(strings.TrimSpace(pattern), "-") {
			return false
		}
	}
	return keeps
}

// hasRemote reports whether an index expression names another cluster, or a part of an
// index (`logs::failures`), which sidestep does not know either. A colon inside date math
// (`<logs-{now/d{yyyy|+01:00}}>`) is neither.
func hasRemote(target string) bool {
	if strings.IndexByte(target, ':') < 0 {
		return false
	}
	for expr := range strings.SplitSeq(target, ",") {
		local := strings.TrimPrefix(expr, "-")
		dateMath := strings.HasPrefix(local, "<") && strings.HasSuffix(local, ">")
		if !dateMath && strings.IndexByte(expr, ':') >= 0 {
			return true
		}
	}
	return false
}

// isBlankList reports whether a target is given but names nothing ("," or ",,"): the
// engines read it as all indices.
func isBlankList(target string) bool {
	return target != "" && strings.Trim(target, ", ") == ""
}

// isPattern reports whether options for wildcards determine which indices a target names.
func isPattern(target string) bool {
	return target == "" || strings.Contains(target, "_all") || strings.Contains(target, "*")
}

// AcceptsJSON reports whether an Accept header makes the engines answer in JSON. Anything
// that is not clearly JSON is false. It works for a request's Content-Type, too: without
// an Accept header the engines answer in the format of the request.
func AcceptsJSON(accept string) bool {
	if strings.TrimSpace(accept) == "" {
		return true
	}
	json := false
	for element := range strings.SplitSeq(accept, ",") {
		mediaType, _, _ := strings.Cut(element, ";")
		switch strings.ToLower(strings.TrimSpace(mediaType)) {
		case "application/json", "application/vnd.elasticsearch+json", "*/*", "application/*":
			json = true
		case "text/plain", "text/*": // what HTTP libraries add; no format of the engines
		default:
			return false
		}
	}
	return json
}
