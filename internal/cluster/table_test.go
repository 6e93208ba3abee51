package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// randomIndex is an index with copies in all kinds of states on some of the nodes.
func randomIndex(rng *rand.Rand, name string, nodes int) Index {
	states := []CopyState{Started, Started, Started, Relocating, Initializing, Unassigned, "CLOSING"}
	index := Index{Name: name}
	for number := range 1 + rng.IntN(4) {
		shard := Shard{Number: number}
		for i, at := range rng.Perm(nodes)[:1+rng.IntN(min(3, nodes))] {
			c := Copy{Node: "n" + strconv.Itoa(at), Kind: "pr"[min(i, 1)], State: states[rng.IntN(len(states))]}
			if c.State == Unassigned {
				c.Node = ""
			}
			shard.Copies = append(shard.Copies, c)
		}
		index.Shards = append(index.Shards, shard)
	}
	return index
}

// requireSame compares a table that was changed step by step with one made anew.
func requireSame(t *testing.T, want, got *table) {
	t.Helper()
	require.Equal(t, want.shards, got.shards)
	counted := func(t *table) map[CopyState]int {
		copies := maps.Clone(t.copies)
		maps.DeleteFunc(copies, func(_ CopyState, count int) bool { return count == 0 })
		return copies
	}
	require.Equal(t, counted(want), counted(got))
	require.Equal(t, want.indices.Len(), got.indices.Len())
	want.each(func(p *placedIndex) bool {
		require.Equal(t, p.index, got.get(p.index.Name).index)
		return true
	})
}

// Whatever changes, in parts or as a whole: the table is the one that a reading of
// everything would have made, and the tables before are as they were.
func TestTableChangedIsTableMadeAnew(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	now := map[string]Index{}
	k := &known{Snapshot: Snapshot{table: newTable(nil, 1)}}
	for version := int64(2); version < 400; version++ {
		var asked []string
		for range rng.IntN(6) {
			name := "i" + strconv.Itoa(rng.IntN(40))
			asked = append(asked, name)
			if rng.IntN(4) == 0 {
				delete(now, name)
			} else {
				now[name] = randomIndex(rng, name, 5)
			}
		}
		before, copyBefore := k.table, newTable(indicesOf(k.table), 0)
		state := &Placement{Version: version}
		whole := rng.IntN(3) == 0
		for _, name := range slices.Sorted(maps.Keys(now)) {
			if whole || slices.Contains(asked, name) {
				state.Indices = append(state.Indices, now[name])
			}
		}
		next := k.merge(state)
		for _, name := range asked {
			if !contains(state.Indices, name) {
				next = k.drop(next, name, version)
			}
		}
		k.table = next
		anew := newTable(slices.Collect(maps.Values(now)), version)
		requireSame(t, anew, k.table)
		requireSame(t, copyBefore, before)
	}
}

func indicesOf(t *table) (all []Index) {
	t.each(func(p *placedIndex) bool { all = append(all, p.index); return true })
	return all
}

func TestNewerPlacementStays(t *testing.T) {
	t.Parallel()
	k := &known{Snapshot: Snapshot{table: newTable([]Index{indexOn("i", []string{"n1"})}, 10)}}
	old := &Placement{Version: 9, Indices: []Index{indexOn("i", []string{"n2"})}}
	require.Same(t, k.table, k.merge(old))
	require.Same(t, k.table, k.drop(k.table, "i", 9))
	require.NotSame(t, k.table, k.drop(k.table, "i", 10))
	same := &Placement{Version: 12, Indices: []Index{indexOn("i", []string{"n1"})}}
	require.Same(t, k.table, k.merge(same), "plans stay where nothing changed")
	require.Equal(t, int64(12), k.table.get("i").version.Load())
	require.Same(t, k.table, k.drop(k.table, "i", 11))
}

