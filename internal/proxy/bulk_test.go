package proxy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABusyClusterDoesNotHideSlowShards(t *testing.T) {
	of := func(sick ...bool) func(shard int) bool { return func(shard int) bool { return sick[shard] } }
	slow := of(true, false, false)
	some := firstWell(3, of(true, true, false), slow)
	require.True(t, some(1), "another shard is on nodes that are well")
	none := of(true, true, true)
	all := firstWell(3, none, slow)
	require.True(t, all(0), "its bulks take long")
	require.False(t, all(1))
	require.True(t, firstWell(3, none)(2), "nothing else is known")
}
