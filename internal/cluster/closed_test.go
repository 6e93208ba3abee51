package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/es"
)

func TestClosedIndicesAreKnown(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2)
	closed := object{"shut": object{"settings": object{"index.verified_before_close": "true"}}}
	f.change(func() {
		f.indices = []Index{index("open", []string{"n1", "n2"}), index("shut", []string{"n1", "n2"}, []string{"n2"})}
		f.settings = closed
		f.targets[Target{Expression: "both"}] = []ShardName{{"open", 0}, {"shut", 0}}
	})
	w := f.watch(nil)
	w.resolves("open", "", []string{"n1", "n2"})
	w.missIs("shut", "", MissClosed)
	w.missIs("shut", "routed", MissClosed)
	w.Learn("both", "")
	w.missIs("both", "", MissClosed)
	copies := func(state string) float64 { return value(t, w.metrics.unsettled.WithLabelValues(state)) }
	require.InDelta(t, 3, copies("closed"), 0)
	require.InDelta(t, 2, value(t, w.metrics.copies), 0)
	s := w.Snapshot()
	for node := range s.Nodes {
		require.False(t, s.Serves(node, ShardName{"shut", 0}))
		for range 20 {
			shard, ok := s.AnyServed(node)
			require.True(t, ok)
			require.Equal(t, ShardName{"open", 0}, shard)
		}
	}

	f.change(func() { f.settings = object{} })
	w.resolves("shut", "", []string{"n1", "n2"}, []string{"n2"})
	w.eventually("nothing is closed", func() bool { return copies("closed") == 0 && value(t, w.metrics.copies) == 5 })
	f.change(func() { f.settings = closed })
	w.missIs("shut", "", MissClosed)
	f.change(func() { f.indices = f.indices[:1] })
	w.eventually("closed indices are deleted like others", func() bool { return copies("closed") == 0 })
}

func TestDocumentsOfClosedIndices(t *testing.T) {
	t.Parallel()
	shut := index("shut", []string{"n1"})
	shut.Closed = true
	s := NewSnapshot(Contents{
		Nodes: []*Node{{ID: "n1"}}, Indices: []Index{shut},
		Layouts: map[string]Layout{"shut": {Index: "shut", Routing: es.Routing{Shards: 1, RoutingShards: 1, PartitionSize: 1}}},
	})
	_, miss := s.Locate([]es.Document{{Index: "shut", ID: "1"}})
	require.Equal(t, MissClosed, miss)
}
