package proxy

import (
	"fmt"
	"testing"
	"time"

	"sidestep/internal/cluster"
	"sidestep/internal/selection"
)

// wideSnapshot has 10,000 indices of five shards with two copies each, and a wildcard
// over 2,000 of them.
func wideSnapshot(nodes int) *cluster.Snapshot {
	const indices, shards, wide = 10_000, 5, 2000
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
			index.Shards = append(index.Shards, cluster.Shard{Number: number, Copies: copies})
			if i < wide {
				covered = append(covered, cluster.ShardName{Index: index.Name, Number: number})
			}
		}
		c.Indices = append(c.Indices, index)
	}
	c.Targets = map[cluster.Target][]cluster.ShardName{{Expression: "index-*"}: covered}
	return cluster.NewSnapshot(c)
}

// wideCase is a search, and how the nodes are doing meanwhile.
type wideCase struct {
	target, nodes string
	slow          int   // this many of them
	queues        int64 // longest, of nodes that are busy unevenly
}

// BenchmarkWide resolves a wildcard over 2,000 indices with 10,000 shards and chooses
// the nodes for it, as decide does: the plan is made for the first search after a
// change, and kept.
func BenchmarkWide(b *testing.B) {
	for _, size := range []int{50, 1000} {
		s := wideSnapshot(size)
		for _, like := range []wideCase{
			{target: "index-*", nodes: "unknown"}, {target: "index-*", nodes: "alike"}, {target: "index-*", nodes: "one-slow", slow: 1},
			{target: "index-*", nodes: "fifth-slow", slow: size / 5}, {target: "index-7", nodes: "alike"},
			{target: "index-*", nodes: "one-slow-uneven", slow: 1, queues: 6},
		} {
			b.Run(fmt.Sprintf("of=%d/target=%s/nodes=%s", size, like.target, like.nodes), func(b *testing.B) {
				now := time.Now()
				selector, nodes := measured(b, s, like, now)
				var d selection.Decision
				b.ReportAllocs()
				for b.Loop() {
					plan, miss := s.Resolve(like.target, "")
					if miss != cluster.MissNone {
						b.Fatal(miss)
					}
					req := selection.Request{Nodes: nodes, Outline: (*selection.Outline)(plan.Outline())}
					req.Shards, req.Weights = plan.CopySets()
					selector.Choose(&d, req, now)
				}
			})
		}
	}
}

// measured is a selector with nodes that do as in like, and answer alike but for the slow ones.
func measured(b *testing.B, s *cluster.Snapshot, like wideCase, now time.Time) (*selection.Selector, []*selection.Node) {
	b.Helper()
	selector := selection.New(selection.Options{Epoch: now.Add(-time.Minute)})
	infos := make([]selection.NodeInfo, len(s.Nodes))
	seen := make(map[string]selection.Seen, len(s.Nodes))
	for i, n := range s.Nodes {
		infos[i] = selection.NodeInfo{ID: n.ID, Name: n.ID}
		seen[n.ID] = selection.Seen{Now: 5*time.Millisecond + time.Duration(i)*time.Microsecond}
		if i < like.slow {
			seen[n.ID] = selection.Seen{Now: time.Second}
		}
	}
	nodes := selector.Update(infos, time.Now())
	for i, n := range s.Nodes {
		if like.nodes == "unknown" {
			break
		}
		poll := selection.Poll{State: selection.Fine, Took: time.Millisecond, ServiceTime: 2 * time.Millisecond, Queries: 10, Elapsed: time.Second}
		poll.Queue = float64(int64(i) % (like.queues + 1))
		if i < 2 { // nobody tells of itself
			poll.Coordinated = seen
		}
		selector.ObservePoll(n.ID, poll, now)
	}
	return selector, nodes
}
