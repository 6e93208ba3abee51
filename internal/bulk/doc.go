// Package bulk decides how the documents of a `_bulk` request are kept together on one
// shard.
//
// An engine splits a bulk into one request for each shard of its documents, and answers
// when the slowest of them has answered. A document without an id gets a random one, so
// the documents of a bulk belong to all shards of their index. With the same `routing`
// they all belong to one shard. Then the bulk waits only for the copies of that shard,
// which can be chosen so that they are healthy.
//
// The steps, each of which can be used alone:
//
//   - [ParseIndices] reads from the engine's metadata which indices allow this, and which
//     routing value leads to which shard.
//   - [Balance] chooses a shard for a bulk: one whose copies are healthy, as long as the
//     shards of the index stay even.
//   - [Logical] spreads documents that have a routing of the client's: a bulk of them goes
//     to few shards, and a search by routing finds all of them.
//   - [Rewriter] writes the routing value into the operations of a bulk while its body
//     streams through it, and counts what it did. It changes only operations without an id of
//     the client's: see [Reasons] for the others.
//
// A document has its routing for ever, and a read by its id must give it, too. So this is
// for indices of which an operator said that no client reads by id.
//
// The package is pure: it has no clock and no goroutine, and does no I/O except reading
// the body that it is given.
package bulk

// Reason is why an operation of a bulk stays unchanged. The set is closed: it is a metric
// label.
type Reason string

// Reasons of the operation itself.
const (
	ReasonExplicitID  Reason = "explicit_id"  // it has an `_id`, by which readers look for it
	ReasonOwnRouting  Reason = "own_routing"  // the client gave a routing
	ReasonUpdate      Reason = "update"       // the document is in its shard already
	ReasonDelete      Reason = "delete"       // the document is in its shard already
	ReasonPipeline    Reason = "pipeline"     // a pipeline may set id, routing or index: the operation's, or one of the index
	ReasonOtherField  Reason = "other_field"  // it has a field with a meaning of its own, or one that engines read differently
	ReasonNoIndex     Reason = "no_index"     // it names no index, nor does the request line
	ReasonMalformed   Reason = "malformed"    // an action line that the engines refuse or may read differently; all that follows it stays, too
	ReasonManyIndices Reason = "many_indices" // the bulk names too many indices
	ReasonTooLong     Reason = "too_long"     // with it the body could be longer than the engine takes
)

// Reasons of the bulk as a whole.
const (
	ReasonCompressed   Reason = "compressed"    // its body is compressed, or not lines of JSON
	ReasonURLParameter Reason = "url_parameter" // a parameter in the URL applies to each operation
	ReasonObserve      Reason = "observe"       // it would be given a routing in mode route
)

// Reasons of its index.
const (
	ReasonNotSelected     Reason = "not_selected"      // the configuration does not name it
	ReasonUnknown         Reason = "unknown"           // nothing is known of the index, or not yet
	ReasonAlias           Reason = "alias"             // the name is an alias, whose index may change at any moment
	ReasonClosed          Reason = "closed"            // it takes no documents
	ReasonOneShard        Reason = "one_shard"         // there is nothing to choose
	ReasonPartitioned     Reason = "partitioned"       // routing_partition_size: one routing value means several shards
	ReasonRoutedByFields  Reason = "routed_by_fields"  // fields of the document determine the shard; a routing is refused
	ReasonRoutingRequired Reason = "routing_required"  // the engine refuses operations without a routing, and its error must reach the client
	ReasonJoinField       Reason = "join_field"        // children are routed by the ids of their parents
	ReasonNoCustomRouting Reason = "no_custom_routing" // a data stream: it refuses a routing, or demands one of every document
	ReasonUnreadable      Reason = "unreadable"        // its metadata does not say how its documents are spread, or they are over virtual shards
)

// Reasons of its index for operations with a routing.
const (
	ReasonUndivided   Reason = "undivided"    // the number of shards is not a multiple of the size, or is equal to it
	ReasonRoutedAlias Reason = "routed_alias" // an alias of it has a routing, which searches fewer shards
	ReasonResized     Reason = "resized"      // it was split, shrunk or cloned from another index
)

// Reasons returns all of them.
func Reasons() []Reason {
	return []Reason{
		ReasonExplicitID, ReasonOwnRouting, ReasonUpdate, ReasonDelete, ReasonPipeline, ReasonOtherField,
		ReasonNoIndex, ReasonMalformed, ReasonManyIndices, ReasonTooLong, ReasonCompressed, ReasonURLParameter, ReasonObserve,
		ReasonNotSelected, ReasonUnknown, ReasonAlias, ReasonClosed, ReasonOneShard, ReasonPartitioned, ReasonRoutedByFields,
		ReasonRoutingRequired, ReasonJoinField, ReasonNoCustomRouting, ReasonUnreadable,
		ReasonUndivided, ReasonRoutedAlias, ReasonResized,
	}
}
