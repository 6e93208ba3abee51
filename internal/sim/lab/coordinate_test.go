package lab

import (
	"fmt"
	"math"
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

// Searches are coordinated by all nodes alike, by many clients that begin together, too: in no second is a node
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
			seconds, sums := float64(len(bySecond)), make([]float64, c.nodes)
			most, wavers := 0.0, 0.0
			for _, second := range bySecond {
				most = max(most, slices.Max(second)/mean(second))
				for i, used := range second {
					sums[i] += used
				}
			}
			for _, second := range bySecond {
				for i, used := range second {
					wavers = max(wavers, math.Abs(used*seconds/sums[i]-1))
				}
			}
			t.Logf("the node used most, by the mean: %.2f, in one second %.2f; from its own mean a node is off by %.0f %% at most",
				slices.Max(sums)/mean(sums), most, 100*wavers)
			require.LessOrEqual(t, slices.Max(sums), 1.3*mean(sums))
			require.LessOrEqual(t, most, 1.3)
			require.LessOrEqual(t, wavers, 0.25)
			if c.sidecars > 10 {
				return // what polls and probes of so many cost is not what this is about
			}
			_, n := run(t, sc, "round_robin", 1)
			require.LessOrEqual(t, m.numbers().P50, 1.1*n.P50)
			require.LessOrEqual(t, m.numbers().P99, 1.25*n.P99)
		})
	}
}

func mean(of []float64) float64 {
	sum := 0.0
	for _, v := range of {
		sum += v
	}
	return sum / float64(len(of))
}

// faultAt is when something goes wrong with a node of disturbed.
const faultAt = 5 * time.Second

// disturbed is coordinated, with something wrong with one node from a moment on.
func disturbed(nodes, sidecars int, set func(*node, bool)) Scenario {
	sc := coordinated(nodes, sidecars, 0.5)
	sc.warmup, sc.length = 3*time.Second, 9*time.Second
	sc.faults = []fault{{nodes: []int{badNode}, from: faultAt, to: forever, set: set}}
	return sc
}

// sends counts by half seconds since faultAt what a sidecar sends, and what it sends through badNode.
type sends struct {
	router
	c        *clock
	all, bad []int
}

func (r *sends) sent(s *search, t *try) {
	if at := int((r.c.now - faultAt) / (500 * time.Millisecond)); r.c.now >= faultAt && at < len(r.all) {
		r.all[at]++
		if t.coordinator == badNode {
			r.bad[at]++
		}
	}
	r.router.sent(s, t)
}

// A node that becomes slow coordinates next to nothing from a second later on. There are two exceptions. One of which all
// is slow answers polls and probes well while nothing is sent there: until it is ejected, some sidecars send it a small part of
// its share again. And a hundred sidecars send a node a search or less in a second each, and poll it as rarely: for up to 2 s
// some of them have not met it since.
func TestSlowCoordinatingNodeIsLeft(t *testing.T) {
	for _, c := range []struct {
		what string
		set  func(*node, bool)
		most float64 // of its share, in any second but the first; through a hundred sidecars, but the first two
	}{{"its HTTP side", httpLatency(300 * time.Millisecond), 0.01}, {"a tenth of its speed", slower(10), 0.1}} {
		for _, nodes := range []int{5, 50} {
			for _, sidecars := range []int{1, 10, 100} {
				t.Run(fmt.Sprintf("%s, %d nodes, %d sidecars", c.what, nodes, sidecars), func(t *testing.T) {
					t.Parallel()
					sc := disturbed(nodes, sidecars, c.set)
					list, err := pick([]string{own})
					require.NoError(t, err)
					w := newWorld(&sc, list[0], 1)
					all, bad := make([]int, 8), make([]int, 8)
					for i, r := range w.routers {
						w.routers[i] = &sends{router: r, c: &w.c, all: all, bad: bad}
					}
					require.Zero(t, w.run().failed)
					// share is the part of its share that the node got, from one half second to another.
					share := func(from, to int) float64 {
						through, sent := 0, 0
						for at := from; at < to; at++ {
							through, sent = through+bad[at], sent+all[at]
						}
						return float64(through*nodes) / float64(sent)
					}
					t.Logf("sent through the slow node, by its share, in the first second %.0f %%, in the second %.1f %%, in the third %.1f %%, in the fourth %.1f %%",
						100*share(0, 2), 100*share(2, 4), 100*share(4, 6), 100*share(6, 8))
					most := c.most
					if sidecars > 10 {
						most = 0.1
					}
					require.Less(t, share(2, 4), most)
					require.Less(t, max(share(4, 6), share(6, 8)), c.most)
				})
			}
		}
	}
}

