package cluster

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWritesQueueOfOnePoll(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		stats NodeStats
		want  bool
	}{
		{"nothing waits", NodeStats{State: PollOK}, false},
		{"the first poll, or a moment's queue", NodeStats{State: PollOK, WriteQueue: 50}, false},
		{"the queue has been worked off", NodeStats{State: PollOK, WriteQueueBefore: 50}, false},
		{"two polls in a row", NodeStats{State: PollOK, WriteQueue: 1, WriteQueueBefore: 2}, true},
		{"rejections, the queue being empty again", NodeStats{State: PollOK, WriteRejected: 1}, true},
		{"a failed poll", NodeStats{State: PollUnresponsive, WriteRejected: 1}, false},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, tt.stats.WritesQueue(), tt.name)
	}
}

// Recorded with eight clients that wrote bulks to a node with one write thread: two polls
// while it was busy, one after that.
func TestWritesQueueOnRealEngines(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"opensearch-3.6.0", "elasticsearch-9.2.0"} {
		dec := json.NewDecoder(golden(t, engine, "stats_write.json"))
		var last *baseline
		var found []bool
		for at := time.Now(); dec.More(); at = at.Add(200 * time.Millisecond) {
			var answer statsAnswer
			require.NoError(t, dec.Decode(&answer))
			for node, raw := range answer.Nodes {
				require.Positive(t, raw.ThreadPool.Write.Completed)
				stats := NodeStats{Node: node, At: at, State: PollOK}
				told := reportedStats{}
				counters := raw.counters()
				copy(told[3:], counters[:])
				require.Equal(t, raw.ThreadPool.Write, told.raw().ThreadPool.Write, "a relay tells the same")
				var err error
				last, err = raw.measure(node, last, &stats)
				require.NoError(t, err)
				found = append(found, stats.WritesQueue())
			}
		}
		require.Equal(t, []bool{false, true, false}, found, engine)
	}
}

func TestWriteRejectionsAreThoseSince(t *testing.T) {
	t.Parallel()
	poll := func(rejected int64) *rawStats {
		r := raw(rawPool{Completed: 1}, 0, 0)
		r.ThreadPool.Write.Rejected = rejected
		return r
	}
	var last *baseline
	var found []int64
	for _, rejected := range []int64{7, 7, 9, 1} {
		stats := NodeStats{At: time.Now()}
		var err error
		last, err = poll(rejected).measure("n", last, &stats)
		require.NoError(t, err)
		found = append(found, stats.WriteRejected)
	}
	require.Equal(t, []int64{0, 0, 2, 0}, found, "what was before the first poll, and a restart, say nothing")
}

func TestWritesAreForgotten(t *testing.T) {
	t.Parallel()
	var w writes
	now := time.Now()
	w.observe(NodeStats{Node: "n", State: PollOK, At: now, WriteQueue: 1, WriteQueueBefore: 1})
	w.observe(NodeStats{Node: "n", State: PollUnresponsive, At: now.Add(time.Second)})
	require.True(t, w.queue("n", now.Add(writesMaxAge-1)), "a failed poll tells nothing of the pool")
	require.False(t, w.queue("n", now.Add(writesMaxAge)))
	require.False(t, w.queue("other", now))
	w.observe(NodeStats{Node: "n", State: PollOK, At: now})
	require.False(t, w.queue("n", now))
}

func TestWritesQueueIsToldByRelays(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2)
	f.change(func() {
		f.indices = []Index{index("i", []string{"n1", "n2"})}
		f.nodes[1].write = rawPool{Queue: 3}
	})
	relay := f.watch(nil)
	at := newAddress(t)
	at.use(relay.Snapshots())
	w, _ := f.follow(at, func(o *Options) { o.Relay.Silence = soon })
	for _, c := range []*watcher{relay, w} {
		c.eventually("the queue is seen", func() bool { return c.WritesQueue("n2") })
		require.False(t, c.WritesQueue("n1"))
		require.True(t, slices.ContainsFunc(c.allStats(), func(s NodeStats) bool { return s.Node == "n2" && s.WriteQueue == 3 }))
	}
	f.change(func() { f.nodes[1].write = rawPool{} })
	for _, c := range []*watcher{relay, w} {
		c.eventually("it has been worked off", func() bool { return !c.WritesQueue("n2") })
	}
}

func (w *watcher) allStats() []NodeStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.stats)
}

func TestReportsOfOlderRelaysTellNoWrites(t *testing.T) {
	t.Parallel()
	var told reportedStats
	require.NoError(t, json.Unmarshal([]byte(`[0,950,1000,4,1,2,100,0,0,0,0,0,0,0,0,0]`), &told))
	require.True(t, told.valid())
	require.Equal(t, rawPool{}, told.raw().ThreadPool.Write)
	told[16] = -1
	require.False(t, told.valid())
}
