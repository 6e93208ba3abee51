package relay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/poll"
)

// A relay tells its readers about how many they are, and they probe the more rarely.
func TestReadersAreCounted(t *testing.T) {
	s := cluster.NewSnapshot(cluster.Contents{Engine: cluster.Engine{Distribution: cluster.OpenSearch}, ClusterUUID: "u", Indices: []cluster.Index{}})
	f := newFeed(func() *cluster.Snapshot { return s }, time.Hour, nil)
	var last []byte
	rounds := func(count, readers int) {
		for range count {
			after := f.seq
			f.madeAt = time.Time{} // the next report is due
			for range readers {
				body, err := f.next(t.Context(), f.relay, after)
				require.NoError(t, err)
				last = body
			}
		}
	}
	rounds(60, 40)
	require.Equal(t, 40, decodeReport(t, last).Readers)
	rounds(60, 1)
	require.Equal(t, 1, decodeReport(t, last).Readers, "the others are gone")
}

// A relay that starts again, or is silent, makes nobody believe that the others are gone.
func TestFollowersTakeInHowManyTheyAre(t *testing.T) {
	var stats []cluster.NodeStats
	f := testFollower(&stats)
	told := func(readers int) int {
		require.NoError(t, f.take(t, goodReport(func(r *report) { r.Readers = readers })))
		return f.p.Readers()
	}
	require.Zero(t, told(0))
	require.Zero(t, told(-7))
	require.Equal(t, 500, told(500))
	f.p.SetSource(poll.FromPolls)
	require.Equal(t, 500, f.p.Readers())
	require.InDelta(t, 492, told(0), 1, "the relay has started again")
	for range 43 {
		told(0)
	}
	require.InDelta(t, 240, told(0), 20)
	for range 500 {
		told(0)
	}
	require.Zero(t, f.p.Readers())
}
