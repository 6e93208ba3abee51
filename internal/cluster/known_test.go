package cluster

import (
	"strconv"
	"testing"
	"testing/synctest"
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
	require.EqualValues(t, 7, st.known.Version)
	st.ForgetVersions("new")
	require.Zero(t, st.known.Version)
}

// What a target stands for is found again when its indices are, also if the cluster has gone back to a lower version.
func TestTargetsAfterVersionsAreForgotten(t *testing.T) {
	t.Parallel()
	st := NewStore(StoreOptions{Registerer: prometheus.NewRegistry()})
	st.Discovered(Identity{ClusterUUID: "u"}, []*Node{{ID: "n1"}}, nil)
	start, index := time.Now(), indexOn("i", []string{"n1"})
	st.PlacedAll(start, &Placement{ClusterUUID: "u", Version: 1000, Indices: []Index{index}})
	st.Targets().LookedUp(LookUp{Target: Target{Expression: "alias"}}, &Resolved{Shards: []ShardName{{Index: "i"}}})
	st.Confirmed("u", 1001, start.Add(time.Second))
	st.Confirmed("u", 1002, start.Add(2*time.Second))
	st.Confirmed("u", 1002, start.Add(time.Second+BelieveFor))
	_, miss := st.Snapshot().Resolve("alias", "")
	require.Equal(t, MissUnknownTarget, miss)
	st.ForgetVersions("u")
	st.PlacedSome(&Placement{ClusterUUID: "u", Version: 5, Indices: []Index{index}}, []string{"i"})
	st.Confirmed("u", 5, start.Add(time.Minute))
	_, miss = st.Snapshot().Resolve("alias", "")
	require.Equal(t, MissNone, miss)
}

// What a target stands for is found again when a relay tells where its indices are, although they are where they were.
func TestTargetsAfterARelayTellsAgain(t *testing.T) {
	t.Parallel()
	st := NewStore(StoreOptions{Registerer: prometheus.NewRegistry()})
	st.Discovered(Identity{ClusterUUID: "u"}, []*Node{{ID: "n1"}}, nil)
	start, index := time.Now(), indexOn("i", []string{"n1"})
	st.PlacedAll(start, &Placement{ClusterUUID: "u", Version: 7, Indices: []Index{index}})
	st.Targets().LookedUp(LookUp{Target: Target{Expression: "alias"}}, &Resolved{Shards: []ShardName{{Index: "i"}}})
	for second := range 2 {
		st.Confirmed("u", int64(8+second), start.Add(time.Duration(second)*BelieveFor))
	}
	_, miss := st.Snapshot().Resolve("alias", "")
	require.Equal(t, MissUnknownTarget, miss)
	st.PlacedByRelay(RelayedPlacement{Version: 9, AsOf: start.Add(time.Minute), Whole: true, Indices: []Index{index}, Stale: []bool{false}})
	_, miss = st.Snapshot().Resolve("alias", "")
	require.Equal(t, MissNone, miss)
}

// A target that the engine refuses to tell of is not waited for: it is asked for no sooner than one that is not there.
func TestIndicesOfATargetThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, refused := range []bool{false, true} {
		st := NewStore(StoreOptions{Registerer: prometheus.NewRegistry()})
		st.Discovered(Identity{ClusterUUID: "u"}, []*Node{{ID: "n1"}}, nil)
		st.PlacedAll(time.Now(), &Placement{ClusterUUID: "u", Version: 7})
		_, known := st.IndicesOf("secret-*")
		require.False(t, known)
		st.Targets().LookedUp(LookUp{Target: Target{Expression: "secret-*"}}, &Resolved{Unknown: true, Refused: refused, Version: 7, At: time.Now()})
		names, known := st.IndicesOf("secret-*")
		require.True(t, known)
		require.Empty(t, names)
	}
}

