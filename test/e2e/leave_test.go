package e2e

import (
	"context"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// clientLoad is what clients saw that search one after the other.
type clientLoad struct {
	mu     sync.Mutex
	failed []string
	// answered counts searches, listed those by node that was listed.
	answered int
	listed   map[string]int
}

// keepSearching has clients search until the function returned is called. What failed is
// to be looked at after that.
func keepSearching(t *testing.T, base string, clients int) (load *clientLoad, end func()) {
	t.Helper()
	load = &clientLoad{listed: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				answer, err := send(context.WithoutCancel(ctx), base, search{target: "products", body: `{"size":1}`})
				load.add(answer, err)
				time.Sleep(20 * time.Millisecond) // what is waited for needs the CPU, too
			}
		})
	}
	end = func() { cancel(); all.Wait() }
	t.Cleanup(end)
	return load, end
}

func (l *clientLoad) add(a *answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.failed = append(l.failed, err.Error())
	case a.status != http.StatusOK || harness.Partial(a.body):
		l.failed = append(l.failed, strconv.Itoa(a.status)+" "+string(a.body))
	default:
		l.answered++
		for _, name := range a.decision.Nodes {
			l.listed[name]++
		}
	}
}

// next waits until so many more searches listed a node.
func (l *clientLoad) next(t *testing.T, node string, count int) {
	t.Helper()
	listed := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.listed[node]
	}
	until := listed() + count
	require.Eventually(t, func() bool { return listed() >= until }, patience, 10*time.Millisecond)
}

// more waits until so many more searches were answered.
func (l *clientLoad) more(t *testing.T, count int) {
	t.Helper()
	answered := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.answered
	}
	until := answered() + count
	require.Eventually(t, func() bool { return answered() >= until }, patience, 10*time.Millisecond)
}

// forget forgets which nodes were listed.
func (l *clientLoad) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.listed)
}

// named reports whether a node was listed since, by name.
func (l *clientLoad) named(node string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listed[node] > 0
}

// leavingNodes returns how nodes are said to leave, by name.
func leavingNodes(t *testing.T, f *harness.Front) map[string]string {
	t.Helper()
	var nodes []struct {
		Name    string `json:"name"`
		Leaving string `json:"leaving"`
	}
	require.NoError(t, f.AdminJSON(t.Context(), "/nodes", &nodes))
	found := map[string]string{}
	for _, n := range nodes {
		if n.Leaving != "" {
			found[n.Name] = n.Leaving
		}
	}
	return found
}

// putSettings changes settings of the cluster. Null removes one.
func putSettings(ctx context.Context, t *testing.T, settings map[string]any) {
	t.Helper()
	require.NoError(t, shared.Cluster.Do(ctx, http.MethodPut, "/_cluster/settings", map[string]any{"persistent": settings}, nil))
}

// leaver is a sidestep that reads every second which nodes are to leave, under load, until the
// function returned is called: none of the searches may have failed.
func leaver(t *testing.T) (f *harness.Front, load *clientLoad, node string, end func()) {
	t.Helper()
	f = startBefore(t, shared.Cluster, harness.Always+"cluster: {discovery_interval: 1s}\n")
	require.NoError(t, f.AwaitReady(t.Context()))
	load, stop := keepSearching(t, f.URL, 4)
	node = shared.Cluster.Nodes[1].Name
	load.next(t, node, 20)
	return f, load, node, func() {
		t.Helper()
		stop()
		require.Empty(t, load.failed)
	}
}

// A drained node under load gets no new search, and none fails. Its own counters say so, too.
func TestDrainUnderLoad(t *testing.T) {
	f, load, node, end := leaver(t)
	drain := func(length string) {
		status, body, err := f.Admin(t.Context(), http.MethodPut, "/-/drain", `{"node":"`+node+`","for":"`+length+`"}`)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, "%s", body)
	}
	drain("10m")
	requireSpared(t, f, load, node)
	require.Equal(t, map[string]string{node: "drained"}, leavingNodes(t, f))
	drain("0s")
	load.next(t, node, 20)
	end()
}

