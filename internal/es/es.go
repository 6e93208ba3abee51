// Package es is the vocabulary and the wire grammar of Elasticsearch and
// OpenSearch: what a request asks for, its query string, the start of a
// response, the shape of an error. It is pure: no I/O, no clock. Unknown input
// means "pass the request through", never an error.
package es

// Operation names what a request asks of the engine. The set is closed: it is
// used as a metric label.
type Operation string

// The operations sidestep tells apart. Only [Search] is steered; the others are
// told apart so that operators see what passes.
const (
	Search         Operation = "search" // _search, with or without a target
	Scroll         Operation = "scroll" // continuation or clearing of a scroll
	MSearch        Operation = "msearch"
	Count          Operation = "count"
	PIT            Operation = "pit" // opening or closing a point in time
	AsyncSearch    Operation = "async_search"
	SearchTemplate Operation = "search_template"
	Get            Operation = "get" // _doc, _source by id, GET or HEAD
	MGet           Operation = "mget"
	Bulk           Operation = "bulk"
	Write          Operation = "write" // index, create, update, delete one document, by query
	Other          Operation = "other"
)

// Request is what the request line alone says.
type Request struct {
	Operation Operation
	// Target is the decoded index expression of a search ("logs-*,-logs-old"),
	// empty for all indices. Set for Search only.
	Target string
	// Routing is the decoded value of the routing parameter, empty if absent.
	Routing string
	// Preference is the decoded value of the preference parameter, of the last one
	// if there are several. A search that may be steered has none, or a custom
	// string: a wish that the same string be served by the same copies.
	Preference string
	// Scroll says that the search opens a scroll.
	Scroll bool
	// Unverifiable says that the answer may not show `_shards` in JSON
	// (filter_path, format=yaml|cbor|smile): a partial result could not be seen.
	Unverifiable bool
	// Pass is the reason why the request line alone rules out steering; empty if
	// it does not.
	Pass PassReason
}

// PassReason says why a request is forwarded unchanged. The set is closed: it is
// used as a metric label.
type PassReason string

// Reasons that the request line or the head of the body give.
const (
	PassNone             PassReason = ""
	PassNotSearch        PassReason = "not_search"
	PassClientPreference PassReason = "client_preference" // the client chose, by a keyword or for a scroll
	PassRemoteTarget     PassReason = "remote_target"     // cross-cluster
	PassPIT              PassReason = "pit"
	PassUnreadableBody   PassReason = "unreadable_body" // index-less search whose body could hide a pit
	PassAmbiguousQuery   PassReason = "ambiguous_query" // a parameter we need occurs twice or does not decode
	PassTypedPath        PassReason = "typed_path"      // 7.x /{index}/{type}/_search
	PassIndicesOptions   PassReason = "indices_options" // wildcards match other indices than by default
)
