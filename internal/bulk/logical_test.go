package bulk

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/es"
)

// generatedIndex is an index as engines make them, with a size that fits.
func generatedIndex(rng *rand.Rand) (Index, int) {
	size := 1 + rng.IntN(8)
	shards := size * (2 + rng.IntN(8))
	routingShards := shards // as where number_of_routing_shards says so, and before 7.0
	if rng.IntN(4) > 0 {    // the engines' own: doubled up to 1,024, at least once
		for routingShards *= 2; routingShards*2 <= 1024; {
			routingShards *= 2
		}
	}
	return Index{WriteIndex: "i", Shards: shards, RoutingShards: routingShards, Values: Values(shards, routingShards)}, size
}

// Whoever searches by a routing finds all documents that have it: those that were written
// to any slot, and those that the engine itself put where it does. It visits as many
// different shards as there are slots.
func TestSearchesByRoutingFindEverything(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2026))
	for range 3000 {
		index, size := generatedIndex(rng)
		l, why := index.Logical(size)
		require.Empty(t, why, "%d shards, size %d", index.Shards, size)
		engine := es.Routing{Shards: index.Shards, RoutingShards: index.RoutingShards, PartitionSize: 1}
		routing := fmt.Sprintf("%c%x", 'a'+rune(rng.IntN(2000)), rng.Uint64())

		visited := make(map[int]bool)
		for _, value := range l.Widen([]string{routing}, routing) {
			visited[engine.Shard("", value)] = true
		}
		require.Len(t, visited, l.Slots())
		require.Equal(t, index.Shards/size, l.Slots())
		require.True(t, visited[engine.Shard("any id", routing)], "written without regard to slots")
		slots := make(map[int]bool)
		for slot := range l.Slots() {
			shard := engine.Shard("any id", l.Value(slot, routing))
			require.True(t, visited[shard], "written to slot %d", slot)
			require.Equal(t, slot, shard/size)
			slots[shard] = true
		}
		require.Equal(t, visited, slots, "no shard is visited in vain")
	}
}

func TestSeveralRoutings(t *testing.T) {
	index := Index{Shards: 6, RoutingShards: 768, Values: Values(6, 768)}
	l, _ := index.Logical(2)
	engine := es.Routing{Shards: 6, RoutingShards: 768, PartitionSize: 1}
	want := make(map[int]bool)
	for _, routing := range []string{"a", "b", "c"} {
		for slot := range 3 {
			want[engine.Shard("", l.Value(slot, routing))] = true
		}
	}
	got := make(map[int]bool)
	more := l.Widen(nil, "a,b,c")
	for _, value := range append([]string{"a", "b", "c"}, more...) {
		got[engine.Shard("", value)] = true
	}
	require.Equal(t, want, got)
	require.Equal(t, more, l.Widen(more, "a,b,c"), "no value is added twice")
}

func TestIndicesWithoutSlots(t *testing.T) {
	index := Index{Shards: 6, RoutingShards: 768, Values: Values(6, 768)}
	for _, size := range []int{-1, 0, 4, 5, 6, 12} {
		_, why := index.Logical(size)
		require.Equal(t, ReasonUndivided, why, size)
	}
	index.Values, index.RefusedRouted = nil, ReasonPartitioned
	_, why := index.Logical(2)
	require.Equal(t, ReasonPartitioned, why)
}

// Every operation with a routing and without an id goes to the slot, and to the shard of it
// that its routing names; every other byte stays.
func TestSlotsOfABulk(t *testing.T) {
	index := Index{Shards: 6, RoutingShards: 768, Values: Values(6, 768)}
	l, _ := index.Logical(2)
	body := "{\"index\":{\"routing\":%s}}\n{\"a\":1}\n{\"create\":{\"_index\":\"i\", \"routing\" : %s }}\n{}\n{\"index\":{}}\n{}\n" +
		"{\"index\":{\"_id\":\"1\",\"routing\":\"x\"}}\n{}\n{\"index\":{\"routing\":\"\"}}\n{}\n{\"index\":{\"_index\":\"o\",\"routing\":\"x\"}}\n{}\n{\"delete\":{\"_id\":\"1\",\"routing\":\"x\"}}\n"
	rewriter := func(create bool, id func() string) *Rewriter {
		return NewRewriter(strings.NewReader(fmt.Sprintf(body, `"x"`, `17`)), Options{
			DefaultIndex: "i", ID: id, Create: create,
			Place: func(p Part) (Slot, Reason) {
				switch {
				case !p.Routed:
					return Slot{}, ReasonNotSelected
				case p.Index != "i":
					return Slot{}, ReasonOwnRouting
				}
				return Slot{Logical: l, Number: 2}, ""
			},
		})
	}
	want := fmt.Sprintf(body, `"`+l.Value(2, "x")+`"`, `"`+l.Value(2, "17")+`"`)
	r := rewriter(false, nil)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
	tally := r.Tally()
	require.Equal(t, 7, tally.Operations)
	require.Equal(t, 2, tally.Planned)
	require.Equal(t, map[Reason]int{ReasonNotSelected: 1, ReasonExplicitID: 1, ReasonOwnRouting: 2, ReasonDelete: 1}, tally.Passed)
	require.Len(t, tally.Placed, 1)
	require.True(t, tally.Placed[0].Routed)
	require.Equal(t, 2, tally.Placed[0].Operations)
	require.Positive(t, tally.Placed[0].Shards)

	got, err = io.ReadAll(rewriter(true, func() string { return "minted" }))
	require.NoError(t, err)
	want = strings.Replace(want, `{"index":{"routing"`, `{"create":{"_id":"minted","routing"`, 1)
	want = strings.Replace(want, `{"create":{"_index":"i"`, `{"create":{"_id":"minted","_index":"i"`, 1)
	require.Equal(t, want, string(got))
}

func TestBooksOfSlots(t *testing.T) {
	var books Books
	now := time.Now()
	index := Index{WriteIndex: "i", Shards: 6}
	require.Empty(t, books.Sizes())
	book := books.Of(index, 2, 1.5, now)
	require.Same(t, book, books.Of(index, 2, 1.5, now))
	require.Same(t, book, books.Look(index, 2, 1.5))
	require.NotSame(t, book, books.Of(index, 1, 1.5, now))
	require.Empty(t, books.Sizes())
	books.KeepSize("i", 2)
	require.Equal(t, map[string]int{"i": 2}, books.Sizes())
	require.Equal(t, 2, book.Size())
	book.Counted([]int64{1, 1, 1, 1, 1, 1}, now.Add(time.Millisecond))
	book.Counted([]int64{11, 2, 3, 4, 5, 6}, now.Add(time.Second))
	standings, _ := book.Preview(nil)
	require.Len(t, standings, 3)
	require.EqualValues(t, 11, standings[0].Documents)
	require.EqualValues(t, 5, standings[1].Documents)
	require.EqualValues(t, 9, standings[2].Documents)
}

// Each shard is a slot of one, which documents without a routing go to as well.
func TestSlotsOfOneShard(t *testing.T) {
	index := Index{Shards: 6, RoutingShards: 768, Values: Values(6, 768)}
	l, why := index.Logical(1)
	require.Empty(t, why)
	require.Equal(t, 6, l.Slots())
	for shard, value := range index.Values {
		require.Equal(t, value, l.Value(shard, ""))
		require.Equal(t, value, l.Value(shard, "x"))
	}
}
