package e2e

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// sum reads a metric of the shared sidestep.
func sum(t *testing.T, metric string, labels map[string]string) float64 {
	t.Helper()
	return sumOf(t, shared.sidestep, metric, labels)
}

// sumOf reads a metric of a sidestep.
func sumOf(t *testing.T, f *harness.Front, metric string, labels map[string]string) float64 {
	t.Helper()
	value, err := f.Sum(t.Context(), metric, labels)
	require.NoError(t, err)
	return value
}

func refreshes(t *testing.T, source, result string) float64 {
	t.Helper()
	return sum(t, "sidestep_cluster_placement_refreshes_total", map[string]string{"source": source, "result": result})
}

func TestWholePlacement(t *testing.T) {
	require.Positive(t, refreshes(t, "routing_table", "ok"))
	var version struct {
		Version int64 `json:"version"`
	}
	require.NoError(t, shared.Cluster.Do(t.Context(), http.MethodGet, "/_cluster/state/version?local=true", nil, &version))
	require.Positive(t, version.Version)
	placed(t)
}

// placed waits until sidestep knows as many copies as the engine: what other tests
// created and deleted is seen.
func placed(t *testing.T) {
	t.Helper()
	unsettled := func(state string) float64 {
		return sum(t, "sidestep_cluster_placement_unsettled_copies", map[string]string{"state": state})
	}
	require.Eventually(t, func() bool {
		var rows []map[string]any
		require.NoError(t, shared.Cluster.Do(t.Context(), http.MethodGet, "/_cat/shards?format=json&h=index", nil, &rows))
		return int(sum(t, "sidestep_cluster_placement_copies", nil)+unsettled("unassigned")+unsettled("initializing")) == len(rows)
	}, patience, 100*time.Millisecond)
}

// copiesOf returns the nodes of a shard's copies, by id: as the engine says, and as
// sidestep does.
func copiesOf(t *testing.T, index string, number int) (engine, ours []string) {
	t.Helper()
	var state struct {
		Routing struct {
			Indices map[string]struct {
				Shards map[string][]struct {
					Node string `json:"node"`
				} `json:"shards"`
			} `json:"indices"`
		} `json:"routing_table"`
	}
	require.NoError(t, shared.Cluster.Do(t.Context(), http.MethodGet, "/_cluster/state/routing_table/"+index, nil, &state))
	for _, c := range state.Routing.Indices[index].Shards[strconv.Itoa(number)] {
		engine = append(engine, c.Node)
	}
	for _, s := range explain(t, "target="+index).Shards {
		if s.Shard == number {
			for _, c := range s.Copies {
				ours = append(ours, c.NodeID)
			}
		}
	}
	slices.Sort(engine)
	slices.Sort(ours)
	return engine, ours
}

// A copy that moves is followed by asking for the indices in use alone, and a new
// index is found when it is first searched.
func TestPlacementOfIndicesInUseIsFollowed(t *testing.T) {
	learned(t, "products")
	before := refreshes(t, "in_use", "ok")
	index := harness.Index{Name: "placed-lately", Shards: 2, Replicas: 1, Docs: 50, Seed: 9}
	require.NoError(t, shared.Cluster.CreateIndex(t.Context(), index))
	t.Cleanup(func() { change(t, http.MethodDelete, "/placed-lately", nil) })
	learned(t, "placed-lately")
	require.Eventually(t, func() bool { return refreshes(t, "in_use", "ok") > before }, patience, 100*time.Millisecond)

	held, _ := copiesOf(t, "products", 0)
	require.Len(t, held, 2)
	free := ""
	for _, n := range shared.Cluster.Nodes {
		if !slices.Contains(held, n.ID) {
			free = n.ID
		}
	}
	move := map[string]any{"commands": []any{map[string]any{"move": map[string]any{"index": "products", "shard": 0, "from_node": held[0], "to_node": free}}}}
	change(t, http.MethodPost, "/_cluster/reroute", move)
	require.NoError(t, shared.Cluster.WaitGreen(t.Context(), "products"))
	require.Eventually(t, func() bool {
		require.Equal(t, http.StatusOK, through(t, search{target: "products", body: `{"size":0}`}).status)
		engine, ours := copiesOf(t, "products", 0)
		return slices.Equal(engine, ours)
	}, patience, 100*time.Millisecond)
}

// While a node stands still the placement stays fresh, and what waits for the node
// does not pile up.
func TestStoppedNodeLeavesThePlacementFresh(t *testing.T) {
	learned(t, "products")
	order, err := shared.Cluster.ElectedLast(t.Context())
	require.NoError(t, err)
	stopped := order[0]
	if stopped == shared.Cluster.Nodes[0] { // it is the one that tests ask
		stopped = order[1]
	}
	goroutines, files := sum(t, "go_goroutines", nil), sum(t, "process_open_fds", nil)
	require.Positive(t, files)
	require.NoError(t, stopped.Pause())
	t.Cleanup(func() {
		require.NoError(t, stopped.Resume())
		require.NoError(t, shared.Cluster.WaitGreen(context.WithoutCancel(t.Context()), ""))
		allFine(t)
	})
	// The version moves at once; the answer waits no longer for the node that stands still.
	change(t, http.MethodPut, "/products/_alias/while-one-stands-still?timeout=1s", nil)
	last, oldest, most, opened := math.Inf(1), 0.0, 0.0, 0.0
	confirmed := 0 // each time it is younger than before
	for end := time.Now().Add(patience); confirmed < 8 && time.Now().Before(end); {
		age := sum(t, "sidestep_cluster_placement_age_seconds", nil)
		if age < last {
			confirmed++
		}
		last, oldest = age, max(oldest, age)
		most, opened = max(most, sum(t, "go_goroutines", nil)-goroutines), max(opened, sum(t, "process_open_fds", nil)-files)
		require.LessOrEqual(t, most, 60.0, "goroutines")
		require.LessOrEqual(t, opened, 30.0, "open files")
		require.NoError(t, harness.Pause(t.Context(), 250*time.Millisecond))
	}
	t.Logf("oldest placement %.2f s, %.0f more goroutines and %.0f more files at most", oldest, most, opened)
	// The cluster loses patience with it after half a minute. Then there is nothing to wait for.
	var health struct {
		Nodes int `json:"number_of_nodes"`
	}
	require.NoError(t, shared.Cluster.Do(t.Context(), http.MethodGet, "/_cluster/health?local=true", nil, &health))
	require.Len(t, shared.Cluster.Nodes, health.Nodes, "the placement was confirmed %d times only while the node was there", confirmed)
}

// fineNodes returns how many nodes a sidestep knows, and with how many it finds nothing wrong.
func fineNodes(ctx context.Context, f *harness.Front) (known, fine int, err error) {
	var nodes []struct{ State string }
	err = f.AdminJSON(ctx, "/nodes", &nodes)
	for _, n := range nodes {
		if n.State == "fine" {
			fine++
		}
	}
	return len(nodes), fine, err
}

// allFine waits until sidestep finds nothing wrong with any node: tests that come
// later count on it.
func allFine(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		known, fine, err := fineNodes(context.WithoutCancel(t.Context()), shared.sidestep)
		return err == nil && fine == known
	}, patience, 200*time.Millisecond, "a node that stood still is not fine again")
}
