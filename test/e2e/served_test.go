package e2e

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// explanation is what /explain shows, as far as it is looked at here.
type explanation struct {
	Steered bool     `json:"steered"`
	Summary string   `json:"summary"`
	Exact   bool     `json:"exact"`
	Nodes   []string `json:"nodes"`
	Shards  []struct {
		Index  string `json:"index"`
		Shard  int    `json:"shard"`
		Copies []struct {
			NodeID string `json:"node_id"`
			Listed bool   `json:"listed"`
		} `json:"copies"`
	} `json:"shards"`
}

func explain(t *testing.T, query string) (e explanation) {
	t.Helper()
	require.NoError(t, shared.sidestep.AdminJSON(t.Context(), "/explain?"+query, &e))
	return e
}

// The nodes' own counters say that the nodes sidestep named served, and no others.
func TestNodesNamedAreTheNodesThatServed(t *testing.T) {
	for _, tc := range []struct {
		search search
		shards int
	}{
		{search{target: "products", body: `{"size":3}`}, 5},
		{search{target: "single", body: `{"size":3}`}, 1},
		{search{target: "logs-*", body: `{"size":3}`}, 4},
		{search{target: "routed", query: "routing=alpha", body: `{"size":3}`}, 1},
		{search{target: "alphas", body: `{"size":3}`}, 1},
	} {
		t.Run(tc.search.target, func(t *testing.T) {
			awaitSteered(t, shared.sidestep.URL, tc.search)
			var got *answer
			servedAlone(t, 10, func() {
				got = through(t, tc.search)
				require.Equal(t, http.StatusOK, got.status, "%s", got.body)
			}, func(served map[string]int) { requireNamed(t, got.decision, tc.shards, served) })
		})
	}
}

// probes returns how many probes sidestep has sent, once none is under way.
func probes(t *testing.T) float64 {
	t.Helper()
	time.Sleep(50 * time.Millisecond)
	return sum(t, "sidestep_probes_total", nil)
}

// extras returns how many searches sidestep has sent beside those of clients, once no probe is under way: probes, and
// further attempts, which it also makes where a node is silent for a moment.
func extras(t *testing.T) float64 {
	t.Helper()
	sent := probes(t) + sum(t, "sidestep_failovers_total", nil)
	for _, result := range []string{"won", "lost"} {
		sent += sum(t, "sidestep_hedges_total", map[string]string{"result": result})
	}
	return sent
}

// servedAlone has what send sends served so many times and lets check look
// at how many shard queries each node served for it. Where searches of sidestep's own
// come in between, which the nodes count, too, it is sent again.
func servedAlone(t *testing.T, times int, send func(), check func(served map[string]int)) {
	t.Helper()
	sent, before := extras(t), queries(t)
	for measured, tries := 0, 0; measured < times; tries++ {
		require.Less(t, tries, 50, "sidestep's own searches are in between all the time")
		send()
		after := queries(t)
		if now := extras(t); now != sent {
			sent, before = now, queries(t) // the last one may not have been counted before
			continue
		}
		measured++
		check(served(before, after))
		before = after
	}
}

// requireNamed requires that so many shard queries were served, all by nodes that
// the decision names.
func requireNamed(t *testing.T, d harness.Decision, queries int, served map[string]int) {
	t.Helper()
	sum := 0
	for name, count := range served {
		require.Contains(t, d.Nodes, name, "a node that was not listed served")
		sum += count
	}
	require.Equal(t, queries, sum, "shards searched")
}