// Of many targets in use each has its turn after the cluster state moved. What reads by routing go by does not wait for that,
// else they would miss documents of an index that was added to an alias.
func TestIndicesOfATargetAmongMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := NewStore(StoreOptions{Registerer: prometheus.NewRegistry()})
		st.Discovered(Identity{ClusterUUID: "u"}, []*Node{{ID: "n1"}}, nil)
		orders := LookUp{Target: Target{Expression: "orders"}}
		find := func(about LookUp, version int64) {
			st.Targets().LookedUp(about, &Resolved{Shards: []ShardName{{Index: "orders-1"}}, Version: version, At: time.Now()})
			l, _ := st.Targets().forSnapshot().Get(about)
			l.markUsed(time.Now().Unix())
		}
		asked := func() int {
			_, known := st.IndicesOf("orders")
			require.True(t, known)
			return st.Targets().Waiting()
		}
		st.PlacedAll(time.Now(), &Placement{ClusterUUID: "u", Version: 1})
		for i := range outdatedAtOnce {
			find(LookUp{Target: Target{Expression: "orders", Routing: strconv.Itoa(i)}}, 1)
		}
		find(orders, 1)
		time.Sleep(justNow)
		require.Zero(t, asked(), "nothing has changed")
		st.PlacedAll(time.Now(), &Placement{ClusterUUID: "u", Version: 2})
		st.LearnAgain()
		require.Equal(t, outdatedAtOnce, st.Targets().Waiting())
		require.Equal(t, outdatedAtOnce+1, asked())
		require.Equal(t, outdatedAtOnce+1, asked(), "it is queued")
		for range outdatedAtOnce + 1 {
			about, _ := st.Targets().Next(t.Context(), false)
			find(about, 1) // a relay may be behind
		}
		require.Zero(t, asked(), "just now")
		time.Sleep(justNow)
		require.Equal(t, 1, asked())
	})
}

// While all indices are read, more may become known of those in use. That stays, and what is older confirms nothing.
func TestAWholePlacementMayBeBehind(t *testing.T) {
	t.Parallel()
	on := func(name, node string) Index { return indexOn(name, []string{node}) }
	st := NewStore(StoreOptions{Registerer: prometheus.NewRegistry()})
	st.Discovered(Identity{ClusterUUID: "u"}, []*Node{{ID: "n1"}, {ID: "n2"}}, nil)
	start := time.Now()
	place := func(at time.Duration, version int64, indices ...Index) {
		st.PlacedAll(start.Add(at), &Placement{ClusterUUID: "u", Version: version, Indices: indices})
	}
	requireAt := func(at time.Duration, version int64, node string) {
		t.Helper()
		require.Equal(t, start.Add(at), st.Snapshot().PlacedAt)
		require.Equal(t, version, st.Snapshot().Version)
		for _, name := range []string{"made", "moved"} {
			index, ok := st.Snapshot().Lookup(name)
			require.True(t, ok, name)
			require.Equal(t, node, index.Shards[0].Copies[0].Node)
		}
	}
	place(0, 10, on("moved", "n1"))
	st.PlacedSome(&Placement{ClusterUUID: "u", Version: 12, Indices: []Index{on("made", "n2"), on("moved", "n2")}}, []string{"made", "moved"})
	st.Confirmed("u", 12, start.Add(time.Second))
	place(2*time.Second, 11, on("moved", "n1"))
	requireAt(time.Second, 12, "n2")
	place(0, 12, on("made", "n2"), on("moved", "n2"))
	requireAt(time.Second, 12, "n2")
	place(3*time.Second, 12, on("made", "n2"), on("moved", "n2"))
	requireAt(3*time.Second, 12, "n2")
	place(4*time.Second, 13, on("made", "n1"), on("moved", "n1"))
	requireAt(4*time.Second, 13, "n1")
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

// Plans are for what is searched: those of other targets are given up also while the cluster state stays.
func TestPlansOfTargetsThatNobodySearches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := NewStore(StoreOptions{Registerer: prometheus.NewRegistry()})
		st.Discovered(Identity{ClusterUUID: "u"}, []*Node{{ID: "n1"}}, nil)
		st.PlacedAll(time.Now(), &Placement{ClusterUUID: "u", Version: 7, Indices: []Index{indexOn("i", []string{"n1"})}})
		about := LookUp{Target: Target{Expression: "alias"}}
		st.Targets().LookedUp(about, &Resolved{Shards: []ShardName{{Index: "i"}}, Version: 7, At: time.Now()})
		st.Publish()
		_, miss := st.Snapshot().Resolve("alias", "")
		require.Equal(t, MissNone, miss)
		l, _ := st.targets.forSnapshot().Get(about)
		for range 2 {
			st.LearnAgain()
			require.NotNil(t, l.joined.Load())
			time.Sleep(UseExpiry - time.Second)
			st.Targets().LookedUp(about, &Resolved{Shards: []ShardName{{Index: "i"}}, Version: 7, At: time.Now()})
			st.Confirmed("u", 7, time.Now())
		}
		st.LearnAgain()
		require.Nil(t, l.joined.Load())
	})
}

