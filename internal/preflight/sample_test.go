package preflight

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

// What an account may do with indices of the engine's own says nothing of the others.
func TestSampleIsNoHiddenIndexIfThereIsAnother(t *testing.T) {
	t.Parallel()
	nodes := []*cluster.Node{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	hidden := clustertest.Index(".opendistro_security", []string{"a"})
	with := func(indices ...cluster.Index) *cluster.Snapshot {
		return cluster.NewSnapshot(cluster.Contents{Nodes: nodes, Indices: indices})
	}
	require.Equal(t, "logs", sample(with(hidden, clustertest.Index("logs", []string{"b"}))))
	require.Equal(t, ".opendistro_security", sample(with(hidden)))
	require.Empty(t, sample(with()))
}
