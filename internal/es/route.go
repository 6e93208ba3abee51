package es

import (
	"unicode/utf16"

	"github.com/twmb/murmur3"
)

// Routing is what an index says of how its documents are spread over its shards.
// It is comparable; the zero value spreads nothing.
type Routing struct {
	// Shards is number_of_shards.
	Shards int
	// RoutingShards is routing_num_shards: into how many parts the hashes are
	// divided, of which each shard has the same number. An index keeps it when it is
	// split or shrunk.
	RoutingShards int
	// PartitionSize is routing_partition_size: over how many parts one routing value
	// is spread. 1 where one value means one shard.
	PartitionSize int
}

// Valid reports whether an engine could have made such an index.
func (r Routing) Valid() bool {
	return r.Shards > 0 && r.RoutingShards >= r.Shards && r.RoutingShards%r.Shards == 0 && r.PartitionSize > 0
}

// Shard returns the number of the shard that holds the document with this id and
// routing, empty if it was indexed without one. r must be Valid.
//
//	shard = ((murmur3(routing or id) + murmur3(id) mod partition size) mod routing shards) / (routing shards / shards)
//
// Hashes are signed and their sum wraps as a 32-bit integer does.
func (r Routing) Shard(id, routing string) int {
	if routing == "" {
		routing = id
	}
	hash := hashRouting(routing)
	if r.PartitionSize > 1 {
		hash += int32(floorMod(hashRouting(id), r.PartitionSize)) //nolint:gosec // less than the partition size
	}
	return floorMod(hash, r.RoutingShards) / (r.RoutingShards / r.Shards)
}

// hashRouting is the engines' hash of a routing value: murmur3 (x86, 32 bits, seed
// 0) of its UTF-16 code units, low byte first.
func hashRouting(s string) int32 {
	var buf [128]byte
	units := buf[:0]
	for _, r := range s {
		if r <= 0xFFFF {
			units = append(units, byte(r), byte(r>>8))
			continue
		}
		high, low := utf16.EncodeRune(r)
		units = append(units, byte(high), byte(high>>8), byte(low), byte(low>>8))
	}
	return int32(murmur3.Sum32(units)) //nolint:gosec // the engines take the bits for a signed number
}

// floorMod is the remainder that has the sign of the divisor.
func floorMod(a int32, m int) int {
	r := int(a) % m
	if r < 0 {
		r += m
	}
	return r
}
