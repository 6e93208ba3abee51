package poll

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

// builtOf builds indices of their copies in the order given.
func builtOf(known *cluster.Snapshot, indices []cluster.Index, order func([]int)) []cluster.Index {
	type one struct {
		index  string
		number int
		copy   cluster.Copy
	}
	var all []one
	for _, index := range indices {
		for _, shard := range index.Shards {
			for _, c := range shard.Copies {
				all = append(all, one{index.Name, shard.Number, c})
			}
		}
	}
	at := make([]int, len(all))
	for i := range at {
		at[i] = i
	}
	order(at)
	b := newPlacementBuilder(known)
	for _, i := range at {
		b.begin([]byte(all[i].index))
		b.add(all[i].number, all[i].copy)
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
	require.Equal(t, indices, builtOf(nil, indices, func([]int) {}))
	shuffled := builtOf(nil, indices, func(at []int) { rng.Shuffle(len(at), func(i, j int) { at[i], at[j] = at[j], at[i] }) })
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
	built := builtOf(known, now, func([]int) {})
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

func TestRowsAreReadIntoTheMemoryOfThoseBefore(t *testing.T) {
	row := &catRow{}
	dec := json.NewDecoder(strings.NewReader(strings.Repeat(`{"index":"logs-2026","shard":"3","prirep":"p","state":"STARTED","id":"node-with-an-id"}`, 300)))
	require.NoError(t, dec.Decode(row))
	require.Less(t, testing.AllocsPerRun(200, func() { _ = dec.Decode(row) }), 1.0)
}
