package proxy

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/selection"
)

// wideSnapshot has indices of five shards with two copies each on 50 nodes, and a
// wildcard over 2,000 of them.
func wideSnapshot(indices int) *cluster.Snapshot {
	const nodes, shards, wide = 50, 5, 2000
	c := cluster.Contents{PlacedAt: time.Now()}
	for i := range nodes {
		c.Nodes = append(c.Nodes, &cluster.Node{ID: fmt.Sprintf("node-with-an-id-of-%d", 100+i)})
	}
	var covered []cluster.ShardName
	for i := range indices {
		index := cluster.Index{Name: fmt.Sprintf("index-%d", i)}
		for number := range shards {
			at := i*7 + number*13 // other neighbours for each index
			copies := []cluster.Copy{
				{Node: c.Nodes[at%nodes].ID, Kind: 'p', State: cluster.Started},
				{Node: c.Nodes[(at+1+i%(nodes-1))%nodes].ID, Kind: 'r', State: cluster.Started},
			}
			index.Shards = append(index.Shards, cluster.Shard{Index: index.Name, Number: number, Copies: copies})
			if i < wide {
				covered = append(covered, cluster.ShardName{Index: index.Name, Number: number})
			}
		}
		c.Indices = append(c.Indices, index)
	}
	c.Targets = map[cluster.Target][]cluster.ShardName{{Expression: "index-*"}: covered}
	return cluster.NewSnapshot(c)
}

// BenchmarkWide resolves a wildcard over 2,000 indices with 10,000 shards and chooses
// the nodes for it, as decide does: the plan is made for the first search after a
// change, and kept.
func BenchmarkWide(b *testing.B) {
	s := wideSnapshot(10_000)
	selector, err := selection.New(selection.Options{Policy: "adaptive", Epoch: time.Now()})
	require.NoError(b, err)
	infos := make([]selection.NodeInfo, len(s.Nodes))
	for i, n := range s.Nodes {
		infos[i] = selection.NodeInfo{ID: n.ID, Name: n.ID}
	}
	nodes := selector.Update(infos)
	var d selection.Decision
	for _, target := range []string{"index-*", "index-7"} {
		b.Run("target="+target, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plan, miss := s.Resolve(target, "")
				if miss != cluster.MissNone {
					b.Fatal(miss)
				}
				req := selection.Request{Nodes: nodes}
				req.Shards, req.Weights = plan.CopySets()
				selector.Choose(&d, req, time.Now())
			}
		})
	}
}
