package es

import (
	"bytes"
	"encoding/json"
	"slices"
)

// IsNoNodesError reports whether body is the engines' 400 for an `_only_nodes`
// list on which some shard has no copy.
func IsNoNodesError(body []byte) bool {
	return bytes.Contains(body, []byte("illegal_argument_exception")) &&
		(bytes.Contains(body, []byte("no data nodes with criteria ")) ||
			bytes.Contains(body, []byte("no data nodes with criterion ")))
}

// IsWeightedRoutingError reports whether body is OpenSearch's 403 for a node
// preference under strict weighted shard routing.
func IsWeightedRoutingError(body []byte) bool {
	return bytes.Contains(body, []byte("Preference type based routing not allowed with strict weighted shard routing"))
}

// ErrorBody returns a JSON error in the engines' shape. typ is for programs
// ("search_phase_execution_exception"), reason for people.
func ErrorBody(status int, typ, reason string) []byte {
	type cause struct {
		Type   string `json:"type"`
		Reason string `json:"reason"`
	}
	type failure struct {
		RootCause []cause `json:"root_cause"`
		cause
	}
	c := cause{Type: typ, Reason: reason}
	body, _ := json.Marshal(struct { //nolint:errchkjson // strings and an int always marshal
		Error  failure `json:"error"`
		Status int     `json:"status"`
	}{failure{RootCause: []cause{c}, cause: c}, status})
	return body
}

// Failure is what an error answer (429, 5xx) is about.
type Failure uint8

// Values of Failure.
const (
	FailureOther   Failure = iota // a node, a copy, a queue
	FailureBreaker                // a circuit breaker: memory, on the node or for the request
	FailureTimeout                // the time that the request may take
	FailureRequest                // the request: all copies will answer the same
)

// requestFailures are types of errors that a request gets from every node: it asks for
// more than a limit allows, or its task was cancelled. The status differs: a search task
// cancelled by OpenSearch's backpressure gets 429, too many buckets get 503 on OpenSearch
// and before Elasticsearch 8, too many scroll contexts 429.
var requestFailures = [...]string{
	"too_many_buckets_exception", "too_many_scroll_contexts_exception", "task_cancelled_exception",
	"too_many_clauses", "too_many_nested_clauses",
}

// reduceFailures are types of errors that the results of shards cannot be put together, as a field has different types in
// them: 500. Of a shard they may be a fault of its node: "Failed to build aggregation" is also said of a disk that
// cannot be read.
var reduceFailures = [...]string{"aggregation_execution_exception", "class_cast_exception"}

// shardsRefuse are types of errors with which a shard refuses what a request asks of it, such as to sort by a field that
// its mapping does not have or to divide documents by a text. All its copies do.
var shardsRefuse = [...]string{
	"illegal_argument_exception", "query_shard_exception", "parsing_exception", "x_content_parse_exception", "script_exception",
	"parse_exception", // a text that is no date, of a field that is one in that index
	"number_format_exception", "invalid_path", "aggregation_execution_exception",
	"too_many_buckets_exception", "too_many_clauses", "too_many_nested_clauses",
}

// unthought are types of errors by what the engine did not think of, such as to search after null, or spans in a field
// without positions (500, seen on OpenSearch 3.6.0). Where all shards fail, all their copies have been asked. Where some
// do, it may be a fault of a node that has not found the documents, for which the engine asks no other copy.
var unthought = [...]string{
	"class_cast_exception", "illegal_state_exception", "null_pointer_exception", "search_exception", "unsupported_operation_exception",
}

// rejection is the type of the error that a queue is full. Elasticsearch puts "es_" before it.
const rejection = "rejected_execution_exception"

// QueuesFull reports whether the start of an answer lists failures of shards, and all that it
// lists are that a search queue was full: of a search that has no list of nodes, those of all the
// copies. partial says that the answer is a result in which these shards are missing. An error that
// lists no shard is about the coordinating node. Before the failures of many shards their root causes
// fill the start: from two on, they are those of shards.
func QueuesFull(body []byte, partial bool) bool {
	if !isJSON(body) {
		_, failures, _ := bytes.Cut(body, []byte("failed_shards"))
		full := bytes.Count(failures, []byte(rejection))
		return !partial && full > 0 && full == bytes.Count(failures, []byte("_exception"))
	}
	f, st := readFailures(body, partial)
	switch {
	case f.others > 0:
		return false
	case f.shards > 0:
		return true
	}
	return st == scanMore && f.causes > 1
}

