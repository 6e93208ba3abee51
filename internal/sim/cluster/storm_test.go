package simcluster

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// copiesIn counts the copies of a state by their own state.
func copiesIn(s *state) map[copyState]int {
	count := map[copyState]int{}
	s.eachCopy(func(c shardCopy) { count[c.State]++ })
	return count
}

func TestStorm(t *testing.T) {
	t.Parallel()
	const shards = 200 * 3
	c := quick(t, func(o *Options) {
		o.Nodes, o.RecoveryTime = 20, 50*time.Millisecond
		o.Indices = Many(200, IndexSpec{Name: "i", Shards: 3, Replicas: 1}, 7)
	})
	before := c.state.Load()
	require.Equal(t, 2*shards, copiesIn(before)[started])
	require.Len(t, before.Aliases["i-group-6"], 28)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	changes := c.Storm(ctx, Storm{Relocations: 500, Churn: 100})
	require.Greater(t, changes, int64(100))
	require.Equal(t, 2*shards, copiesIn(before)[started], "the old state is as it was")
	require.Eventually(t, func() bool { return copiesIn(c.state.Load())[relocating] == 0 }, soon, 10*time.Millisecond)
	after := c.state.Load()
	moved := 0
	for _, name := range before.names() {
		for number, copies := range after.index(name).Shards {
			require.Len(t, copies, 2)
			require.NotEqual(t, copies[0].Node, copies[1].Node, "%s %d", name, number)
			for i, cp := range copies {
				if cp.Node != before.index(name).Shards[number][i].Node {
					moved++
				}
			}
		}
	}
	require.Greater(t, moved, 10)
	require.LessOrEqual(t, after.Indices.Len(), 200+churnKept+1)
	require.Greater(t, after.Indices.Len(), 200)
}

func TestStormEndsWithTheCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opts, err := Options{Nodes: 3}.withDefaults()
		require.NoError(t, err)
		c := &Cluster{opts: opts}
		c.state.Store(newState([]string{"a"}, false))
		c.ctx, c.cancel = context.WithCancel(t.Context())
		c.cancel()
		require.Zero(t, c.Storm(t.Context(), Storm{}))
	})
}

// BenchmarkChange relocates one copy in clusters of all sizes: the cost is to stay.
func BenchmarkChange(b *testing.B) {
	for _, indices := range []int{100, 10_000} {
		s := newState([]string{"a", "b", "c"}, false)
		for _, spec := range Many(indices, IndexSpec{Name: "i", Shards: 5, Replicas: 1}, 0) {
			var err error
			s, err = s.withIndex(spec)
			require.NoError(b, err)
		}
		copies := s.index("i-7").Shards[0]
		free := slices.IndexFunc(s.Nodes, func(id string) bool { return id != copies[0].Node && id != copies[1].Node })
		b.Run("shards="+strconv.Itoa(5*indices), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.withRelocation(shardRef{"i-7", 0}, copies[0].Node, s.Nodes[free]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
