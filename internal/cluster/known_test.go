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
	st.PlacedAll(time.Now(), &Placement{ClusterUUID: "new", Version: 7})
	st.ForgetVersions("old")
	require.EqualValues(t, 7, st.known.version)
	st.ForgetVersions("new")
	require.Zero(t, st.known.version)
}

// What is known of a later version stays when a whole placement is taken in that took long to read.
func TestAWholePlacementMayBeBehind(t *testing.T) {
	t.Parallel()
	on := func(name, node string) Index {
		return Index{Name: name, Shards: []Shard{{Index: name, Copies: []Copy{{Node: node, Kind: 'p', State: Started}}}}}
	}
	st := NewStore(StoreOptions{Registerer: prometheus.NewRegistry()})
	st.Discovered(Identity{ClusterUUID: "u"}, []*Node{{ID: "n1"}, {ID: "n2"}}, nil)
	place := func(version int64, indices ...Index) {
		st.PlacedAll(time.Now(), &Placement{ClusterUUID: "u", Version: version, Indices: indices})
	}
	requireOn := func(node string) {
		t.Helper()
		for _, name := range []string{"made", "moved"} {
			index, ok := st.Snapshot().Lookup(name)
			require.True(t, ok, name)
			require.Equal(t, node, index.Shards[0].Copies[0].Node)
		}
	}
	place(10, on("moved", "n1"))
	st.PlacedSome(&Placement{ClusterUUID: "u", Version: 12, Indices: []Index{on("made", "n2"), on("moved", "n2")}}, []string{"made", "moved"})
	requireOn("n2")
	place(11, on("moved", "n1"))
	requireOn("n2")
	place(13, on("made", "n1"), on("moved", "n1"))
	requireOn("n1")
}

// Of another cluster nothing is placed yet.
func TestMetricsOfAClusterThatIsGone(t *testing.T) {
	t.Parallel()
	st := NewStore(StoreOptions{Registerer: prometheus.NewRegistry()})
	st.Discovered(Identity{ClusterUUID: "old"}, nil, nil)
	st.PlacedAll(time.Now(), &Placement{ClusterUUID: "old", Version: 7, Indices: []Index{indexOn("i", []string{"n1"}, []string{"n2"})}})
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
