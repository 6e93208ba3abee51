package lab

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// draws is how many scenarios the distributions are seen in.
const draws = 5000

// share requires that a part of the draws is near what it should be: within five
// deviations.
func share(t *testing.T, what string, count, of int, want float64) {
	t.Helper()
	deviation := math.Sqrt(want * (1 - want) / float64(of))
	require.InDelta(t, want, float64(count)/float64(of), 5*deviation, what)
}

// thirds requires that values are spread evenly over low to high.
func thirds(t *testing.T, what string, values []float64, low, high float64) {
	t.Helper()
	var counts [3]int
	for _, v := range values {
		require.GreaterOrEqual(t, v, low, what)
		require.LessOrEqual(t, v, high, what)
		counts[min(2, int(3*((v-low)/(high-low))))]++
	}
	for _, c := range counts {
		share(t, what, c, len(values), 1.0/3)
	}
}

// logs returns the logarithms of values.
func logs(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = math.Log(v)
	}
	return out
}

func TestClustersAreDrawnAsTheTableSays(t *testing.T) {
	counts := map[string]int{}
	sidecars := map[int]int{}
	var loads, means, sigmas, tiers []float64
	replicas, indices := map[int]int{}, 0
	for seed := range uint64(draws) {
		d := drawCluster(seed)
		count := func(what string, is bool) {
			if is {
				counts[what]++
			}
		}
		require.True(t, d.DataNodes >= 2 && d.DataNodes <= 100)
		require.True(t, d.CPUs >= 2 && d.CPUs <= 16)
		require.True(t, len(d.Indices) >= 1 && len(d.Indices) <= 40)
		count("14 nodes or fewer", d.DataNodes <= 14)
		count("managers", d.Managers == 3)
		count("coordinating only", d.CoordinatingOnly > 0)
		count("two tiers", d.SlowNodes > 0)
		count("told", d.Told)
		count(openSearch, d.Engine == openSearch)
		sidecars[d.Sidecars]++
		loads = append(loads, d.Load)
		for _, i := range d.Indices {
			require.True(t, i.Shards >= 1 && i.Shards <= 50)
			replicas[i.Replicas]++
			indices++
		}
		counts["tenants "+string(rune('0'+len(d.Tenants)))]++
		for _, o := range d.Tenants {
			means, sigmas = append(means, o.Mean), append(sigmas, o.Sigma)
			require.NotEmpty(t, o.Indices)
		}
		if d.SlowNodes > 0 {
			require.Less(t, d.SlowNodes, d.DataNodes)
			tiers = append(tiers, d.SlowTier)
		}
	}
	share(t, "log-uniform nodes", counts["14 nodes or fewer"], draws, math.Log(15.0/2)/math.Log(101.0/2))
	share(t, "managers", counts["managers"], draws, 1.0/3)
	share(t, "coordinating only", counts["coordinating only"], draws, 1.0/5)
	share(t, "two tiers", counts["two tiers"], draws, 1.0/3)
	share(t, "told", counts["told"], draws, 0.5)
	share(t, openSearch, counts[openSearch], draws, 0.5)
	for _, n := range []int{1, 3, 10, 30, 100} {
		share(t, "sidecars", sidecars[n], draws, 1.0/5)
	}
	for n := range 4 {
		share(t, "tenants", counts["tenants "+string(rune('1'+n))], draws, 1.0/4)
	}
	share(t, "one replica", replicas[1], indices, 0.5)
	for _, n := range []int{0, 2, 3} {
		share(t, "replicas", replicas[n], indices, 1.0/6)
	}
	thirds(t, "load", loads, 0.1, 1.1)
	thirds(t, "shard query", logs(means), math.Log(0.5), math.Log(200))
	thirds(t, "sigma", sigmas, 0.3, 1.2)
	thirds(t, "slower tier", tiers, 2, 4)
}

func TestFaultsAreDrawnAsTheTableSays(t *testing.T) {
	none, two, faults := 0, 0, 0
	kinds := map[string]int{}
	var factors, latencies []float64
	for seed := range uint64(draws) {
		d := drawCluster(seed)
		// Where the copies are matters to the faults of one index alone.
		d.Indices = d.Indices[:1]
		d.Indices[0].Shards = 1
		d.drawFaults(stream(seed, faultsStream), layOut(d, stream(seed, layoutStream)))
		switch len(d.Faults) {
		case 0:
			none++
			require.Equal(t, faultNone, d.fault())
		case 2:
			two++
			require.NotEqual(t, d.Faults[0].Kind, d.Faults[1].Kind)
		}
		for _, f := range d.Faults {
			faults++
			kinds[f.Kind]++
			require.NotEmpty(t, f.Nodes)
			require.IsIncreasing(t, append([]int{-1}, f.Nodes...))
			require.Less(t, f.Nodes[len(f.Nodes)-1], d.DataNodes)
			switch f.Kind {
			case faultCollections:
				require.Len(t, f.Nodes, d.DataNodes)
				require.Equal(t, 150.0, f.On)
				continue
			case faultSlow:
				factors = append(factors, f.Factor)
			case faultLatency:
				latencies = append(latencies, f.Delay)
			}
			require.LessOrEqual(t, len(f.Nodes), max(1, d.DataNodes/3))
		}
	}
	share(t, "none", none, draws, 0.25)
	share(t, "two", two, draws-none, 0.5)
	for _, k := range faultKinds() {
		share(t, k, kinds[k], faults, 1/float64(len(faultKinds())))
	}
	thirds(t, "factor", logs(factors), math.Log(2), math.Log(20))
	thirds(t, "latency", logs(latencies), math.Log(20), math.Log(500))
}

