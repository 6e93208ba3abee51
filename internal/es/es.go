// Package es is the vocabulary and the wire grammar of Elasticsearch and
// OpenSearch: what a request asks for, its query string, the start of a
// response, the shape of an error. It is pure: no I/O, no clock. Unknown input
// means "pass the request through", never an error.
package es

// Operation names what a request asks of the engine. The set is closed: it is
// used as a metric label.
type Operation string

// The operations sidestep tells apart. [Operation.Steering] says which of them are
// steered; the others are told apart so that operators see what passes.
const (
	Search          Operation = "search" // _search, with or without a target
	SearchTemplate  Operation = "search_template"
	Count           Operation = "count"
	AsyncSearch     Operation = "async_search" // submitting one
	PIT             Operation = "pit"          // opening a point in time
	MSearch         Operation = "msearch"
	MSearchTemplate Operation = "msearch_template"
	Scroll          Operation = "scroll" // continuation or clearing of a scroll
	AsyncResult     Operation = "async_search_result"
	ClosePIT        Operation = "pit_close" // closing or listing points in time
	Get             Operation = "get"       // _doc, _source by id, GET or HEAD
	Explain         Operation = "explain"
	TermVectors     Operation = "termvectors" // of a document of the index
	MGet            Operation = "mget"
	MTermVectors    Operation = "mtermvectors" // takes a preference, but the engines ignore it
	Bulk            Operation = "bulk"
	Write           Operation = "write" // index, create, update, delete one document, by query
	Other           Operation = "other"
)

// Operations returns the closed set.
func Operations() []Operation {
	return []Operation{
		Search, SearchTemplate, Count, AsyncSearch, PIT, MSearch, MSearchTemplate,
		Get, Explain, TermVectors, MGet,
		Scroll, AsyncResult, ClosePIT, MTermVectors, Bulk, Write, Other,
	}
}

// Steering is how the requests of an operation are steered, unless something else
// about them rules it out. The set is closed.
type Steering string

// The ways of steering.
const (
	// SteerNone: not at all, the request passes as it came.
	SteerNone Steering = "none"
	// SteerSearch: it searches all shards of its target, takes a preference in its URL
	// and shows `_shards` in its answer. It may be restricted to listed nodes, repeated
	// and hedged. Its response time counts for the nodes.
	SteerSearch Steering = "search"
	// SteerOnce: it takes a preference in its URL, but leaves something behind on the
	// engine. It is sent once, with a preference that leaves the engine its own
	// fallback, and says nothing of how long a search takes.
	SteerOnce Steering = "once"
	// SteerItems: its body holds many searches, each with a preference of its own in
	// the line before it ([MultiSearch]), which leaves the engine its own fallback.
	// It is sent once, and says nothing of how long a search takes.
	SteerItems Steering = "items"
	// SteerByID: it reads documents by id, of whose copies the engine takes any. It
	// is sent with a preference that leaves the engine its own fallback, may be sent
	// again, and says nothing of how long a search takes.
	SteerByID Steering = "by_id"
)

// Steering returns how requests of the operation are steered.
func (o Operation) Steering() Steering {
	switch o {
	case Search, SearchTemplate, Count:
		return SteerSearch
	case AsyncSearch, PIT:
		return SteerOnce
	case MSearch, MSearchTemplate:
		return SteerItems
	case Get, Explain, TermVectors, MGet:
		return SteerByID
	default:
		return SteerNone
	}
}

// TakesPIT reports whether a request of the operation that has no target may name
// a point in time at the top level of its body, which allows no preference.
func (o Operation) TakesPIT() bool { return o == Search || o == AsyncSearch }

// Request is what the request line alone says.
type Request struct {
	Operation Operation
	// Target is the decoded index expression ("logs-*,-logs-old"), empty for all
	// indices. It and what follows are set for operations that are steered.
	Target string
	// ID is the decoded id of the one document that is read, empty where the body
	// names them.
	ID string
	// Routing is the decoded value of the routing parameter, empty if absent.
	Routing string
	// Preference is the decoded value of the preference parameter, of the last one
	// if there are several. A request that may be steered has none, or a custom
	// string: a wish that the same string be served by the same copies.
	Preference string
	// Scroll says that the search opens a scroll.
	Scroll bool
	// Unverifiable says that the answer may not show `_shards` in JSON
	// (filter_path, format=yaml|cbor|smile): a partial result could not be seen.
	Unverifiable bool
	// Expands says that wildcards match other indices than by default. Set for
	// multi-searches.
	Expands bool
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
	PassNotSteerable     PassReason = "not_steerable"
	PassClientPreference PassReason = "client_preference" // the client chose, by a keyword or for what keeps its copies
	PassRemoteTarget     PassReason = "remote_target"     // cross-cluster
	PassPIT              PassReason = "pit"
	PassUnreadableBody   PassReason = "unreadable_body"   // no target, and the body could hide a pit; documents read by id cannot be told
	PassUnreadableHeader PassReason = "unreadable_header" // of an item of a multi-search
	PassUnverifiable     PassReason = "unverifiable"      // an answer that may not show that the cluster forbids preferences
	PassAmbiguousQuery   PassReason = "ambiguous_query"   // a parameter we need occurs twice or does not decode
	PassTypedPath        PassReason = "typed_path"        // 7.x /{index}/{type}/_search
	PassIndicesOptions   PassReason = "indices_options"   // wildcards match other indices than by default
)
