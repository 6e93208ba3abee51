package poll

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
)

// Recorded with eight clients that wrote bulks to a node with one write thread: two polls
// while it was busy, one after that.
func TestWritesQueueOnRealEngines(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"opensearch-3.6.0", "elasticsearch-9.2.0"} {
		dec := json.NewDecoder(golden(t, engine, "stats_write.json"))
		var last *Baseline
		var found []bool
		for at := time.Now(); dec.More(); at = at.Add(200 * time.Millisecond) {
			var answer statsAnswer
			require.NoError(t, dec.Decode(&answer))
			for node, raw := range answer.Nodes {
				require.Positive(t, raw.ThreadPool.Write.Completed)
				stats := cluster.NodeStats{Node: node, At: at, State: cluster.PollOK}
				var err error
				last, err = raw.Measure(node, last, &stats)
				require.NoError(t, err)
				found = append(found, stats.WritesQueue())
			}
		}
		require.Equal(t, []bool{false, true, false}, found, engine)
	}
}

func TestWriteRejectionsAreThoseSince(t *testing.T) {
	t.Parallel()
	poll := func(rejected int64) *RawStats {
		r := raw(RawPool{Completed: 1}, 0, 0)
		r.ThreadPool.Write.Rejected = rejected
		return r
	}
	var last *Baseline
	var found []int64
	for _, rejected := range []int64{7, 7, 9, 1} {
		stats := cluster.NodeStats{At: time.Now()}
		var err error
		last, err = poll(rejected).Measure("n", last, &stats)
		require.NoError(t, err)
		found = append(found, stats.WriteRejected)
	}
	require.Equal(t, []int64{0, 0, 2, 0}, found, "what was before the first poll, and a restart, say nothing")
}

func TestWritesAreForgotten(t *testing.T) {
	t.Parallel()
	var w writes
	now := time.Now()
	w.observe(cluster.NodeStats{Node: "n", State: cluster.PollOK, At: now, WriteQueue: 1, WriteQueueBefore: 1})
	w.observe(cluster.NodeStats{Node: "n", State: cluster.PollUnresponsive, At: now.Add(time.Second)})
	require.True(t, w.queue("n", now.Add(writesMaxAge-1)), "a failed poll tells nothing of the pool")
	require.False(t, w.queue("n", now.Add(writesMaxAge)))
	require.False(t, w.queue("other", now))
	w.observe(cluster.NodeStats{Node: "n", State: cluster.PollOK, At: now})
	require.False(t, w.queue("n", now))
}
