package bulk

import (
	"strconv"

	"sidestep/internal/es"
)

// maxShards is how many shards engines allow an index by default.
const maxShards = 1024

// Values returns a routing value for each shard of an index: the first of "0", "1",
// "2" and so on that leads there. Every process finds the same, so the documents of
// an index carry few values. It returns nil where number_of_shards and
// routing_num_shards are not those of an index, or of one with more than 1,024
// shards.
func Values(shards, routingShards int) []string {
	routing := es.Routing{Shards: shards, RoutingShards: routingShards, PartitionSize: 1}
	if !routing.Valid() || shards > maxShards {
		return nil
	}
	values := make([]string, shards)
	found := 0
	// That one shard is still without a value then has a chance of e⁻³⁰.
	for i := range 40 * shards {
		value := strconv.Itoa(i)
		shard := routing.Shard("", value)
		if values[shard] != "" {
			continue
		}
		values[shard] = value
		if found++; found == shards {
			return values
		}
	}
	return nil
}