// A rolling restart as operations.md has it, of one node, with the selection as it is by default. From a second after the
// command on, the node serves nothing but probes. It is searched again when it is back, although
// the mark was for longer. No search fails.
func TestDrainAndRestartUnderLoad(t *testing.T) {
	const enable = "cluster.routing.allocation.enable"
	f := startBefore(t, shared.Cluster, "cluster: {discovery_interval: 1s}\n")
	require.NoError(t, f.AwaitReady(t.Context()))
	load, stop := keepSearching(t, f.URL, 4)
	node := shared.Cluster.Nodes[1]
	searched := func() {
		t.Helper()
		before := queries(t)[node.Name]
		require.Eventually(t, func() bool { return queries(t)[node.Name] >= before+20 }, patience, 100*time.Millisecond)
	}
	searched()
	t.Cleanup(func() { putSettings(context.Background(), t, map[string]any{enable: nil}) })
	putSettings(t.Context(), t, map[string]any{enable: "primaries"})

	out, err := exec.CommandContext(t.Context(), shared.Binary, "drain", node.Name, "--admin", f.AdminURL).CombinedOutput()
	require.NoError(t, err, "%s", out)
	time.Sleep(time.Second)
	requireSpared(t, f, load, node.Name)
	require.Equal(t, map[string]string{node.Name: "drained"}, leavingNodes(t, f))

	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	require.NoError(t, node.Terminate(ctx))
	load.more(t, 50)
	require.NoError(t, node.Restart(ctx))
	putSettings(ctx, t, map[string]any{enable: nil})
	require.NoError(t, shared.Cluster.WaitGreen(ctx, ""))
	require.Eventually(t, func() bool { return len(leavingNodes(t, f)) == 0 }, patience, 50*time.Millisecond, "the mark is forgotten")
	searched()
	stop()
	require.Empty(t, load.failed)
	allFine(t)
}

// idle reports whether neither sidestep nor the engine knows of a search in flight on a node.
func idle(t *testing.T, f *harness.Front, node string) bool {
	t.Helper()
	var nodes []struct {
		Name                      string
		Outstanding, Coordinating int
	}
	require.NoError(t, f.AdminJSON(t.Context(), "/nodes", &nodes))
	for _, n := range nodes {
		if n.Name == node && n.Outstanding+n.Coordinating > 0 {
			return false
		}
	}
	return counts(t, "search", "query_current")[node]+counts(t, "search", "fetch_current")[node] == 0
}

// requireSpared requires that a node serves nothing but probes while clients search. Searches count that all
// nodes were well for: where another one is out, or keeps a search waiting, a shard's last copy may be on this one.
func requireSpared(t *testing.T, f *harness.Front, load *clientLoad, node string) {
	t.Helper()
	probed := func() int { return int(probes(t) + sumOf(t, f, "sidestep_probes_total", nil)) }
	again := func() float64 {
		return sumOf(t, f, "sidestep_failovers_total", nil) + sumOf(t, f, "sidestep_hedges_total", nil)
	}
	fine := func() bool {
		_, fine, err := fineNodes(t.Context(), f)
		require.NoError(t, err)
		return fine == len(shared.Cluster.Nodes)
	}
	require.Eventually(t, func() bool { return idle(t, f, node) }, patience, 10*time.Millisecond, "what was in flight is no new search")
	counted := 0
	for range 100 {
		load.forget()
		began, well, repeated, sent, before := time.Now(), fine(), again(), probed(), queries(t)[node]
		load.more(t, 50)
		served := queries(t)[node] - before
		sent = probed() - sent
		changes, err := f.StateChanges(began)
		require.NoError(t, err)
		if well && fine() && len(changes) == 0 && again() == repeated {
			require.LessOrEqual(t, served, sent, "searches on %s, and probes", node)
			require.False(t, load.named(node))
			counted++
		}
		if counted == 4 {
			return
		}
	}
	require.Fail(t, "a node is always out")
}

