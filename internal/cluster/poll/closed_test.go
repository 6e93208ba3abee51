package poll

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

func TestClosedIndicesAreKnown(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	closed := clustertest.Object{"shut": clustertest.Object{"settings": clustertest.Object{"index.verified_before_close": "true"}}}
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("open", []string{"n1", "n2"}), clustertest.Index("shut", []string{"n1", "n2"}, []string{"n2"})}
		f.Settings = closed
		f.Targets[cluster.Target{Expression: "both"}] = []cluster.ShardName{{Index: "open", Number: 0}, {Index: "shut", Number: 0}}
	})
	w := watch(t, f, nil)
	w.Resolves("open", "", []string{"n1", "n2"})
	w.MissIs("shut", "", cluster.MissClosed)
	w.MissIs("shut", "routed", cluster.MissClosed)
	w.Learn("both", "")
	w.MissIs("both", "", cluster.MissClosed)
	copies := func(state string) float64 { return w.Metric("sidestep_cluster_placement_unsettled_copies", state) }
	require.InDelta(t, 3, copies("closed"), 0)
	require.InDelta(t, 2, w.Metric("sidestep_cluster_placement_copies"), 0)
	s := w.Snapshot()
	for node := range s.Nodes {
		require.False(t, s.Serves(node, cluster.ShardName{Index: "shut", Number: 0}))
		for range 20 {
			shard, ok := s.AnyServed(node)
			require.True(t, ok)
			require.Equal(t, cluster.ShardName{Index: "open", Number: 0}, shard)
		}
	}

	f.Change(func() { f.Settings = clustertest.Object{} })
	w.Resolves("shut", "", []string{"n1", "n2"}, []string{"n2"})
	w.Eventually("nothing is closed", func() bool { return copies("closed") == 0 && w.Metric("sidestep_cluster_placement_copies") == 5 })
	f.Change(func() { f.Settings = closed })
	w.MissIs("shut", "", cluster.MissClosed)
	f.Change(func() { f.Indices = f.Indices[:1] })
	w.Eventually("closed indices are deleted like others", func() bool { return copies("closed") == 0 })
}
