//go:build unix

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Sizes of clusters in shards: five an index, two copies each.
func sizes() []int { return []int{100, 5000, 50_000, 500_000} }

const shardsPerIndex = 5

// loop runs do, which reports whether it did its work, and tells the time of the
// processor besides that of the clock: other programs disturb it less.
func loop(b *testing.B, do func() bool) {
	b.ReportAllocs()
	before, n := processorTime(b), 0
	for b.Loop() {
		if !do() {
			b.Fatal("nothing done")
		}
		n++
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(n), "cpu-ns/op")
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

// BenchmarkApply brings a change of one index into clusters of all sizes: the cost is
// to stay. BenchmarkRebuild is what it would be without sharing.
func BenchmarkApply(b *testing.B) {
	for _, shards := range sizes() {
		c := bigContents(shards/shardsPerIndex, shardsPerIndex)
		k := &known{table: newTable(c.Indices, 1)}
		created := index("created", []string{c.Nodes[1].ID, c.Nodes[2].ID}, []string{c.Nodes[3].ID, c.Nodes[4].ID}, []string{c.Nodes[5].ID, c.Nodes[6].ID},
			[]string{c.Nodes[7].ID, c.Nodes[8].ID}, []string{c.Nodes[9].ID, c.Nodes[10].ID})
		moved := index("index-7", []string{c.Nodes[20].ID, c.Nodes[14].ID}, []string{c.Nodes[8].ID, c.Nodes[15].ID}, []string{c.Nodes[9].ID, c.Nodes[16].ID},
			[]string{c.Nodes[10].ID, c.Nodes[17].ID}, []string{c.Nodes[11].ID, c.Nodes[18].ID})
		for kind, state := range map[string]*routingState{
			"create": {version: 2, indices: []Index{created}}, "relocate": {version: 2, indices: []Index{moved}},
		} {
			b.Run(fmt.Sprintf("shards=%d/change=%s", shards, kind), func(b *testing.B) {
				loop(b, func() bool { return k.merge(state) != k.table })
			})
		}
		b.Run(fmt.Sprintf("shards=%d/change=delete", shards), func(b *testing.B) {
			loop(b, func() bool { return k.drop(k.table, "index-7", 2) != k.table })
		})
	}
}

func BenchmarkRebuild(b *testing.B) {
	for _, shards := range sizes() {
		c := bigContents(shards/shardsPerIndex, shardsPerIndex)
		b.Run("shards="+strconv.Itoa(shards), func(b *testing.B) {
			loop(b, func() bool { return newTable(c.Indices, 1).shards == shards })
		})
	}
}

// BenchmarkFirstTable reads the answer of _cat/shards and makes the first table of it.
func BenchmarkFirstTable(b *testing.B) {
	for _, shards := range sizes() {
		f := &fake{indices: bigContents(shards/shardsPerIndex, shardsPerIndex).Indices}
		answer, err := json.Marshal(f.catShards())
		require.NoError(b, err)
		b.Run("shards="+strconv.Itoa(shards), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(answer)))
			for b.Loop() {
				indices, err := parseCatShards(bytes.NewReader(answer))
				if err != nil {
					b.Fatal(err)
				}
				newTable(indices, 1)
			}
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
