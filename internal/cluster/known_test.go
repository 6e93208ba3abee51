package cluster

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// Another cluster may have been found behind the addresses since the version was read, and
// nothing may be placed of it yet.
func TestForgetVersionsOfAnotherCluster(t *testing.T) {
	st := NewStore(StoreOptions{Registerer: prometheus.NewRegistry()})
	st.Discovered(Identity{ClusterUUID: "new"}, nil, nil)
	st.ForgetVersions("new")
	st.ForgetVersions("old")
	st.PlacedAll("whole", time.Now(), &Placement{ClusterUUID: "new", Version: 7})
	st.ForgetVersions("old")
	require.EqualValues(t, 7, st.known.version)
	st.ForgetVersions("new")
	require.Zero(t, st.known.version)
}

// The elected manager, which lists all copies, applies a new state after the others. What one of these told of that version
// stays.
func TestAListOfCopiesMayBeBehind(t *testing.T) {
	t.Parallel()
	on := func(name, node string) Index {
		return Index{Name: name, Shards: []Shard{{Index: name, Copies: []Copy{{Node: node, Kind: 'p', State: Started}}}}}
	}
	st := NewStore(StoreOptions{Registerer: prometheus.NewRegistry()})
	st.Discovered(Identity{ClusterUUID: "u"}, []*Node{{ID: "n1"}, {ID: "n2"}}, nil)
	place := func(source string, version int64, indices ...Index) {
		st.PlacedAll(source, time.Now(), &Placement{ClusterUUID: "u", Version: version, Indices: indices})
	}
	requireOn := func(node string) {
		t.Helper()
		for _, name := range []string{"made", "moved"} {
			index, ok := st.Snapshot().Lookup(name)
			require.True(t, ok, name)
			require.Equal(t, node, index.Shards[0].Copies[0].Node)
		}
	}
	place(SourceCatShards, 10, on("moved", "n1"))
	st.PlacedSome(&Placement{ClusterUUID: "u", Version: 11, Indices: []Index{on("made", "n2"), on("moved", "n2")}}, []string{"made", "moved"})
	requireOn("n2")
	place(SourceCatShards, 11, on("moved", "n1"))
	requireOn("n2")
	place(SourceRoutingTable, 11, on("made", "n1"), on("moved", "n1"))
	requireOn("n1")
	place(SourceListShards, 12, on("made", "n2"), on("moved", "n2"))
	requireOn("n2")
}

// Of another cluster nothing is placed yet.
func TestMetricsOfAClusterThatIsGone(t *testing.T) {
	t.Parallel()
	st := NewStore(StoreOptions{Registerer: prometheus.NewRegistry()})
	st.Discovered(Identity{ClusterUUID: "old"}, nil, nil)
	st.PlacedAll(SourceCatShards, time.Now(), &Placement{ClusterUUID: "old", Version: 7, Indices: []Index{indexOn("i", []string{"n1"}, []string{"n2"})}})
	require.InDelta(t, 2, testutil.ToFloat64(st.metrics.shards), 0)
	st.Discovered(Identity{ClusterUUID: "new"}, nil, nil)
	for _, gauge := range []prometheus.Gauge{st.metrics.indices, st.metrics.shards, st.metrics.copies} {
		require.Zero(t, testutil.ToFloat64(gauge))
	}
}

// Which indices are closed a relay tells with their placement. Own polls go on from there.
func TestWhatARelayToldToBeClosedStaysClosed(t *testing.T) {
	t.Parallel()
	st := NewStore(StoreOptions{Registerer: prometheus.NewRegistry()})
	st.Discovered(Identity{ClusterUUID: "u"}, []*Node{{ID: "n1"}}, nil)
	shut, open := indexOn("shut", []string{"n1"}), indexOn("open", []string{"n1"})
	shut.Closed = true
	st.PlacedByRelay(RelayedPlacement{Version: 7, AsOf: time.Now(), Whole: true, Indices: []Index{open, shut}, Stale: make([]bool, 2)})
	st.ContinueRelayed()
	closed := func(name string) bool {
		index, ok := st.Snapshot().Lookup(name)
		require.True(t, ok)
		return index.Closed
	}
	shut.Closed = false // the engines show its copies as those of others
	st.PlacedSome(&Placement{ClusterUUID: "u", Version: 8, Indices: []Index{open, shut}}, []string{"open", "shut"})
	require.True(t, closed("shut"))
	require.False(t, closed("open"))
	st.Closed("u", map[string]bool{})
	require.False(t, closed("shut"), "it was opened")
}