// What is read before a version is confirmed is what is in use and was not seen at it, whether it has moved or what is in use
// has. While it stays nothing is read before it would not be believed any longer.
func TestWhatIsReadBeforeAVersionIsConfirmed(t *testing.T) {
	t.Parallel()
	st := NewStore(StoreOptions{Registerer: prometheus.NewRegistry()})
	st.Discovered(Identity{ClusterUUID: "u"}, []*Node{{ID: "n1"}}, nil)
	on := func(name string) Index { return indexOn(name, []string{"n1"}) }
	start := time.Now()
	unseen := func(version int64, at time.Duration, want ...string) {
		t.Helper()
		require.ElementsMatch(t, want, st.Unseen(version, start.Add(at)))
	}
	read := func(version int64, asked string, found ...Index) {
		st.PlacedSome(&Placement{ClusterUUID: "u", Version: version, Indices: found}, []string{asked})
	}
	st.PlacedAll(start, &Placement{ClusterUUID: "u", Version: 10, Indices: []Index{on("a"), on("b"), on("c")}})
	st.Snapshot().Use("a")
	unseen(10, time.Hour)
	unseen(11, 0, "a")
	read(11, "a", on("a"))
	unseen(11, 0)
	st.Confirmed("u", 11, start)
	st.Snapshot().Use("b")
	unseen(11, BelieveFor-1)
	unseen(11, BelieveFor, "b")
	unseen(12, time.Second, "a", "b")
	read(12, "a")
	read(12, "b", on("b"))
	unseen(12, time.Second, "a") // it may have been created again
	st.Confirmed("u", 12, start.Add(time.Second))
	unseen(12, BelieveFor)
	st.Snapshot().Use("c")
	unseen(12, BelieveFor, "c")
	st.Confirmed("u", 12, start.Add(BelieveFor)) // as where it could not be read
	require.False(t, st.Snapshot().Believes("c"))
	require.True(t, st.Snapshot().Believes("b"))
}

// What a relay told is believed for a while after it fell silent, and so is what is made up of it. By then what is in use is
// read.
func TestWhatARelayBelievedIsBelievedForAWhile(t *testing.T) {
	t.Parallel()
	st := NewStore(StoreOptions{Registerer: prometheus.NewRegistry()})
	st.Discovered(Identity{ClusterUUID: "u"}, []*Node{{ID: "n1"}}, nil)
	start, indices := time.Now(), []Index{indexOn("i", []string{"n1"}), indexOn("old", []string{"n1"})}
	st.PlacedAll(start, &Placement{ClusterUUID: "u", Version: 7, Indices: indices})
	st.Targets().LookedUp(LookUp{Target: Target{Expression: "alias"}}, &Resolved{Shards: []ShardName{{Index: "i"}}})
	st.PlacedByRelay(RelayedPlacement{Version: 7, AsOf: start.Add(-BelieveFor), Whole: true, Indices: indices, Stale: []bool{false, true}})
	st.ContinueRelayed()
	for _, target := range []string{"i", "alias"} {
		_, miss := st.Snapshot().Resolve(target, "")
		require.Equal(t, MissNone, miss, target)
	}
	require.False(t, st.Snapshot().Believes("old"))
	require.Empty(t, st.Unseen(7, start.Add(BelieveFor/3)))
	require.Equal(t, []string{"i"}, st.Unseen(7, start.Add(BelieveFor+time.Second)))
	st.Confirmed("u", 7, start.Add(BelieveFor+time.Second))
	for _, target := range []string{"i", "alias"} {
		_, miss := st.Snapshot().Resolve(target, "")
		require.Equal(t, MissUnknownTarget, miss, target)
	}
	st.PlacedSome(&Placement{ClusterUUID: "u", Version: 7, Indices: indices[:1]}, []string{"i"})
	for _, target := range []string{"i", "alias"} {
		_, miss := st.Snapshot().Resolve(target, "")
		require.Equal(t, MissNone, miss, target)
	}
}
