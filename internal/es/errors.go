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

// ErrorBody is a JSON error in the shape the engines use: typ is what clients
// branch on ("search_phase_execution_exception"), reason what people read.
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
