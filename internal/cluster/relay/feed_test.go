package relay

import (
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/poll"
)

// Reports come every second although nodes are polled more rarely: those that ask take a relay that is silent for dead.
func TestReportsComeThoughPollsAreRare(t *testing.T) {
	s := cluster.NewSnapshot(cluster.Contents{ClusterUUID: "u", Indices: []cluster.Index{}})
	f := newFeed(func() *cluster.Snapshot { return s }, time.Minute, nil)
	_, _, err := f.try("", 0)
	require.NoError(t, err)
	body, pause, err := f.try(f.relay, f.seq)
	require.NoError(t, err)
	require.Nil(t, body)
	require.LessOrEqual(t, pause, longestHeld)
}

// Where another cluster has the place of the one before, with nodes and indices of the same names, everything is told anew.
func TestAnotherClusterIsToldOfAnew(t *testing.T) {
	contents := cluster.Contents{ClusterUUID: "u", Indices: []cluster.Index{}}
	s := cluster.NewSnapshot(contents)
	f := newFeed(func() *cluster.Snapshot { return s }, time.Millisecond, nil)
	_, _, err := f.try("", 0)
	require.NoError(t, err)
	before := f.relay
	f.make(time.Now())
	require.Equal(t, before, f.relay)
	contents.ClusterUUID = "v"
	s = cluster.NewSnapshot(contents)
	f.make(time.Now())
	require.NotEqual(t, before, f.relay)
}

// Polls of nodes that have left are not kept where nobody asks for reports.
func TestPollsOfNodesThatLeftAreNotKept(t *testing.T) {
	s := cluster.NewSnapshot(cluster.Contents{ClusterUUID: "u", Nodes: []*cluster.Node{{ID: "stays"}}, Indices: []cluster.Index{}})
	f := newFeed(func() *cluster.Snapshot { return s }, time.Hour, nil)
	for i := range 1000 {
		f.poll(cluster.NodeStats{Node: "stays"}, nil)
		f.poll(cluster.NodeStats{Node: strconv.Itoa(i)}, nil)
	}
	require.Less(t, len(f.fresh), 200)
	require.Contains(t, f.fresh, "stays")
}

// Answers about targets are small and many: the memory of a compressor is not taken for each.
func TestASmallAnswerTakesLittleMemory(t *testing.T) {
	const answers = 500
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range answers {
		_, err := encodeBody(&resolvedTarget{StateVersion: 1, Shards: packShards([]cluster.ShardName{{Index: "a"}})})
		require.NoError(t, err)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/answers, uint64(400<<10))
}

// One that reads everything is given what others were given up to two seconds before. What it tells is not taken for new: the
// searches since would seem to have been made in a moment.
func TestAReportOfAMomentAgo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := cluster.NewSnapshot(cluster.Contents{
			Engine: cluster.Engine{Distribution: cluster.OpenSearch}, ClusterUUID: "u", Version: 1, PlacedAt: time.Now(),
			Nodes: []*cluster.Node{{ID: "n1"}}, Indices: []cluster.Index{},
		})
		told, queries := newFeed(func() *cluster.Snapshot { return s }, 200*time.Millisecond, nil), int64(0)
		measure := func() {
			time.Sleep(200 * time.Millisecond)
			queries += 20
			raw := &poll.RawStats{}
			raw.ThreadPool.Search = &poll.RawPool{Threads: 1, Completed: queries}
			raw.Indices.Search.Queries = queries
			told.poll(cluster.NodeStats{Node: "n1", At: time.Now(), State: cluster.PollOK}, raw)
		}
		measure()
		_, err := told.next(t.Context(), "", 0)
		require.NoError(t, err)
		for range 9 {
			measure()
		}
		var stats []cluster.NodeStats
		f := testFollower(&stats)
		for range 4 {
			f.read(t, told)
			measure()
		}
		require.Len(t, stats, 4)
		for _, one := range stats[1:] {
			require.InDelta(t, 100, float64(one.Queries)/one.Elapsed.Seconds(), 1)
		}
	})
}
