package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/diagnosis"
	"sidestep/internal/proxy"
)

func TestExplanationsTellOfTrouble(t *testing.T) {
	now := time.Now()
	spike := func(id, node string, ended time.Duration) diagnosis.Spike {
		s := diagnosis.Spike{ID: id, NodeID: node}
		if ended > 0 {
			s.Ended = &diagnosis.Time{Time: now.Add(-ended)}
		}
		return s
	}
	e := proxy.Explanation{Shards: []proxy.ShardExplanation{{Copies: []proxy.CopyExplanation{{NodeID: "a"}, {NodeID: "b"}}}}}
	found := concerning(e, []diagnosis.Spike{
		spike("lasts", "a", 0), spike("lately", "b", time.Second), spike("long ago", "b", time.Hour), spike("elsewhere", "c", 0),
	}, now)
	require.Len(t, found, 2)
	require.Equal(t, "lasts", found[0].ID)
	require.Equal(t, "lately", found[1].ID)
	require.Empty(t, concerning(proxy.Explanation{}, found, now))
}
