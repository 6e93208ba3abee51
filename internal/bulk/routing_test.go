package bulk

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/es"
)

func TestValues(t *testing.T) {
	for _, tc := range []struct{ shards, routingShards int }{
		{1, 1024}, {1, 1}, {2, 1024}, {3, 768}, {5, 640}, {5, 5}, {6, 768}, {7, 896}, {30, 960}, {1024, 1024}, {1024, math.MaxInt32 / 1024 * 1024},
	} {
		values := Values(tc.shards, tc.routingShards)
		require.Len(t, values, tc.shards)
		routing := es.Routing{Shards: tc.shards, RoutingShards: tc.routingShards, PartitionSize: 1}
		for shard, value := range values {
			require.Equal(t, shard, routing.Shard("any id", value))
			number, err := strconv.Atoi(value)
			require.NoError(t, err)
			for smaller := range number {
				require.NotEqual(t, shard, routing.Shard("", strconv.Itoa(smaller)), "the first is taken")
			}
		}
	}
}

func TestValuesOfNoIndex(t *testing.T) {
	for _, tc := range [][2]int{{0, 0}, {-1, -1}, {2, 0}, {2, 3}, {3, 1}, {1025, 1025}, {math.MaxInt, math.MaxInt}, {1024, 1 << 50}} {
		require.Nil(t, Values(tc[0], tc[1]), tc)
	}
}
