package selection

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestInvariantsHold draws random clusters and checks what must
// hold whatever the numbers are.
func TestInvariantsHold(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 500 {
		s, nodes := newTest(t, 1+r.IntN(8))
		randomise(r, s, nodes)
		shards := randomShards(r, len(nodes))
		d := choose(s, nodes, shards, epoch.Add(time.Duration(r.IntN(1e9))))
		checkInvariants(t, d, nodes, shards)
	}
}

func randomise(r *rand.Rand, s *Selector, nodes []*Node) {
	for _, n := range nodes {
		if r.IntN(4) > 0 {
			n.response.Observe(r.ExpFloat64() * 20)
			n.service.Observe(r.ExpFloat64() * 5)
			n.queue.Observe(float64(r.IntN(20)))
		}
		if r.IntN(5) == 0 {
			s.ObservePoll(n.ID, Poll{State: []State{Unknown, Fine, Failing, Unresponsive, Unreachable}[r.IntN(5)]}, epoch)
		}
		n.outstanding.Add(r.Int64N(5))
	}
}

func randomShards(r *rand.Rand, nodes int) [][]int {
	shards := make([][]int, 1+r.IntN(6))
	for i := range shards {
		shards[i] = r.Perm(nodes)[:1+r.IntN(nodes)]
	}
	return shards
}

func checkInvariants(t *testing.T, d *Decision, nodes []*Node, shards [][]int) {
	t.Helper()
	require.NotNil(t, d.Coordinator)
	require.Contains(t, nodes, d.Coordinator)
	require.Contains(t, Reasons(), d.Reason)
	var tasks float64
	for i := range d.Nodes {
		of, _ := d.Expected(i)
		tasks += of
	}
	require.InDelta(t, float64(len(shards)), tasks, 1e-6, "each shard is served once")
	for _, copies := range shards {
		alive := slices.ContainsFunc(copies, func(p int) bool { return nodes[p].Alive() })
		listed := slices.ContainsFunc(copies, func(p int) bool {
			return slices.Contains(d.Nodes, nodes[p]) && (!alive || nodes[p].Alive())
		})
		require.True(t, listed, "every shard keeps a copy, a living one if it has any")
	}
	for _, n := range d.Nodes {
		holds := slices.ContainsFunc(shards, func(c []int) bool { return slices.Contains(c, slices.Index(nodes, n)) })
		require.True(t, holds, "no node is listed without a copy")
	}
}

// TestNobodyStarves runs searches for two virtual minutes: a node that was slow
// once must be serving again at the end.
func TestNobodyStarves(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	set(&nodes[4].response, 1000)
	shards := ring(5, 2, 5)
	for ms := 0; ms < 120_000; ms += 12 {
		now := epoch.Add(time.Duration(ms) * time.Millisecond)
		d := choose(s, nodes, shards, now)
		s.Acquire(d, 1, now)
		s.Observe(d, Outcome{ResponseTime: 6 * time.Millisecond, Took: 5 * time.Millisecond, HasTook: true}, now.Add(6*time.Millisecond))
		d.Release()
	}
	require.Positive(t, share(s, nodes, 4, epoch.Add(2*time.Minute)))
}

func BenchmarkChoose(b *testing.B) {
	for _, c := range []struct{ shards, copies, nodes int }{{1, 2, 5}, {5, 2, 5}, {20, 3, 10}, {1000, 2, 50}} {
		b.Run(fmt.Sprintf("shards=%d/copies=%d/nodes=%d", c.shards, c.copies, c.nodes), func(b *testing.B) {
			s := New(Options{Epoch: epoch})
			infos := make([]NodeInfo, c.nodes)
			for i := range infos {
				infos[i] = NodeInfo{ID: fmt.Sprint(i), Name: fmt.Sprint(i)}
			}
			nodes := s.Update(infos, epoch)
			setTimes(nodes, 5, 3)
			req := Request{Nodes: nodes, Shards: ring(c.shards, c.copies, c.nodes)}
			var d Decision
			b.ReportAllocs()
			for b.Loop() {
				s.Choose(&d, req, epoch)
			}
		})
	}
}

// TestAnEjectedNodeIsUsedWhereTheOthersCannotCarryItsLoad draws clusters of which one node is ejected:
// if a search leaves it out, the others can do its work beside their own, or it does next to none.
func TestAnEjectedNodeIsUsedWhereTheOthersCannotCarryItsLoad(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	left := map[bool]int{}
	for range 500 {
		s, nodes := newTest(t, 3+r.IntN(6))
		services := make([]float64, len(nodes))
		var load, rates, processors float64
		for i, n := range nodes {
			services[i] = 1 + r.ExpFloat64()*4
			rate, cpus := r.Float64()*2, 1+r.IntN(8)
			n.Processors = cpus
			set(&n.service, services[i])
			set(&n.rate, rate)
			n.polled.Store(int32(Fine))
			if i > 0 {
				load, rates, processors = load+rate*services[i], rates+rate, processors+float64(cpus)
			}
		}
		s.eject(nodes[0], Slow, s.since(at(time.Second)), "a test")
		d := decide(s, nodes, time.Second)
		own, _ := nodes[0].rate.Value()
		slices.Sort(services)
		carried := load+own*services[(len(services)-1)/2] <= fullLoad*processors
		little := useFactor*own*float64(len(nodes)-1) < rates
		out := !nodes[0].in(d.Nodes)
		require.Equal(t, carried || little, out, "load %g, own %g of %g, processors %g", load, own, rates, processors)
		left[out]++
	}
	require.Greater(t, left[true], 50)
	require.Greater(t, left[false], 50)
}
