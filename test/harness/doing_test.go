package harness

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDoing(t *testing.T) {
	d := Doing{DoesHedges: {"won": 1, "lost": 2, "over_budget": 9}, DoesFailovers: {"partial": 4, "unreachable": 8}}
	require.Equal(t, 7.0, d.Extra(), "what was not sent does not count")
	require.Equal(t, "hedges over_budget 9, lost 2, won 1; failovers unreachable 8, partial 4", d.String())
	d.Add(Doing{DoesHedges: {"lost": 2}, DoesProbes: {"ok": 3}}, -1)
	d.Add(Doing{DoesProbes: {"ok": 5}}, 1)
	require.Equal(t, Doing{
		DoesHedges: {"won": 1, "lost": 0, "over_budget": 9}, DoesFailovers: {"partial": 4, "unreachable": 8}, DoesProbes: {"ok": 2},
	}, d)
	require.Equal(t, "b 3, a 1", Counts(map[string]float64{"a": 1, "b": 3, "c": 0}))
	require.Equal(t, "none", Counts(nil))
}