func TestScenarioIsAPureFunctionOfItsSeed(t *testing.T) {
	for seed := range uint64(50) {
		once, again := drawScenario(seed), drawScenario(seed)
		require.Equal(t, once, again)
		require.Equal(t, layOut(drawCluster(seed), stream(seed, layoutStream)).shards, drawScenario(seed).scenario(seed).laid.shards)
	}
	require.NotEqual(t, drawScenario(1), drawScenario(2))
}

func TestCopiesAreBalanced(t *testing.T) {
	for seed := range uint64(100) {
		d := drawScenario(seed)
		l := layOut(d, stream(seed, layoutStream))
		for i := range d.Indices {
			low, high := d.nodesOf(&d.Indices[i])
			on := make([]int, d.DataNodes)
			from, to := l.of(i)
			for _, copies := range l.shards[from:to] {
				require.Len(t, copies, d.Indices[i].Replicas+1)
				require.Len(t, slices.Compact(slices.Sorted(slices.Values(copies))), len(copies), "two copies on one node")
				for _, n := range copies {
					on[n]++
				}
			}
			for n, c := range on {
				require.False(t, c > 0 && (n < low || n >= high), "an index is on one tier")
			}
		}
	}
}

// capacityOf is the capacity of a small cluster without reads by id.
func capacityOf(d *Draw, shards [][]int) float64 {
	l := &layout{draw: d, shards: shards, first: []int{0}}
	return l.capacity(d.CPUs)
}

func TestCapacityIsThatOfTheBestUse(t *testing.T) {
	d := &Draw{
		DataNodes: 2, CPUs: 2, Indices: []DrawnIndex{{Shards: 1}},
		Tenants: []DrawnTenant{{Share: 1, Mean: 100, OneShard: 1, Indices: []int{0}}},
	}
	beside := reduceSearch + reduceShard
	require.InEpsilon(t, 2/(0.1+beside/2), capacityOf(d, [][]int{{0}}), 1e-6, "one copy: its node's two CPUs")
	require.InEpsilon(t, 4/(0.1+beside), capacityOf(d, [][]int{{0, 1}}), 1e-6, "two copies: both nodes'")
	d.SlowNodes, d.SlowTier = 1, 4
	require.InEpsilon(t, 2.5/(0.1+beside), capacityOf(d, [][]int{{0, 1}}), 1e-3, "a slow node takes its part")
	d.SlowNodes, d.DataNodes = 0, 3
	d.Indices[0].Shards = 2
	// The shard with two copies leaves node 0, which has all of the other, alone.
	require.InEpsilon(t, 2/(0.05+beside/3), capacityOf(d, [][]int{{0}, {0, 1}}), 1e-3)
}

// At 130 % of the capacity a cluster that nothing is wrong with falls behind, at 60 % it
// does not.
func TestCapacityIsWhereTheEngineIsSaturated(t *testing.T) {
	tried := 0
	for seed := uint64(1); tried < 6; seed++ {
		d := drawScenario(seed)
		if d.DataNodes > 12 || d.Rate > 2000 || d.Rate < 50 || d.SlowNodes > 0 {
			continue
		}
		tried++
		d.Faults = nil
		d.Warmup, d.Measured = 5, 40
		sc := d.scenario(seed)
		for _, load := range []float64{0.6, 1.3} {
			sc.load = load
			w := newWorldOf(sc, arms(d, true)[0].policy, seed, 1)
			m := w.run()
			answered := float64(m.answered) / (load * d.Capacity * d.Measured)
			if load < 1 {
				require.InDelta(t, 1, answered, 0.1, "seed %d", seed)
				continue
			}
			require.Less(t, answered, 0.92, "seed %d", seed)
		}
	}
}

func TestOracleNeverTouchesANodeThatIsBadNow(t *testing.T) {
	for _, kind := range faultKinds() {
		if kind == faultSlowStats || kind == faultLostPolls {
			continue // searches are good
		}
		d := &Draw{
			DataNodes: 6, CPUs: 4, SimulatedCPUs: 4, Load: 0.3, Sidecars: 1, Engine: elasticsearch, Warmup: 2, Measured: 20,
			Indices: []DrawnIndex{{Shards: 6, Replicas: 2}},
			Tenants: []DrawnTenant{{Share: 1, Mean: 10, Sigma: 0.5, OneShard: 0.3, ByID: 0.3, Indices: []int{0}}},
			Faults: []DrawnFault{{
				Kind: kind, Nodes: []int{1}, Factor: 10, Delay: 300, On: 400, Off: 600, Seed: 5,
			}},
		}
		d.Capacity = layOut(d, stream(1, layoutStream)).capacity(4)
		sc := d.scenario(1)
		w := newWorldOf(sc, arms(d, false)[2].policy, 1, 1)
		bad := 0
		rank := w.rank
		w.rank = func(c *coordinator, copies []int, w *world) {
			rank(c, copies, w)
			if w.nodes[copies[0]].toAvoid(0) {
				bad++
			}
		}
		m := w.run()
		require.Zero(t, bad, kind)
		require.Zero(t, m.failed, kind)
		if kind == faultCollections {
			continue // it is touched while it runs
		}
		if kind != faultRestart { // that is 0.4 s
			require.Zero(t, m.share([]int{1}, sc.faults[0].from+time.Second, sc.faults[0].to-time.Second), kind)
		}
	}
}

func TestNodesWhoseSearchesAreGoodHaveNoFault(t *testing.T) {
	d := &Draw{Faults: []DrawnFault{{Kind: faultSlowStats, Nodes: []int{1}}, {Kind: faultSlow, Nodes: []int{2, 4}}}}
	require.Equal(t, map[int]bool{2: true, 4: true}, d.faulty())
}
