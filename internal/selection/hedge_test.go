package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEjectedSinceIsWhatWasSentBefore(t *testing.T) {
	const second = time.Second
	for _, unfit := range []func(*Selector, *Node){
		func(s *Selector, n *Node) { s.eject(n, Slow, int64(2*second), "test") },
		func(s *Selector, n *Node) { s.MarkUnreachable(n, "refused", epoch.Add(2*second)) },
	} {
		s, nodes := newTest(t, "adaptive", 3)
		var before, elsewhere, after Decision
		s.Choose(&before, Request{Nodes: nodes, Shards: [][]int{{0}}}, epoch.Add(second))
		s.Acquire(&before, epoch.Add(second))
		s.Choose(&elsewhere, Request{Nodes: nodes, Shards: [][]int{{1}}}, epoch.Add(second))
		s.Acquire(&elsewhere, epoch.Add(second))
		elsewhere.Coordinator = nodes[1]
		require.False(t, s.EjectedSince(&before))
		unfit(s, nodes[0])
		require.True(t, s.EjectedSince(&before))
		require.False(t, s.EjectedSince(&elsewhere), "it waits for another node")
		elsewhere.Coordinator = nodes[0]
		require.True(t, s.EjectedSince(&elsewhere), "it waits for its coordinating node")
		s.Choose(&after, Request{Nodes: nodes, Shards: [][]int{{0}}}, epoch.Add(3*second))
		s.Acquire(&after, epoch.Add(3*second))
		require.False(t, s.EjectedSince(&after), "that was known when it was sent")
	}
}
