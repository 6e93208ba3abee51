// Package es is the vocabulary and the wire grammar of Elasticsearch and OpenSearch: the
// kinds of requests, their query strings, the start of an answer, the shape of an error.
// It is pure: no I/O, no clock. Input that it does not know is never an error; it means
// that the request passes.
package es

// Operation is the kind of a request. The set is closed: it is a metric label.
type Operation string

// The operations that sidestep distinguishes. [Operation.Steering] says which are
// steered; the others exist so that operators see what passes.
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

// Operations returns all operations.
func Operations() []Operation {
	return []Operation{
		Search, SearchTemplate, Count, AsyncSearch, PIT, MSearch, MSearchTemplate,
		Get, Explain, TermVectors, MGet,
		Scroll, AsyncResult, ClosePIT, MTermVectors, Bulk, Write, Other,
	}
}

// Steering is how the requests of an operation are steered, unless something else rules
// that out. The set is closed.
type Steering string

// The ways of steering.
const (
	// SteerNone: not at all, the request passes.
	SteerNone Steering = "none"
	// SteerSearch: it searches all shards of its target, takes a preference in its URL
	// and shows `_shards` in its answer. It may be restricted to listed nodes, repeated
	// and hedged. Its response time counts for the nodes.
	SteerSearch Steering = "search"
	// SteerOnce: it takes a preference in its URL, but creates state on the engine. It is
	// sent once, with a preference that leaves the engine its own fallback. Its response
	// time says nothing of searches.
	SteerOnce Steering = "once"
	// SteerItems: its body holds many searches, each with a preference of its own in the
	// line before it ([MultiSearch]), which leaves the engine its own fallback. It is
	// sent once. Its response time says nothing of searches.
	SteerItems Steering = "items"
	// SteerByID: it reads documents by id, of whose copies the engine takes any. Its
	// preference leaves the engine its own fallback, and it may be repeated. Its response
	// time says nothing of searches.
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

// Request is the content of a request line.
type Request struct {
	Operation Operation
	// Target is the decoded index expression ("logs-*,-logs-old"), empty for all indices.
	// It and the fields below are set for operations that are steered.
	Target string
	// ID is the decoded id of the one document that is read, empty if the body names the
	// documents.
	ID string
	// Routing is the decoded value of the routing parameter, empty if absent.
	Routing string
	// Preference is the decoded value of the last preference parameter. A request that
	// may be steered has none, or a custom string, which asks for the same copies for the
	// same string.
	Preference string
	// Scroll says that the search opens a scroll.
	Scroll bool
	// Unverifiable says that the answer may not show `_shards` in JSON (filter_path,
	// format=yaml|cbor|smile), so that a partial result could not be detected.
	Unverifiable bool
	// Expands says that wildcards match other indices than by default. It is set for
	// multi-searches.
	Expands bool
	// AtOnce is how many searches of a multi-search the client lets the engine have at a time; 0: it does not say.
	AtOnce int
	// Pass is the reason why the request line alone rules out steering; empty if
	// it does not.
	Pass PassReason
}

// PassReason says why a request is forwarded unchanged. The set is closed: it is a metric
// label.
type PassReason string

// Reasons in the request line or the head of the body.
const (
	PassNone             PassReason = ""
	PassNotSteerable     PassReason = "not_steerable"
	PassClientPreference PassReason = "client_preference" // the client chose, by a keyword or for an operation that keeps its copies
	PassRemoteTarget     PassReason = "remote_target"     // cross-cluster
	PassPIT              PassReason = "pit"
	PassUnreadableBody   PassReason = "unreadable_body"   // no target, and the body could hide a pit; or the documents read by id cannot be determined
	PassUnreadableHeader PassReason = "unreadable_header" // of an item of a multi-search
	PassUnverifiable     PassReason = "unverifiable"      // an answer that may not show that the cluster forbids preferences
	PassAmbiguousQuery   PassReason = "ambiguous_query"   // a parameter that sidestep needs occurs twice or does not decode
	PassTypedPath        PassReason = "typed_path"        // 7.x /{index}/{type}/_search
	PassIndicesOptions   PassReason = "indices_options"   // wildcards match other indices than by default
)
