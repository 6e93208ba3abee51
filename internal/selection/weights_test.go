package selection

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Shards with the same copies may be given once, with their number: the decision is
// the same.
func TestWeightsStandForShards(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		s := New(Options{Epoch: epoch})
		infos := make([]NodeInfo, 6)
		for i := range infos {
			infos[i] = NodeInfo{ID: string(rune('a' + i)), Name: string(rune('a' + i))}
		}
		nodes := s.Update(infos, epoch)
		setTimes(nodes, 1+20*rng.Float64(), 1+3*rng.Float64())
		once := Request{Nodes: nodes, Affinity: uint64(rng.IntN(2)) * rng.Uint64(), Outliers: rng.IntN(2) == 0}
		each := once
		for range 1 + rng.IntN(4) {
			copies := rng.Perm(6)[:1+rng.IntN(3)]
			weight := 1 + rng.IntN(3)
			once.Shards, once.Weights = append(once.Shards, copies), append(once.Weights, weight)
			for range weight {
				each.Shards = append(each.Shards, copies)
			}
		}
		if rng.IntN(2) == 0 {
			once.Avoid = nodes[:1]
			each.Avoid = nodes[:1]
		}
		requireAlike(t, s, each, once)
	}
}

func requireAlike(t *testing.T, s *Selector, want, got Request) {
	t.Helper()
	var a, b Decision
	s.Preview(&a, got, epoch)
	s.Preview(&b, want, epoch)
	require.Equal(t, b.Reason, a.Reason)
	require.Equal(t, b.Nodes, a.Nodes)
	for i := range a.Nodes {
		tasks, sole := a.Expected(i)
		of, only := b.Expected(i)
		require.InDelta(t, of, tasks, 1e-9)
		require.Equal(t, only, sole)
	}
}

// outlined sums a request up, the long way.
func outlined(req Request) Request {
	o := &Outline{}
	for p := range req.Nodes {
		tasks, sole := 0.0, false
		for i, copies := range req.Shards {
			if slices.Contains(copies, p) {
				tasks, sole = tasks+req.weight(i)/float64(len(copies)), sole || len(copies) == 1
			}
		}
		if tasks > 0 {
			o.Nodes, o.Tasks, o.Sole = append(o.Nodes, p), append(o.Tasks, tasks), append(o.Sole, sole)
		}
	}
	req.Outline = o
	return req
}

// A request that is summed up is decided as the same one that is not, whatever is the
// matter with the nodes.
func TestOutlineChangesNoDecision(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	reasons := map[Reason]int{}
	for range 1200 {
		s, nodes := newTest(t, 2+rng.IntN(8))
		randomise(rng, s, nodes)
		unmeasured := rng.IntN(8) == 0
		for i, n := range nodes {
			if unmeasured {
				n.response.Reset()
				n.service.Reset()
				n.queue.Reset()
			}
			n.Zone = string(rune('a' + i%2))
			if rng.IntN(6) == 0 {
				s.eject(n, Slow, 0, "test")
			}
			if rng.IntN(12) == 0 {
				n.rejectedAt.Store(1)
			}
		}
		if rng.IntN(4) == 0 {
			s.o.Zone, s.o.ZoneFactor = "a", 2
		}
		req := Request{Nodes: nodes, Outliers: rng.IntN(3) == 0, Affinity: uint64(rng.IntN(2)*rng.IntN(2)) * rng.Uint64()}
		for range 1 + rng.IntN(8) {
			req.Shards = append(req.Shards, rng.Perm(len(nodes))[:1+rng.IntN(min(3, len(nodes)))])
			req.Weights = append(req.Weights, 1+rng.IntN(3))
		}
		if rng.IntN(3) == 0 {
			req.Avoid = nodes[:1]
		}
		requireAlike(t, s, req, outlined(req))
		var d Decision
		s.Preview(&d, req, epoch)
		reasons[d.Reason]++
	}
	for _, reason := range Reasons() {
		require.Positive(t, reasons[reason], reason)
	}
}