// A coordinating node that dies costs no search.
func TestCoordinatingNodeThatDiesCostsNothing(t *testing.T) {
	for _, nodes := range []int{5, 50} {
		for _, sidecars := range []int{1, 10, 100} {
			_, m := use(t, disturbed(nodes, sidecars, missing), own, 1)
			t.Logf("%d nodes, %3d sidecars: %d of %d searches failed", nodes, sidecars, m.failed, m.latency.TotalCount())
			require.Zero(t, m.failed)
			require.Positive(t, m.latency.TotalCount())
		}
	}
}

// hops counts the requests of a sidecar by kind, and those of them for which something travelled from one node to another.
type hops struct {
	router
	from          time.Duration
	all, traveled [readByID + 1]int
}

func (h *hops) close(s *search) {
	if s.start >= h.from {
		h.all[s.kind]++
		if slices.ContainsFunc(s.tries, func(t *try) bool { return t.hops > 0 }) {
			h.traveled[s.kind]++
		}
	}
	h.router.close(s)
}

// countHops plays a cluster of 20 nodes of which as many searches of one shard as reads by id are asked, and returns of which
// part of each something travelled between nodes.
func countHops(t *testing.T, copies, sidecars int, load float64) (searches, reads float64) {
	t.Helper()
	sc := coordinated(20, sidecars, load)
	sc.shards, sc.copies, sc.byID, sc.length = 1, copies, 0.5, 9*time.Second
	list, err := pick([]string{own})
	require.NoError(t, err)
	w := newWorld(&sc, list[0], 1)
	var counted []*hops
	for i, r := range w.routers {
		counted = append(counted, &hops{router: r, from: sc.warmup})
		w.routers[i] = counted[i]
	}
	m := w.run()
	require.Zero(t, m.failed)
	part := func(k kind) float64 {
		all, traveled := 0, 0
		for _, h := range counted {
			all, traveled = all+h.all[k], traveled+h.traveled[k]
		}
		require.Greater(t, all, 10_000)
		return float64(traveled) / float64(all)
	}
	searches, reads = part(searchAll), part(readByID)
	t.Logf("something travels between nodes in %.2f %% of the searches of one shard and %.2f %% of the reads by id; p99 %.1f ms",
		100*searches, 100*reads, m.numbers().P99)
	return searches, reads
}

// Searches of one shard and reads by id go to the node that serves them, in a busy cluster, too: in 99 of 100 nothing travels
// between nodes. There are two exceptions. A search of one shard is left to the engine by a sidecar that sees little of
// what its nodes serve: for half of these the engine takes the other copy. And where a node that alone has the copies is
// full, as most are at load 0.9, all nodes take turns.
func TestWhatOneNodeCanAnswerStaysThere(t *testing.T) {
	const well, left, full = 0.01, 0.6, 0.97
	for _, c := range []struct {
		copies, sidecars int
		load             float64
		searches, reads  float64 // at most
	}{
		{1, 1, 0.5, well, well},
		{1, 10, 0.5, well, well},
		{1, 100, 0.5, well, well},
		{1, 1, 0.9, full, full},
		{1, 10, 0.9, full, full},
		{1, 100, 0.9, full, full},
		{2, 1, 0.5, well, well},
		{2, 1, 0.9, well, well},
		{2, 10, 0.5, left, well},
		{2, 10, 0.9, left, well},
		{2, 100, 0.5, left, well},
		{2, 100, 0.9, left, well},
	} {
		t.Run(fmt.Sprintf("%d copies, %d sidecars, load %.1f", c.copies, c.sidecars, c.load), func(t *testing.T) {
			t.Parallel()
			searches, reads := countHops(t, c.copies, c.sidecars, c.load)
			require.LessOrEqual(t, searches, c.searches)
			require.LessOrEqual(t, reads, c.reads)
		})
	}
}
