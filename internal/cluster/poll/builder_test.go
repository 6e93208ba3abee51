package poll

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

// builtOf builds indices of their copies, in another order.
func builtOf(known *cluster.Snapshot, indices []cluster.Index, order func([]row)) []cluster.Index {
	b := newPlacementBuilder(known)
	for _, index := range slices.Backward(indices) {
		b.rows = b.rows[:0]
		for _, shard := range index.Shards {
			for _, c := range shard.Copies {
				b.rows = append(b.rows, row{shard.Number, c})
			}
		}
		order(b.rows)
		b.add(index.Name)
	}
	return b.indices()
}

func TestBuilderTakesAnyOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	var indices []cluster.Index
	for i := range 20 {
		var copies [][]string
		for range 1 + rng.IntN(3) {
			on := rng.Perm(5)[:1+rng.IntN(3)]
			shard := make([]string, len(on))
			for j, n := range on {
				shard[j] = "n" + strconv.Itoa(n)
			}
			copies = append(copies, shard)
		}
		indices = append(indices, clustertest.Index("i"+strconv.Itoa(100+i), copies...))
	}
	require.Equal(t, indices, builtOf(nil, indices, func([]row) {}))
	shuffled := builtOf(nil, indices, func(rows []row) { rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] }) })
	require.Len(t, shuffled, len(indices))
	for i := range indices {
		require.Equal(t, indices[i].Name, shuffled[i].Name)
		require.Len(t, shuffled[i].Shards, len(indices[i].Shards))
		for s, shard := range indices[i].Shards {
			require.Equal(t, shard.Number, shuffled[i].Shards[s].Number)
			require.ElementsMatch(t, shard.Copies, shuffled[i].Shards[s].Copies)
		}
	}
}

// A placement that is read again shares what did not change with the one at hand.
func TestBuilderKeepsWhatIsKnown(t *testing.T) {
	t.Parallel()
	known := cluster.NewSnapshot(cluster.Contents{Indices: []cluster.Index{clustertest.Index("same", []string{"n1", "n2"}), clustertest.Index("moved", []string{"n1"}, []string{"n2"}), clustertest.Index("more", []string{"n1"})}})
	now := []cluster.Index{
		clustertest.Index("more", []string{"n1", "n2"}), clustertest.Index("moved", []string{"n1"}, []string{"n3"}), clustertest.Index("new", []string{"n1"}), clustertest.Index("same", []string{"n1", "n2"}),
	}
	built := builtOf(known, now, func([]row) {})
	require.Equal(t, now, built)
	shared := func(name string) bool {
		i := slices.IndexFunc(built, func(i cluster.Index) bool { return i.Name == name })
		placed, ok := known.Lookup(name)
		return ok && &built[i].Shards[0] == &placed.Shards[0]
	}
	require.True(t, shared("same"))
	require.False(t, shared("moved"))
	require.False(t, shared("more"))
}

func TestText(t *testing.T) {
	t.Parallel()
	var v text
	for raw, want := range map[string]string{
		`"plain"`: "plain", `""`: "", `null`: "", `"a\"b"`: `a"b`, `"\u00e9"`: "é", `"é"`: "é", `"\\"`: `\`,
	} {
		require.NoError(t, json.Unmarshal([]byte(raw), &v), raw)
		require.Equal(t, want, string(v), raw)
	}
	require.Error(t, json.Unmarshal([]byte(`7`), &v))
	require.Error(t, json.Unmarshal([]byte(`{}`), &v))
}
