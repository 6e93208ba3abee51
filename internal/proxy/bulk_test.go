package proxy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQueuesDoNotCountWhereAllShardsHaveThem(t *testing.T) {
	of := func(sick ...bool) func(shard int) bool { return func(shard int) bool { return sick[shard] } }
	slow := of(true, false, false)
	some := unlessAll(3, of(true, true, false), slow)
	require.True(t, some(1), "another shard has no queue")
	all := unlessAll(3, of(true, true, true), slow)
	require.True(t, all(0), "it is slow")
	require.False(t, all(1))
}
