// Package bulk decides how the documents of a `_bulk` request are kept together on
// one shard.
//
// An engine cuts a bulk into one request for each shard that its documents belong
// to, and answers when the slowest of them has. A document without an id gets a
// random one, so the documents of a bulk belong to all shards of their index. With
// the same `routing` they all belong to one shard: the bulk waits for the copies of
// that shard alone, which can be chosen so that they are healthy.
//
// The steps, each of which is usable alone:
//
//   - [ParseIndices] reads from the engine's metadata which indices allow this, and
//     which routing value leads to which of their shards.
//   - [Balance] chooses a shard for a bulk: one whose copies are healthy, as long as
//     the shards of the index stay even.
//   - [Logical] spreads documents that have a routing of the client's: a bulk of them goes
//     to a few shards, and who searches by routing finds them all.
//   - [Rewriter] writes the routing value into the operations of a bulk while its
//     body streams through, and counts what it did. Operations that it may change
//     are only those without an id of the client's: see [Reasons] for the others.
//
// A document carries its routing for ever: whoever reads it by its id must give the
// routing, too. So this is for indices of which an operator said that nobody does.
//
// The package is pure: it has no clock and no goroutine, and does no I/O but reading
// the body it is given.
package bulk

// Reason is why an operation of a bulk stays as it is. The set is closed: it is used
// as a metric label.
type Reason string

// What an operation says of itself.
const (
	ReasonExplicitID  Reason = "explicit_id"  // it has an `_id`, which is where readers look for it
	ReasonOwnRouting  Reason = "own_routing"  // the client gave a routing
	ReasonUpdate      Reason = "update"       // the document is where it is
	ReasonDelete      Reason = "delete"       // the document is where it is
	ReasonPipeline    Reason = "pipeline"     // a pipeline may set id, routing or index: the operation's, or one of the index
	ReasonOtherField  Reason = "other_field"  // it has a field with a meaning of its own, or a doubtful one
	ReasonNoIndex     Reason = "no_index"     // it names no index, nor does the request line
	ReasonMalformed   Reason = "malformed"    // an action line the engines refuse or may read differently; all that follows it stays, too
	ReasonManyIndices Reason = "many_indices" // the bulk names more indices than are looked at
)

// What is said of the bulk as a whole.
const (
	ReasonCompressed   Reason = "compressed"    // its body, or it is not lines of JSON
	ReasonURLParameter Reason = "url_parameter" // something on the request line holds for each operation
	ReasonObserve      Reason = "observe"       // it would be given a routing in mode route
)

// What is said of its index.
const (
	ReasonNotSelected     Reason = "not_selected"      // nobody asked for it
	ReasonUnknown         Reason = "unknown"           // nothing is known of the index, or not yet
	ReasonAlias           Reason = "alias"             // the name is an alias, whose index may change at any moment
	ReasonClosed          Reason = "closed"            // it takes no documents
	ReasonOneShard        Reason = "one_shard"         // its documents are together already
	ReasonPartitioned     Reason = "partitioned"       // routing_partition_size: one routing value means several shards
	ReasonRoutedByFields  Reason = "routed_by_fields"  // fields of the document decide; a routing is refused
	ReasonRoutingRequired Reason = "routing_required"  // the engine refuses operations without a routing, and should
	ReasonJoinField       Reason = "join_field"        // children are routed by the ids of their parents
	ReasonNoCustomRouting Reason = "no_custom_routing" // a data stream that refuses a routing
	ReasonUnreadable      Reason = "unreadable"        // its metadata does not say how its documents are spread
)

// What is said of its index where an operation has a routing.
const (
	ReasonUndivided   Reason = "undivided"    // the number of shards is no multiple of the size, or not more
	ReasonRoutedAlias Reason = "routed_alias" // an alias of it has a routing, which searches fewer shards
	ReasonResized     Reason = "resized"      // it was split, shrunk or cloned from another index
	ReasonDataStream  Reason = "data_stream"  // its older indices may be divided otherwise
)

// Reasons returns the closed set.
func Reasons() []Reason {
	return []Reason{
		ReasonExplicitID, ReasonOwnRouting, ReasonUpdate, ReasonDelete, ReasonPipeline, ReasonOtherField,
		ReasonNoIndex, ReasonMalformed, ReasonManyIndices, ReasonCompressed, ReasonURLParameter, ReasonObserve,
		ReasonNotSelected, ReasonUnknown, ReasonAlias, ReasonClosed, ReasonOneShard, ReasonPartitioned, ReasonRoutedByFields,
		ReasonRoutingRequired, ReasonJoinField, ReasonNoCustomRouting, ReasonUnreadable,
		ReasonUndivided, ReasonRoutedAlias, ReasonResized, ReasonDataStream,
	}
}
