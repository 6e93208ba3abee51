package selection

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Shards with the same copies may be given once, with their number: the decision is
// the same.
func TestWeightsStandForShards(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		s, err := New(Options{Policy: "adaptive", Epoch: epoch})
		require.NoError(t, err)
		infos := make([]NodeInfo, 6)
		for i := range infos {
			infos[i] = NodeInfo{ID: string(rune('a' + i)), Name: string(rune('a' + i))}
		}
		nodes := s.Update(infos)
		teach(nodes, 1+20*rng.Float64(), 1+3*rng.Float64())
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
		var a, b Decision
		s.Preview(&a, once, epoch)
		s.Preview(&b, each, epoch)
		require.Equal(t, b.Reason, a.Reason)
		require.Equal(t, b.Nodes, a.Nodes)
		require.InDeltaSlice(t, b.tasks, a.tasks, 1e-9)
		require.Equal(t, b.sole, a.sole)
	}
}