// ShardsRefuse reports whether the start of an answer lists failures of shards, and all that it lists are
// about what the request asks of them. partial says that the answer is a result in which these shards are missing.
func ShardsRefuse(body []byte, partial bool) bool {
	f, _ := readFailures(body, partial)
	if f.all {
		f.refusals += f.unthought
	}
	return f.shards > 0 && f.refusals == f.shards+f.causes
}

// ShardsUnread reports whether the start of an error answer ends before the failures of shards, if
// there are any: so it does not tell which node is at fault.
func ShardsUnread(body []byte) bool {
	if !isJSON(body) {
		return false
	}
	f, st := readFailures(body, false)
	return st == scanMore && f.shards == 0
}

// failures counts what the start of an answer lists.
type failures struct {
	causes int // root causes
	shards int // that failed
	others int // of both, those that are not that a queue was full
	// refusals are those of both by what the request asks.
	refusals int
	// unthought are those of both by what the engine did not think of.
	unthought int
	all       bool // the error says that all shards failed
}

// readFailures counts the failures in the start of an error, or of a partial result.
func readFailures(body []byte, partial bool) (f failures, st status) {
	object, list := "error", "failed_shards"
	if partial {
		object, list = "_shards", "failures"
	}
	s := scanner{b: body}
	if st = s.member(object); st != scanOK {
		return f, st
	}
	return f, s.object(func(key []byte) status {
		switch string(key) {
		case "reason":
			start := s.i
			st := s.skip()
			f.all = !partial && bytes.Contains(s.b[start:s.i], []byte("all shards failed"))
			return st
		case "root_cause":
			return s.elements(func() status { return s.errorType(&f, &f.causes) })
		case list:
			return s.elements(func() status {
				return s.object(func(key []byte) status {
					if string(key) == "reason" {
						return s.errorType(&f, &f.shards)
					}
					return s.skip()
				})
			})
		}
		return s.skip()
	})
}

// errorType reads an error and counts it.
func (s *scanner) errorType(f *failures, of *int) status {
	return s.object(func(key []byte) status {
		if string(key) != "type" {
			return s.skip()
		}
		name, st := s.text()
		if st != scanOK {
			return st
		}
		*of++
		if slices.Contains(shardsRefuse[:], string(name)) {
			f.refusals++
		}
		if slices.Contains(unthought[:], string(name)) {
			f.unthought++
		}
		if string(bytes.TrimPrefix(name, []byte("es_"))) != rejection {
			f.others++
		}
		return scanOK
	})
}

// timeExceeded is the reason of a query_phase_execution_exception of a search that may not return what it has found in
// its time: on OpenSearch (3.6.0) with 500, and before Elasticsearch 8. Later it has a type of its own, with 504 or,
// from 9.0 on, 429.
const timeExceeded = "Time exceeded"

// FailureOf returns what the start of an error answer is about.
func FailureOf(body []byte) Failure {
	quote := ""
	if isJSON(body) { // whose texts can hold the names, too
		quote = `"`
	}
	says := func(name string) bool { return bytes.Contains(body, []byte(quote+name+quote)) }
	switch {
	case slices.ContainsFunc(requestFailures[:], says), slices.ContainsFunc(reduceFailures[:], says) && noShardFailed(body):
		return FailureRequest
	case says("circuit_breaking_exception"):
		return FailureBreaker
	case says("search_timeout_exception"), says("query_phase_execution_exception") && bytes.Contains(body, []byte(timeExceeded)):
		return FailureTimeout
	}
	return FailureOther
}

// noShardFailed reports whether the start of an error lists no failure of a shard.
func noShardFailed(body []byte) bool {
	f, _ := readFailures(body, false)
	return isJSON(body) && f.shards == 0 && f.causes == 0
}

// isJSON reports whether an answer is JSON, and not YAML, CBOR or SMILE.
func isJSON(body []byte) bool {
	s := scanner{b: body}
	c, _ := s.peek()
	return c == '{'
}
