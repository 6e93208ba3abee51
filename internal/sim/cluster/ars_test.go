package simcluster

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

func copiesOn(nodes ...string) []shardCopy {
	copies := make([]shardCopy, len(nodes))
	for i, n := range nodes {
		copies[i] = shardCopy{Node: n, Kind: 'r', State: started}
	}
	return copies
}

func nodesOf(copies []shardCopy) []string {
	nodes := make([]string, len(copies))
	for i, c := range copies {
		nodes[i] = c.Node
	}
	return nodes
}

func TestRankFormulas(t *testing.T) {
	o := observed{queue: 2, response: 10e6, service: 4e6}
	for name, tc := range map[string]struct {
		inverted bool
		want     float64
	}{
		// one node with statistics, outstanding 1: q̂ = 1 + 1·1 + 2 = 4
		"elasticsearch": {false, 10 - 4 + 64*4},
		"opensearch":    {true, 10 - 0.25 + 64*0.25},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(tc.inverted)
			c.seen["a"] = o
			require.InDelta(t, tc.want, c.value(o, 1), 1e-9)
		})
	}
}

func TestOpenSearchPrefersTheSlowerServiceUnderLoad(t *testing.T) {
	order := func(inverted bool) []string {
		c := newCollector(inverted)
		c.record("quick", 0, 5*ms, 2*ms)
		c.record("slow", 0, 5*ms, 20*ms)
		return nodesOf(c.rank(copiesOn("quick", "slow"), map[string]int64{}))
	}
	require.Equal(t, []string{"quick", "slow"}, order(false))
	require.Equal(t, []string{"slow", "quick"}, order(true), "the service time is the wrong way round")
}

func TestRankPutsUnknownNodesFirst(t *testing.T) {
	c := newCollector(false)
	c.record("a", 0, ms, ms)
	pending := map[string]int64{}
	require.Equal(t, []string{"b", "c", "a"}, nodesOf(c.rank(copiesOn("a", "b", "c"), pending)))
	require.Empty(t, pending, "an unknown winner is not counted")
	require.Len(t, c.seen, 1)
}

func TestRankMovesLosersTowardTheWinner(t *testing.T) {
	c := newCollector(false)
	c.record("good", 0, 2*ms, 2*ms)
	c.record("bad", 0, 300*ms, 2*ms)
	pending := map[string]int64{}
	require.Equal(t, []string{"good", "bad"}, nodesOf(c.rank(copiesOn("bad", "good"), pending)))
	require.Equal(t, map[string]int64{"good": 1}, pending)
	// 0.3 · (2+300)/2 + 0.7 · 300
	require.InDelta(t, 255.3e6, c.seen["bad"].response, 1e3)
	require.InDelta(t, 2e6, c.seen["good"].response, 1e-3, "the winner stays")

	busy := func() map[string]int64 { return map[string]int64{"good": 2} }
	searches := 1
	for ; nodesOf(c.rank(copiesOn("bad", "good"), busy()))[0] == "good"; searches++ {
		require.Less(t, searches, 50, "in the end the loser gets a chance")
	}
	require.Greater(t, searches, 1)
}

func TestOutstandingCountsEndWhereTheyBegan(t *testing.T) {
	c := newCollector(false)
	for range 3 {
		c.begin("a")
	}
	require.Equal(t, map[string]int64{"a": 3}, c.pending())
	for range 3 {
		c.end("a")
	}
	require.Empty(t, c.pending())
	c.record("a", 0, ms, ms)
	c.forget("a")
	require.Empty(t, slices.Collect(maps.Keys(c.stats())))
}
