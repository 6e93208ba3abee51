package poll

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

// builtOf reads a routing table of indices.
func builtOf(t *testing.T, known *cluster.Snapshot, indices []cluster.Index) []cluster.Index {
	t.Helper()
	f := &clustertest.Fake{Version: 7, Indices: indices}
	answer, err := json.Marshal(f.RoutingTable(&clustertest.Node{}, ""))
	require.NoError(t, err)
	state, err := parseRoutingTable(bytes.NewReader(answer), newPlacementBuilder(known))
	require.NoError(t, err)
	return state.Indices
}

// A placement that is read again shares what did not change with the one at hand.
func TestBuilderKeepsWhatIsKnown(t *testing.T) {
	t.Parallel()
	known := cluster.NewSnapshot(cluster.Contents{Indices: []cluster.Index{clustertest.Index("same", []string{"n1", "n2"}), clustertest.Index("moved", []string{"n1"}, []string{"n2"}), clustertest.Index("more", []string{"n1"})}})
	now := []cluster.Index{
		clustertest.Index("more", []string{"n1", "n2"}), clustertest.Index("moved", []string{"n1"}, []string{"n3"}), clustertest.Index("new", []string{"n1"}), clustertest.Index("same", []string{"n1", "n2"}),
	}
	built := builtOf(t, known, now)
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

func TestCopiesAreReadIntoTheMemoryOfThoseBefore(t *testing.T) {
	b := newPlacementBuilder(nil)
	dec := json.NewDecoder(strings.NewReader(strings.Repeat(`{"state":"STARTED","primary":true,"searchOnly":false,"node":"node-with-an-id"}`, 300)))
	read := func() {
		b.rows = b.rows[:0]
		if err := b.decodeCopy(dec, 3); err != nil {
			panic(err)
		}
	}
	read()
	require.Less(t, testing.AllocsPerRun(200, read), 1.0)
}
