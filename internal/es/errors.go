package es

import (
	"bytes"
	"encoding/json"
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
	FailureRequest                // the request: all copies will answer the same
)

// requestFailures are types of errors that a request gets from every node: it asks for
// more than a limit allows, or its task was cancelled. The status differs: a search task
// cancelled by OpenSearch's backpressure gets 429, too many buckets get 503 on OpenSearch
// and before Elasticsearch 8, too many scroll contexts 429.
var requestFailures = [...]string{
	`"too_many_buckets_exception"`, `"too_many_scroll_contexts_exception"`, `"task_cancelled_exception"`,
	`"too_many_clauses"`, `"too_many_nested_clauses"`,
}

// QueuesFull reports whether the start of an answer lists failures of shards, and all that it
// lists are that a search queue was full: of a search that has no list of nodes, those of all the
// copies. partial says that the answer is a result in which these shards are missing. An error that
// lists no shard is about the coordinating node.
func QueuesFull(body []byte, partial bool) bool {
	list := `"failed_shards":[`
	if partial {
		list = `"failures":[`
	}
	_, failures, _ := bytes.Cut(body, []byte(list))
	if partial { // what follows are documents, which can say anything
		failures, _, _ = bytes.Cut(failures, []byte(`"hits"`))
	}
	for full := false; ; full = true {
		_, reason, more := bytes.Cut(failures, []byte(`"reason":{"type":"`))
		if !more {
			return full
		}
		if !bytes.HasPrefix(bytes.TrimPrefix(reason, []byte("es_")), []byte(`rejected_execution_exception"`)) {
			return false
		}
		failures = reason
	}
}

// FailureOf returns what the start of an error answer is about.
func FailureOf(body []byte) Failure {
	for _, name := range requestFailures {
		if bytes.Contains(body, []byte(name)) {
			return FailureRequest
		}
	}
	if bytes.Contains(body, []byte(`"circuit_breaking_exception"`)) {
		return FailureBreaker
	}
	return FailureOther
}
