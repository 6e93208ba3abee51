package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// via says why a decision made at now goes through the nodes that it goes through.
func via(s *Selector, d *Decision, now time.Duration) Via {
	why, _ := s.Via(d, at(now))
	return why
}

// What is told of the next choice is what it comes to, also where nodes take turns.
func TestTheNextChoiceIsTold(t *testing.T) {
	s, nodes := newTest(t, 5)
	turns := map[*Node]bool{}
	for range 20 {
		for _, shards := range [][][]int{{{0, 1}}, ring(3, 2, 3)} {
			var told Decision
			s.Next(&told, Request{Nodes: nodes, Shards: shards}, epoch)
			d := choose(s, nodes, shards, epoch)
			require.Equal(t, names(&told), names(d))
			require.Same(t, told.Coordinator, d.Coordinator)
			require.Contains(t, told.Turns(), d.Coordinator)
			if len(shards) > 1 {
				require.Equal(t, nodes[:3], told.Turns())
				require.Equal(t, ViaTurns, via(s, &told, 0))
				turns[d.Coordinator] = true
			}
		}
	}
	require.Len(t, turns, 3)
}
