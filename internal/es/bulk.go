package es

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// BulkVerb is the kind of an operation of a bulk.
type BulkVerb string

// The verbs that engines know. All but BulkDelete are followed by a line of source.
const (
	BulkIndex  BulkVerb = "index"
	BulkCreate BulkVerb = "create"
	BulkUpdate BulkVerb = "update"
	BulkDelete BulkVerb = "delete"
)

// BulkFields is a set of kinds of metadata.
type BulkFields uint8

// The kinds of metadata that matter for an operation.
const (
	BulkID       BulkFields = 1 << iota // `_id`, whatever its value
	BulkRouting                         // `routing` and its old spellings
	BulkPipeline                        // `pipeline`
	BulkOther                           // any other field with a meaning of its own, or one that engines read differently

	// These say nothing of an operation, but none may be there twice.
	bulkIndex
	bulkDataStream
	bulkTemplates
	bulkPipelines

	bulkTold = BulkID | BulkRouting | BulkPipeline | BulkOther
)

// BulkAction is the content of an action line of a bulk.
type BulkAction struct {
	Verb BulkVerb
	// Index is `_index`, empty if the line names none. It shares memory with the line.
	Index  []byte
	Fields BulkFields
	// Insert is the offset in the line at which another field can be written: behind the
	// opening brace of the metadata. Bare says that no other field follows.
	Insert int
	Bare   bool
	// Routing is the client's routing if the line has exactly one, under its usual name
	// and not empty; else it is empty. Its value is between RoutingFrom and RoutingTo.
	Routing                string
	RoutingFrom, RoutingTo int
}

// ReadBulkAction reads an action line of a bulk, without its line feed. ok is false for a
// line that some engine may not read as this one operation: it may be an error, or what
// follows may be read differently.
func ReadBulkAction(line []byte) (a BulkAction, ok bool) {
	s := scanner{b: line}
	if !json.Valid(line) || !utf8.Valid(line) || s.expect('{') != scanOK {
		return BulkAction{}, false
	}
	key, st := s.key(true)
	if st != scanOK {
		return BulkAction{}, false
	}
	if a.Verb, ok = bulkVerb(key); !ok || s.expect('{') != scanOK {
		return BulkAction{}, false
	}
	a.Insert, a.Bare = s.i, true
	if s.bulkMetadata(&a) != scanOK || s.next(false, '}') != scanEnd {
		return BulkAction{}, false
	}
	return a, true
}

func bulkVerb(key []byte) (BulkVerb, bool) {
	for _, verb := range [...]BulkVerb{BulkIndex, BulkCreate, BulkUpdate, BulkDelete} {
		if string(key) == string(verb) {
			return verb, true
		}
	}
	return "", false
}

// bulkMetadata reads the metadata of an operation, after its opening brace.
func (s *scanner) bulkMetadata(a *BulkAction) status {
	st := s.members(func(key []byte) (st status) {
		field := bulkField(key)
		if a.Fields&field != 0 { // a second one
			if field&BulkRouting != 0 {
				a.Routing = ""
			}
			field |= BulkOther
		}
		a.Bare, a.Fields = false, a.Fields|field
		switch {
		case field == BulkRouting:
			return s.bulkRouting(a)
		case field != bulkIndex:
			return s.skip()
		case s.b[s.i] != '"':
			a.Fields |= BulkOther
			return s.skip()
		}
		if a.Index, st = s.text(); bytes.ContainsRune(a.Index, utf8.RuneError) {
			a.Fields |= BulkOther
		}
		return st
	})
	a.Fields &= bulkTold
	return st
}

// bulkRouting reads the value of a routing.
func (s *scanner) bulkRouting(a *BulkAction) (st status) {
	from := s.i
	routing, ok := s.routing()
	if !ok {
		s.i = from
		st = s.skip()
	}
	a.Routing, a.RoutingFrom, a.RoutingTo = routing, from, s.i
	return st
}

func bulkField(key []byte) BulkFields {
	switch string(key) {
	case "_id":
		return BulkID
	case "routing":
		return BulkRouting
	case "_routing", "parent", "_parent":
		return BulkRouting | BulkOther
	case "pipeline":
		return BulkPipeline
	case "_index":
		return bulkIndex
	case "require_data_stream":
		return bulkDataStream
	case "dynamic_templates":
		return bulkTemplates
	case "list_executed_pipelines":
		return bulkPipelines
	}
	return BulkOther
}

// BulkErrors reads the beginning of the answer to a bulk: whether an operation failed. The engines tell that before the
// items. known is false while it is not told.
func BulkErrors(prefix []byte) (failed, known bool) {
	s := scanner{b: prefix}
	if s.member("errors") != scanOK {
		return false, false
	}
	value, st := s.scalar()
	failed = string(value) == "true"
	return failed, st == scanOK && (failed || string(value) == "false")
}

// BulkLine is the content of the request line of a bulk.
type BulkLine struct {
	// Index is the index of operations that name none; empty if there is none.
	Index string
	// Plain says that nothing on the line, except the index, applies to each of the
	// operations: no routing, no pipeline, no type, no parameter that is not known to be
	// harmless.
	Plain bool
	// Refreshes says that the answer waits for a refresh, whatever the writes take.
	Refreshes bool
	// Filtered says that a filter_path may leave out the status of an operation, or keeps parts
	// of items that no item has of which the document had been stored before.
	Filtered bool
}

// ReadBulkLine reads the request line of a bulk.
func ReadBulkLine(rawPath, rawQuery string) BulkLine {
	var buf [maxSegments]string
	path := splitPath(rawPath, buf[:0])
	l := BulkLine{Plain: len(path) <= 2} // more segments: a type
	if len(path) == 2 {
		var ok bool
		l.Index, ok = decode(path[0], false)
		l.Plain = ok
	}
	if strings.IndexByte(rawQuery, '#') >= 0 {
		l.Plain = false
	}
	for p, next := nextParam(rawQuery, 0); next >= 0; p, next = nextParam(rawQuery, next) {
		switch p.name { // a percent-encoded name is unknown
		case "refresh":
			l.Refreshes = p.value != "false"
		case "filter_path":
			l.Filtered = l.Filtered || !keepsStatuses(p.value)
		case "timeout", "wait_for_active_shards", "pretty", "human", "error_trace", "include_source_on_error",
			"_source", "_source_includes", "_source_excludes", "require_data_stream", "list_executed_pipelines":
		default:
			l.Plain = false
		}
	}
	return l
}

// keepsStatuses reports whether a filter_path is like that of Logstash and Beats
// (`errors,items.*.error,items.*.status`), which keeps the status of each operation and
// nothing else of those that did not fail.
func keepsStatuses(filter string) bool {
	filter, ok := decode(filter, true)
	keeps := false
	for pattern := range strings.SplitSeq(filter, ",") {
		switch pattern {
		case "items.*.status":
			keeps = true
		case "errors", "took", "items.*.error", "items.*.failure_store":
		default:
			return false
		}
	}
	return ok && keeps
}