func TestUseOutlivesAChange(t *testing.T) {
	t.Parallel()
	k := &known{Snapshot: Snapshot{table: newTable([]Index{indexOn("i", []string{"n1"})}, 1)}}
	use := k.table.get("i").use
	k.table = k.merge(&Placement{Version: 2, Indices: []Index{indexOn("i", []string{"n2"})}})
	require.Same(t, use, k.table.get("i").use)
	list := &inUse{}
	now := time.Now()
	s := &Snapshot{inUse: list, stamp: now.Unix()}
	use.mark(s)
	use.mark(s)
	require.Equal(t, []string{"i"}, list.names(now))
	require.Empty(t, list.names(now.Add(2*time.Second)), "expired")
	use.mark(&Snapshot{inUse: list, stamp: now.Unix() + 5})
	require.Equal(t, []string{"i"}, list.names(now), "and in use again")
}

func TestTrust(t *testing.T) {
	t.Parallel()
	var k known
	at := time.Now()
	for second := range 100 {
		k.confirm(confirmation{int64(1 + second), at.Add(time.Duration(second) * time.Second)})
	}
	require.Equal(t, int64(100)-int64(BelieveFor/time.Second), k.trusted, "what was current BelieveFor ago")
	require.LessOrEqual(t, len(k.history), 1+int(BelieveFor/time.Second))
	k.confirm(confirmation{100, at.Add(time.Hour)})
	require.Equal(t, int64(100), k.trusted)
	k.confirm(confirmation{100, at.Add(2*time.Hour - time.Second)})
	k.confirm(confirmation{101, at.Add(2 * time.Hour)})
	require.Equal(t, int64(100), k.trusted, "it held until a moment ago")
	k.confirm(confirmation{102, at.Add(2*time.Hour + BelieveFor)})
	require.Equal(t, int64(102), k.trusted, "how long the one before held is not known")
}

func TestNodesComingAndGoingLeaveTheTable(t *testing.T) {
	t.Parallel()
	c := bigContents(10, 5)
	s := NewSnapshot(c)
	moved := *s
	moved.Nodes = append([]*Node{{ID: "a-first-one"}}, s.Nodes...)
	moved.frame = newFrame(moved.Nodes, nil)
	for range 2 {
		for _, target := range []string{"index-3", "index-*"} {
			require.Equal(t, servingIDs(s, target, ""), servingIDs(&moved, target, ""))
			require.NotEmpty(t, servingIDs(s, target, ""))
		}
	}
}

func BenchmarkNodeJoins(b *testing.B) {
	for _, shards := range []int{500, 50_000} {
		s := NewSnapshot(bigContents(shards/5, 5))
		b.Run(fmt.Sprintf("shards=%d/nodes=50", shards), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				newFrame(s.Nodes, nil)
			}
		})
	}
}

func TestCopySets(t *testing.T) {
	t.Parallel()
	s := NewSnapshot(bigContents(40, 5))
	plan, miss := s.Resolve("index-*", "")
	require.Equal(t, MissNone, miss)
	sets, weights := plan.CopySets()
	require.Len(t, sets, 44, "of 200 shards, in turns on 50 nodes")
	count := map[string]int{}
	for _, copies := range plan.Shards {
		count[fmt.Sprint(copies)]++
	}
	for i, copies := range sets {
		require.Equal(t, count[fmt.Sprint(copies)], weights[i])
	}
	inexact, _ := s.Resolve("index-*", "new")
	require.False(t, inexact.Exact)
	same, _ := inexact.CopySets()
	require.Equal(t, sets, same)

	wide, _ := NewSnapshot(bigContents(1, 200)).Resolve("index-0", "")
	sets, _ = wide.CopySets()
	require.Len(t, sets, 50, "an index is a target as others")

	few, _ := s.Resolve("index-7", "")
	sets, weights = few.CopySets()
	require.Equal(t, few.Shards, sets)
	require.Nil(t, weights)

	odd := &Plan{}
	for range 50 {
		odd.Shards = append(odd.Shards, []int{1, 2, 3, 4, 5}, []int{70_000}, []int{1, 2}, []int{12})
	}
	odd.joinSets()
	sets, weights = odd.CopySets()
	require.Len(t, sets, 102)
	sum := 0
	for _, w := range weights {
		sum += w
	}
	require.Equal(t, 200, sum)
}
