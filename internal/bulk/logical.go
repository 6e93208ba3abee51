package bulk

import (
	"cmp"
	"slices"
	"strings"

	"sidestep/internal/es"
)

// Logical spreads the documents of each routing value over several shards of an index, so
// that a bulk of documents with many routing values touches few.
//
// The P shards of the index fall into P/r slots of r shards that stand together, where r
// is the size: slot s has the shards r·s to r·s+r−1. Each routing value has a logical
// number
//
//	logical(x) = shard(x) mod r
//
// where shard(x) is the engine's own. A document with routing x that is written to slot s
// goes to the shard logical(x) + r·s. One of these P/r shards is shard(x) itself, as r
// divides P: documents that were written without regard to slots are in one of them, too.
//
// With a size of 1 each shard is a slot. Documents without a routing go to one of these.
type Logical struct {
	size, routingShards int
	values              []string
}

// Slot is one of the slots of an index.
type Slot struct {
	Logical
	Number int
}

// Logical returns how documents of the index are spread with this size, or why they cannot
// be.
func (x Index) Logical(size int) (Logical, Reason) {
	switch {
	case x.Values == nil:
		return Logical{}, cmp.Or(x.RefusedRouted, ReasonUnreadable)
	case size < 1 || size >= x.Shards || x.Shards%size != 0:
		return Logical{}, ReasonUndivided
	}
	return Logical{size: size, routingShards: x.RoutingShards, values: x.Values}, ""
}

// Slots returns how many slots there are.
func (l Logical) Slots() int { return len(l.values) / l.size }

// Size returns how many shards there are in each.
func (l Logical) Size() int { return l.size }

// shard returns where the engine itself puts documents with this routing.
func (l Logical) shard(routing string) int {
	return es.Routing{Shards: len(l.values), RoutingShards: l.routingShards, PartitionSize: 1}.Shard("", routing)
}

// number returns the logical number of a routing value.
func (l Logical) number(routing string) int { return l.shard(routing) % l.size }

// Value returns the routing value that leads to the shard of a slot where documents with
// this routing belong.
func (l Logical) Value(slot int, routing string) string {
	return l.values[l.number(routing)+l.size*slot]
}

// Widen adds to values those that lead to the other shards where documents with a routing
// may be: the routing itself leads to one. It may be several, separated by commas. No value
// is added twice.
func (l Logical) Widen(values []string, routing string) []string {
	for one := range strings.SplitSeq(routing, ",") {
		own := l.shard(one)
		for slot := range l.Slots() {
			shard := own%l.size + l.size*slot
			if shard != own && !slices.Contains(values, l.values[shard]) {
				values = append(values, l.values[shard])
			}
		}
	}
	return values
}
