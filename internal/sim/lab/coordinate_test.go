package lab

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// coordinated is a cluster whose searches cost their coordinating node a third of all CPU, as
// those of Elasticsearch 9.2 do that find ten small documents.
func coordinated(nodes, sidecars int, load float64) Scenario {
	sc := base("coordinated", "")
	sc.machine = machine{cpus: 2, threads: 4, queue: 1000}
	sc.nodes, sc.indices, sc.sidecars, sc.load = nodes, nodes, sidecars, load
	sc.demand, sc.reduce = 2*time.Millisecond, 5*time.Millisecond
	sc.warmup, sc.length = 5*time.Second, 15*time.Second
	return sc
}

// use plays a scenario and returns the utilisation of each node by second of the measured
// window.
func use(t *testing.T, sc Scenario, policy string, seed uint64) (utilisation [][]float64, m *measure) {
	t.Helper()
	list, err := pick([]string{policy})
	require.NoError(t, err)
	w := newWorld(&sc, list[0], seed)
	before := make([]float64, len(w.nodes))
	for at := sc.warmup; at <= sc.length; at += time.Second {
		w.c.at(at, func() {
			var now []float64
			for i, n := range w.nodes {
				n.settle()
				n.plan()
				now = append(now, (n.busy-before[i])/n.cpus)
				before[i] = n.busy
			}
			if at > sc.warmup {
				utilisation = append(utilisation, now)
			}
		})
	}
	return utilisation, w.run()
}

// Searches are coordinated by all nodes alike, by many clients that begin together, too: no node is
// used more than 1.3 times as much as the mean, from one second to the next none is used far more
// or less, and searches take no longer than where clients go round robin.
func TestCoordinationIsSpread(t *testing.T) {
	for _, c := range []struct {
		nodes, sidecars int
		load            float64
	}{
		{5, 1, 0.5}, {5, 1, 0.9}, {5, 10, 0.5}, {5, 10, 0.9}, {5, 100, 0.5}, {5, 100, 0.9},
		{50, 1, 0.5}, {50, 1, 0.9}, {50, 10, 0.5}, {50, 10, 0.9}, {50, 100, 0.5}, {50, 100, 0.9},
	} {
		t.Run(fmt.Sprintf("%d nodes, %d sidecars, load %.1f", c.nodes, c.sidecars, c.load), func(t *testing.T) {
			t.Parallel()
			sc := coordinated(c.nodes, c.sidecars, c.load)
			if c.nodes > 5 {
				sc.length = 10 * time.Second
			}
			bySecond, m := use(t, sc, own, 1)
			sums, all := make([]float64, c.nodes), 0.0
			for _, second := range bySecond {
				for i, used := range second {
					sums[i] += used
					all += used
				}
			}
			mean := all / float64(c.nodes)
			require.LessOrEqual(t, slices.Max(sums), 1.3*mean)
			for _, second := range bySecond {
				for i, used := range second {
					require.InEpsilon(t, sums[i]/float64(len(bySecond)), used, 0.4, "node %d", i)
				}
			}
			if c.sidecars > 10 {
				return // what polls and probes of so many cost is not what this is about
			}
			_, n := run(t, sc, "round_robin", 1)
			require.LessOrEqual(t, m.numbers().P50, 1.1*n.P50)
			require.LessOrEqual(t, m.numbers().P99, 1.25*n.P99)
		})
	}
}

// disturbed is coordinated, with something wrong with one node from the middle on.
func disturbed(sidecars int, set func(*node, bool)) Scenario {
	sc := coordinated(5, sidecars, 0.5)
	sc.faults = []fault{{nodes: []int{badNode}, from: 8 * time.Second, to: forever, set: set}}
	return sc
}

// A node whose HTTP side becomes slow coordinates next to nothing a second later.
func TestSlowCoordinatingNodeIsLeft(t *testing.T) {
	for _, sidecars := range []int{1, 10, 100} {
		sc := disturbed(sidecars, httpLatency(300*time.Millisecond))
		list, err := pick([]string{own})
		require.NoError(t, err)
		w := newWorld(&sc, list[0], 1)
		through := make([]int, sc.nodes)
		// What reaches the node now was sent 300 ms ago.
		for at := 9400 * time.Millisecond; at < sc.length; at += 10 * time.Millisecond {
			w.c.at(at, func() {
				for i, c := range w.coordinators {
					through[i] += len(c.gathers)
				}
			})
		}
		m := w.run()
		require.Zero(t, m.failed)
		total := 0
		for _, n := range through {
			total += n
		}
		require.Less(t, through[badNode], total/100, "%d sidecars: %v", sidecars, through)
	}
}

// A coordinating node that dies costs no search.
func TestCoordinatingNodeThatDiesCostsNothing(t *testing.T) {
	for _, sidecars := range []int{1, 10} {
		_, m := use(t, disturbed(sidecars, missing), own, 1)
		require.Zero(t, m.failed)
		require.Positive(t, m.latency.TotalCount())
	}
}

// nearness counts the searches that a sidecar sends to a node that has no copy of what they
// search.
type nearness struct {
	router
	w         *world
	near, far int
}

func (r *nearness) sent(s *search, t *try) {
	copies := r.w.shards[s.shards[0]]
	if slices.Contains(copies, t.coordinator) && (t.listed == nil || slices.Contains(t.listed, t.coordinator)) {
		r.near++
	} else {
		r.far++
	}
	r.router.sent(s, t)
}

// A search of one shard goes to the node that serves it, in a busy cluster, too: nothing travels
// between nodes.
func TestSearchesOfOneShardGoToTheirCopy(t *testing.T) {
	for _, c := range []struct {
		copies, sidecars int
		load             float64
	}{{1, 1, 0.5}, {2, 1, 0.5}, {2, 10, 0.5}, {2, 1, 0.9}, {2, 10, 0.9}} {
		sc := coordinated(20, c.sidecars, c.load)
		sc.shards, sc.copies = 1, c.copies
		list, err := pick([]string{own})
		require.NoError(t, err)
		w := newWorld(&sc, list[0], 1)
		var counted []*nearness
		for i, r := range w.routers {
			counted = append(counted, &nearness{router: r, w: w})
			w.routers[i] = counted[i]
		}
		m := w.run()
		require.Zero(t, m.failed)
		near, far := 0, 0
		for _, r := range counted {
			near, far = near+r.near, far+r.far
		}
		require.Greater(t, near, 10_000)
		require.LessOrEqual(t, far, near/100, "%+v", c)
	}
}