// /explain knows the copies that the engine itself reports.
func TestExplainKnowsTheCopies(t *testing.T) {
	for target, routing := range map[string]string{"products": "", "logs-*": "", "routed": "beta", "alphas": "", "catalog": ""} {
		t.Run(target, func(t *testing.T) {
			query, path := "target="+target, "/"+target+"/_search_shards?local=true"
			if routing != "" {
				query, path = query+"&routing="+routing, path+"&routing="+routing
			}
			require.Eventually(t, func() bool { e := explain(t, query); return e.Steered && e.Exact }, patience, 100*time.Millisecond)
			// The cluster may be moving a copy at that moment.
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				want := searchShards(t, c, path)
				got := make(map[shard][]string)
				for _, s := range explain(t, query).Shards {
					key, listed := shard{s.Index, s.Shard}, 0
					for _, copied := range s.Copies {
						got[key] = append(got[key], copied.NodeID)
						if copied.Listed {
							listed++
						}
					}
					slices.Sort(got[key])
					assert.Positive(c, listed, "shard %v has no copy on a listed node", key)
				}
				assert.Equal(c, want, got)
			}, patience, 100*time.Millisecond)
		})
	}
}

// shard is one shard of an index.
type shard struct {
	index  string
	number int
}

// searchShards returns the ids of the nodes with a copy of each shard, as the engine's path tells.
func searchShards(t *testing.T, c *assert.CollectT, path string) map[shard][]string {
	t.Helper()
	var shards struct {
		Shards [][]struct {
			Index string `json:"index"`
			Shard int    `json:"shard"`
			Node  string `json:"node"`
		} `json:"shards"`
	}
	require.NoError(c, shared.Cluster.Do(t.Context(), http.MethodGet, path, nil, &shards))
	nodes := make(map[shard][]string)
	for _, copies := range shards.Shards {
		for _, copied := range copies {
			key := shard{copied.Index, copied.Shard}
			nodes[key] = append(nodes[key], copied.Node)
			slices.Sort(nodes[key])
		}
	}
	return nodes
}

// When a client leaves, its search ends on the engine. Slow connections between
// the nodes keep the search going for as long as it takes to see that.
func TestCancelReachesTheEngine(t *testing.T) {
	learned(t, "products")
	for _, node := range shared.Cluster.Nodes {
		require.NoError(t, node.SlowTransport(20*time.Second, 0))
	}
	t.Cleanup(func() { // the others' delayed answers must not outlive the test
		require.NoError(t, shared.Cluster.ResetToxics(context.Background()))
	})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	failed := make(chan error, 1)
	go func() {
		_, err := send(ctx, shared.sidestep.URL, search{
			target: "products", body: `{"size":1}`, headers: map[string]string{"X-Opaque-Id": "cancelled"},
		})
		failed <- err
	}()
	require.Eventually(t, func() bool { running, _ := tasks(t, "cancelled"); return running > 0 }, 15*time.Second, 20*time.Millisecond,
		"the search did not start")
	leave()
	require.ErrorIs(t, <-failed, context.Canceled)
	require.Eventually(t, func() bool { running, cancelled := tasks(t, "cancelled"); return running == cancelled }, 15*time.Second, 20*time.Millisecond, // it would end by itself after 20 s
		"the search goes on although its client has left")
}

// tasks returns how many coordinating searches with the X-Opaque-Id run, and how
// many of them are cancelled but not gone yet. Each node is asked about itself.
func tasks(t *testing.T, opaqueID string) (running, cancelled int) {
	t.Helper()
	for _, node := range shared.Cluster.Nodes {
		var answer struct {
			Nodes map[string]struct {
				Tasks map[string]struct {
					Cancelled bool              `json:"cancelled"`
					Headers   map[string]string `json:"headers"`
				} `json:"tasks"`
			} `json:"nodes"`
		}
		require.NoError(t, node.Do(t.Context(), http.MethodGet, "/_tasks?nodes=_local&actions=indices:data/read/search", nil, &answer))
		for _, n := range answer.Nodes {
			for _, task := range n.Tasks {
				if task.Headers["X-Opaque-Id"] != opaqueID {
					continue
				}
				running++
				if task.Cancelled {
					cancelled++
				}
			}
		}
	}
	return running, cancelled
}
