package simcluster

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func fiveNodes(t *testing.T, specs ...IndexSpec) *state {
	t.Helper()
	s := newState([]string{"a", "b", "c", "d", "e"}, false)
	for _, spec := range specs {
		var err error
		s, err = s.withIndex(spec)
		require.NoError(t, err)
	}
	return s
}

func TestResolveTargets(t *testing.T) {
	s := fiveNodes(t, IndexSpec{Name: "logs-1", Aliases: []string{"all-logs"}}, IndexSpec{Name: "logs-2", Aliases: []string{"all-logs"}},
		IndexSpec{Name: "logs-2026.03.04"}, IndexSpec{Name: "users"})
	day := time.Date(2026, 3, 4, 23, 0, 0, 0, time.UTC)
	for target, want := range map[string][]string{
		"":               {"logs-1", "logs-2", "logs-2026.03.04", "users"},
		"_all":           {"logs-1", "logs-2", "logs-2026.03.04", "users"},
		"users":          {"users"},
		"all-logs":       {"logs-1", "logs-2"},
		"users,all-logs": {"logs-1", "logs-2", "users"},
		"logs-*,-logs-2": {"logs-1", "logs-2026.03.04"},
		"logs-*,-*2":     {"logs-1", "logs-2026.03.04"},
		"<logs-{now/d}>": {"logs-2026.03.04"},
		"nothing-*":      nil,
	} {
		t.Run(target, func(t *testing.T) {
			names, missing := s.resolve(target, day)
			require.Empty(t, missing)
			require.Equal(t, want, names)
		})
	}
	_, missing := s.resolve("users,nope", day)
	require.Equal(t, "nope", missing)
}

func TestRoutingLeadsToTheSameShard(t *testing.T) {
	s := fiveNodes(t, IndexSpec{Name: "x", Shards: 5})
	one := s.shardsOf([]string{"x"}, "ann")
	require.Len(t, one, 1)
	require.Equal(t, one, s.shardsOf([]string{"x"}, "ann"))
	require.Len(t, s.shardsOf([]string{"x"}, ""), 5)
	require.LessOrEqual(t, len(s.shardsOf([]string{"x"}, "ann,ben")), 2)
}

func TestNodeLossPromotesAndReturnRecovers(t *testing.T) {
	s := fiveNodes(t, IndexSpec{Name: "x", Shards: 5, Replicas: 1})
	lost := s.withoutNode("b")
	require.Greater(t, lost.Version, s.Version)
	unassignedCopies := 0
	for _, copies := range lost.index("x").Shards {
		require.Equal(t, byte('p'), copies[0].Kind)
		require.Equal(t, started, copies[0].State)
		if copies[1].State == unassigned {
			unassignedCopies++
		}
	}
	require.Equal(t, 2, unassignedCopies)
	require.Equal(t, "b", s.index("x").Shards[1][0].Node, "the old state is as it was")

	back, recovering := lost.withNode("b")
	require.Len(t, recovering, 2)
	for _, alloc := range recovering {
		back = back.withRecovered(alloc)
		require.NotNil(t, back)
	}
	for _, copies := range back.index("x").Shards {
		require.True(t, copies[0].active() && copies[1].active())
	}
	require.Nil(t, back.withRecovered(recovering[0]), "recovers once")
}

func TestRelocation(t *testing.T) {
	s := fiveNodes(t, IndexSpec{Name: "x", Replicas: 1}) // on a and b
	moving, err := s.withRelocation(shardRef{"x", 0}, "a", "c")
	require.NoError(t, err)
	cp := moving.index("x").Shards[0][0]
	require.Equal(t, relocating, cp.State)
	require.Equal(t, "a", cp.Node)
	require.Equal(t, "c", cp.Target)

	moved := moving.withRecovered(allocation{shardRef{"x", 0}, cp.Alloc})
	require.Equal(t, "c", moved.index("x").Shards[0][0].Node)
	require.Equal(t, started, moving.withoutNode("c").index("x").Shards[0][0].State, "the target is lost, the source stays")

	for _, bad := range [][2]string{{"a", "b"}, {"c", "d"}, {"a", "nowhere"}} {
		_, err := s.withRelocation(shardRef{"x", 0}, bad[0], bad[1])
		require.Error(t, err)
	}
}

// However nodes come and go: a node holds at most one copy of a shard, and a shard
// with an active copy that is not search-only has an active primary.
func TestPlacementInvariants(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := fiveNodes(t, IndexSpec{Name: "x", Shards: 7, Replicas: 2}, IndexSpec{Name: "y", Shards: 3, Replicas: 1, SearchReplicas: 1})
	all := []string{"a", "b", "c", "d", "e"}
	for range 2000 {
		id := all[rng.IntN(5)]
		if rng.IntN(2) == 0 {
			s = s.withoutNode(id)
		} else {
			var recovering []allocation
			s, recovering = s.withNode(id)
			for _, alloc := range recovering {
				if next := s.withRecovered(alloc); next != nil && rng.IntN(3) > 0 {
					s = next
				}
			}
		}
		for _, name := range s.names() {
			for _, copies := range s.index(name).Shards {
				requireSound(t, copies)
			}
		}
	}
}

func requireSound(t *testing.T, copies []shardCopy) {
	t.Helper()
	held := map[string]bool{}
	servable, primaries, primaryServes := false, 0, false
	for _, c := range copies {
		if c.Node != "" {
			require.False(t, held[c.Node], "two copies on %s", c.Node)
			held[c.Node] = true
		}
		servable = servable || c.Kind != 's' && c.active()
		if c.Kind == 'p' {
			primaries++
			primaryServes = c.active()
		}
	}
	require.Equal(t, 1, primaries)
	require.Equal(t, servable, primaryServes)
}
