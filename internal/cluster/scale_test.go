//go:build unix

package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sizes of clusters in shards: five an index, two copies each.
func sizes() []int { return []int{100, 5000, 50_000, 500_000} }

const shardsPerIndex = 5

// loop runs do, which reports whether it did its work, and tells the time of the
// processor besides that of the clock: other programs disturb it less.
func loop(b *testing.B, do func() bool) {
	b.Helper()
	inTurns(b, 1, func(int) bool { return do() }, func(int) {})
}

// inTurns does something a number of times, and undoes it off the clocks.
func inTurns(b *testing.B, times int, do func(i int) bool, undo func(i int)) {
	b.Helper()
	b.ReportAllocs()
	n, spent := 0, time.Duration(0)
	for b.Loop() {
		before := processorTime(b)
		for i := range times {
			if !do(i) {
				b.Fatal("nothing done")
			}
		}
		spent += processorTime(b) - before
		n += times
		b.StopTimer()
		for i := range times {
			undo(i)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(spent)/float64(n), "cpu-ns/op")
	b.ReportMetric(float64(b.Elapsed())/float64(n), "ns/op")
}

func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkResolve resolves one index, and a wildcard over 20, of clusters of all
// sizes: a search pays for what it searches.
func BenchmarkResolve(b *testing.B) {
	for _, shards := range sizes() {
		c := bigContents(shards/shardsPerIndex, shardsPerIndex)
		c.Targets[Target{Expression: "index-1*"}] = c.Targets[Target{Expression: "index-*"}][:100]
		s := NewSnapshot(c)
		for _, target := range []string{"index-7", "index-1*"} {
			kind := map[string]string{"index-7": "index", "index-1*": "wildcard"}[target]
			b.Run(fmt.Sprintf("shards=%d/target=%s", shards, kind), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, miss := s.Resolve(target, ""); miss != MissNone {
						b.Fatal(miss)
					}
				}
			})
		}
	}
}

// BenchmarkResolveWide resolves a wildcard over 2,000 indices with 10,000 shards of
// 50,000: for the first time in a cluster whose nodes just changed, for the first time
// after a change of placement, and from its plan.
func BenchmarkResolveWide(b *testing.B) {
	c := bigContents(10_000, shardsPerIndex)
	wide := Target{Expression: "index-1*"}
	c.Targets[wide] = c.Targets[Target{Expression: "index-*"}][:2000*shardsPerIndex]
	s := NewSnapshot(c)
	for kind, before := range map[string]func(){
		"nodes-changed": func() { s.frame = newFrame(s.Nodes, nil) },
		"moved":         func() { s.table = s.table.edited() },
		"known":         func() {},
	} {
		b.Run("shards=10000/plan="+kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				before()
				b.StartTimer()
				if _, miss := s.Resolve(wide.Expression, ""); miss != MissNone {
					b.Fatal(miss)
				}
			}
		})
	}
}

// BenchmarkApply brings changes of one index into clusters of all sizes: the cost is
// to stay. They are of 20 indices in turns, made by 20 answers. BenchmarkRebuild is
// what a change would cost without sharing.
func BenchmarkApply(b *testing.B) {
	const indices = 20
	for _, shards := range sizes() {
		c := bigContents(shards/shardsPerIndex, shardsPerIndex)
		k := &known{Snapshot: Snapshot{table: newTable(c.Indices, 1)}}
		version := int64(1)
		put := func(index Index) bool {
			version++
			before := k.table
			k.table = k.merge(&Placement{Version: version, Indices: []Index{index}})
			return k.table != before
		}
		remove := func(name string) bool {
			version++
			before := k.table
			k.table = k.drop(k.table, name, version)
			return k.table != before
		}
		var created, placed, moved []Index
		for i := range indices {
			placed = append(placed, *indexNamed(b, k.table, "index-"+strconv.Itoa(i%(shards/shardsPerIndex))))
			moved = append(moved, renamed(placed[i], placed[i].Name, c.Nodes[(i+20)%50].ID))
			created = append(created, renamed(placed[i], "created-"+strconv.Itoa(i), ""))
		}
		for _, change := range []struct {
			kind     string
			do, undo func(i int) bool
		}{
			{"create", func(i int) bool { return put(created[i]) }, func(i int) bool { return remove(created[i].Name) }},
			{"delete", func(i int) bool { return remove(placed[i].Name) }, func(i int) bool { return put(placed[i]) }},
			{"relocate", func(i int) bool { return put(moved[i]) }, func(i int) bool { return put(placed[i]) }},
		} {
			b.Run(fmt.Sprintf("shards=%d/change=%s", shards, change.kind), func(b *testing.B) {
				inTurns(b, indices, change.do, func(i int) { require.True(b, change.undo(i)) })
			})
		}
	}
}

func indexNamed(b *testing.B, t *table, name string) *Index {
	b.Helper()
	p := t.get(name)
	require.NotNil(b, p)
	return &p.index
}

// renamed returns an index like another one, the first copy of its first shard on
// another node if that is named.
func renamed(index Index, name, node string) Index {
	like := Index{Name: name}
	for _, shard := range index.Shards {
		shard.Copies = slices.Clone(shard.Copies)
		if node != "" && shard.Number == 0 {
			shard.Copies[0].Node = node
		}
		like.Shards = append(like.Shards, shard)
	}
	return like
}

func BenchmarkRebuild(b *testing.B) {
	for _, shards := range sizes() {
		c := bigContents(shards/shardsPerIndex, shardsPerIndex)
		b.Run("shards="+strconv.Itoa(shards), func(b *testing.B) {
			loop(b, func() bool { return newTable(c.Indices, 1).shards == shards })
		})
	}
}

// BenchmarkAnyServed draws a shard of a node, as a probe does.
func BenchmarkAnyServed(b *testing.B) {
	for _, shards := range sizes() {
		s := NewSnapshot(bigContents(shards/shardsPerIndex, shardsPerIndex))
		b.Run("shards="+strconv.Itoa(shards), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := s.AnyServed(7); !ok {
					b.Fatal("the node serves nothing")
				}
			}
		})
	}
}
