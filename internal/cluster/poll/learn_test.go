package poll

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

func TestLearn(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"}, []string{"n2"}), clustertest.Index("b", []string{"n3"})}
		f.Targets[cluster.Target{Expression: "alias", Routing: ""}] = []cluster.ShardName{{Index: "a", Number: 0}, {Index: "a", Number: 1}}
		f.Targets[cluster.Target{Expression: "alias", Routing: "r"}] = []cluster.ShardName{{Index: "a", Number: 1}}
		f.Targets[cluster.Target{Expression: "a", Routing: "r"}] = []cluster.ShardName{{Index: "a", Number: 1}}
		f.Targets[cluster.Target{Expression: "", Routing: ""}] = []cluster.ShardName{{Index: "a", Number: 0}, {Index: "a", Number: 1}, {Index: "b", Number: 0}}
		f.Targets[cluster.Target{Expression: "<x-{now/d}>", Routing: ""}] = []cluster.ShardName{{Index: "b", Number: 0}}
		f.Targets[cluster.Target{Expression: "red*", Routing: ""}] = []cluster.ShardName{{Index: "b", Number: 0}, {}}
	})
	w := watch(t, f, nil)
	w.Resolves("a", "", []string{"n1"}, []string{"n2"})
	for _, target := range []cluster.Target{{Expression: "alias", Routing: "r"}, {Expression: "a", Routing: "r"}, {Expression: "", Routing: ""}, {Expression: "<x-{now/d}>", Routing: ""}, {Expression: "red*", Routing: ""}, {Expression: "none*", Routing: ""}} {
		_, miss := w.Snapshot().Resolve(target.Expression, target.Routing)
		if target.Expression != "a" {
			require.Equal(t, cluster.MissUnknownTarget, miss, target)
		}
		w.Learn(target.Expression, target.Routing)
	}
	w.Resolves("alias", "r", []string{"n2"})
	w.Resolves("alias", "", []string{"n1"}, []string{"n2"}) // learned besides
	w.Resolves("a", "r", []string{"n2"})
	w.Resolves("", "", []string{"n1"}, []string{"n2"}, []string{"n3"})
	w.Resolves("<x-{now/d}>", "", []string{"n3"})
	w.MissIs("red*", "", cluster.MissShardUnavailable)
	w.MissIs("none*", "", cluster.MissEmptyTarget)

	// A relocation needs no learning.
	asked := f.Count("/alias/_search_shards")
	at := w.Snapshot().Version
	f.Change(func() { f.Indices[0] = clustertest.Index("a", []string{"n3"}, []string{"n2"}) })
	w.Eventually("moved", func() bool { return w.Snapshot().Version > at })
	require.Equal(t, [][]string{{"n3"}, {"n2"}}, clustertest.NodesOf(w.Snapshot(), "alias", ""))
	require.LessOrEqual(t, f.Count("/alias/_search_shards"), asked+2)
}

func TestTargetsInUseAreLearnedAgain(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"}), clustertest.Index("b", []string{"n2"})}
		f.Targets[cluster.Target{Expression: "used", Routing: ""}] = []cluster.ShardName{{Index: "a", Number: 0}}
		f.Targets[cluster.Target{Expression: "idle", Routing: ""}] = []cluster.ShardName{{Index: "a", Number: 0}}
	})
	w := watch(t, f, nil)
	w.Resolves("a", "", []string{"n1"})
	w.Learn("used", "")
	w.Learn("idle", "")
	w.Resolves("used", "", []string{"n1"})
	w.Eventually("idle is learned", func() bool { return f.Count("/idle/_search_shards") == 1 })
	f.Change(func() {
		f.Targets[cluster.Target{Expression: "used", Routing: ""}] = []cluster.ShardName{{Index: "a", Number: 0}, {Index: "b", Number: 0}}
	})
	w.Resolves("used", "", []string{"n1"}, []string{"n2"})
	require.Equal(t, 1, f.Count("/idle/_search_shards"))
	f.Change(func() { delete(f.Targets, cluster.Target{Expression: "used", Routing: ""}) })
	w.MissIs("used", "", cluster.MissEmptyTarget)
}

func TestTargetsThatAreRefused(t *testing.T) {
	t.Parallel()
	for body, result := range map[string]string{`{"error":{"type":"index_not_found_exception"},"status":404}`: "not_found", "<html>a gateway's own</html>": "refused"} {
		t.Run(result, func(t *testing.T) {
			t.Parallel()
			refusedWith(t, body, result)
		})
	}
}

// refusedWith requires that a target to which a 404 with such a body is answered is not looked up again while
// the cluster state stays.
func refusedWith(t *testing.T, body, result string) {
	t.Helper()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})} })
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/gone/_search_shards" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(body))
			return true
		}
		return false
	})
	w := watch(t, f, nil)
	w.Resolves("a", "", []string{"n1"})
	w.Eventually("it is known, and does not merely rest", func() bool {
		w.Learn("gone", "")
		return w.Metric("sidestep_cluster_learns_total", result) > 0
	})
	for range 100 {
		w.Learn("gone", "")
		time.Sleep(time.Millisecond)
	}
	require.Equal(t, 1, f.Count("/gone/_search_shards"), "not again at the same version")
	require.InDelta(t, 1, w.Metric("sidestep_cluster_learns_total", result), 0)
	w.MissIs("gone", "", cluster.MissUnknownTarget)
	f.On(nil)
	f.Change(func() {
		f.Targets[cluster.Target{Expression: "gone", Routing: ""}] = []cluster.ShardName{{Index: "a", Number: 0}}
	})
	w.Eventually("learned now", func() bool {
		w.Learn("gone", "")
		return len(clustertest.NodesOf(w.Snapshot(), "gone", "")) == 1
	})
}

func TestFailedLookUpsAreRepeatedOnDemand(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})}
		f.Targets[cluster.Target{Expression: "x", Routing: ""}] = []cluster.ShardName{{Index: "a", Number: 0}}
	})
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "_search_shards") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	w := watch(t, f, nil)
	w.Resolves("a", "", []string{"n1"})
	w.Learn("x", "")
	w.Eventually("asked", func() bool { return f.Count("/x/_search_shards") > 0 })
	f.On(nil)
	w.Eventually("learned", func() bool {
		w.Learn("x", "")
		return len(clustertest.NodesOf(w.Snapshot(), "x", "")) == 1
	})
}

func TestLearnBeforeAnythingIsKnown(t *testing.T) {
	t.Parallel()
	store := cluster.NewStore(cluster.StoreOptions{})
	c := New(store, Options{})
	store.Learn("x", "")
	c.RefreshPlacement()
	require.Zero(t, store.Targets().Waiting())
	require.EqualError(t, c.Ready(), "the cluster has not answered yet")
}

func TestParseSearchShardsRefuses(t *testing.T) {
	t.Parallel()
	for _, body := range []string{``, `{"shards":[[{"index":"i","shard":-1}]]}`, `{"shards":[[{"shard":1}]]}`, `{"shards":{}}`} {
		_, _, err := parseSearchShards(strings.NewReader(body))
		require.Error(t, err, body)
	}
	shards, incomplete, err := parseSearchShards(strings.NewReader(`{}`))
	require.NoError(t, err)
	require.False(t, incomplete)
	require.Empty(t, shards)
}