// A node that is excluded from allocation is about to leave, until it is not excluded any more.
// Its copies stay where they are here, as those of other tests.
func TestExcludedNodeIsAboutToLeave(t *testing.T) {
	const enable, exclusion = "cluster.routing.allocation.enable", "cluster.routing.allocation.exclude."
	putSettings(t.Context(), t, map[string]any{enable: "none"})
	f, load, node, end := leaver(t)
	about := []string{"_name", "_id"}
	t.Cleanup(func() {
		all := map[string]any{enable: nil}
		for _, key := range about {
			all[exclusion+key] = nil
		}
		putSettings(context.Background(), t, all)
	})
	for i, value := range []string{"gone-*," + node, shared.Cluster.NodeByName(node).ID} {
		putSettings(t.Context(), t, map[string]any{exclusion + about[i]: value})
		require.Eventually(t, func() bool { return leavingNodes(t, f)[node] == "excluded" }, patience, 50*time.Millisecond)
		other := slices.IndexFunc(shared.Cluster.Nodes, func(n *harness.Node) bool { return n.Name != node })
		load.next(t, shared.Cluster.Nodes[other].Name, 20)
		used := true
		// Searches count that all nodes were well for: where another one is out, a shard's last copy
		// may be on the excluded one.
		require.Eventually(t, func() bool {
			_, before, err := fineNodes(t.Context(), f)
			require.NoError(t, err)
			load.forget()
			load.next(t, shared.Cluster.Nodes[other].Name, 50)
			used = load.named(node)
			_, after, err := fineNodes(t.Context(), f)
			require.NoError(t, err)
			return min(before, after) == len(shared.Cluster.Nodes)
		}, patience, 10*time.Millisecond)
		require.False(t, used)
		putSettings(t.Context(), t, map[string]any{exclusion + about[i]: nil})
		require.Eventually(t, func() bool { return len(leavingNodes(t, f)) == 0 }, patience, 50*time.Millisecond)
		load.next(t, node, 20)
	}
	end()
}

// A node of which OpenSearch decommissions the zone is about to leave while it drains. OpenSearch demands weights before: while
// these are strict, searches pass; they are not sent through the node. No search fails.
func TestDecommissionedNodeIsAboutToLeave(t *testing.T) {
	if lacks(t, "weighted routing", search{path: zoneWeights}) {
		return
	}
	putSettings(t.Context(), t, map[string]any{"cluster.routing.allocation.enable": "none"})
	t.Cleanup(func() {
		putSettings(context.Background(), t, map[string]any{"cluster.routing.allocation.enable": nil})
		allFine(t)
	})
	weighZones(t)
	const decommission = "/_cluster/decommission/awareness"
	change(t, http.MethodPut, decommission+"/zone/c?delay_timeout=60m", nil)
	t.Cleanup(func() { change(t, http.MethodDelete, decommission, nil) })
	f := startBefore(t, shared.Cluster, "cluster: {discovery_interval: 1s}\n") // its first questions are asked at once
	require.NoError(t, f.AwaitReady(t.Context()))
	node := shared.Cluster.Nodes[2].Name
	require.Eventually(t, func() bool { return leavingNodes(t, f)[node] == "decommissioned" }, patience, 50*time.Millisecond)
	for range 50 {
		got, err := send(t.Context(), f.URL, search{target: "products", body: `{"size":1}`})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		require.False(t, harness.Partial(got.body))
		require.NotEmpty(t, got.decision.Coordinator)
		require.NotEqual(t, node, got.decision.Coordinator)
	}
	require.Equal(t, map[string]string{node: "decommissioned"}, leavingNodes(t, f))
}
