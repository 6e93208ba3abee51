package cluster

import (
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

func raw(pool rawPool, queries, millis int64) *rawStats {
	r := &rawStats{}
	r.ThreadPool.Search = &pool
	r.Indices.Search.Queries, r.Indices.Search.QueryMillis = queries, millis
	return r
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	const second, ms = time.Second, time.Millisecond
	first := raw(rawPool{Threads: 7, Queue: 3, Active: 2, Completed: 100}, 1000, 5000)
	worker := raw(rawPool{Threads: 4, Queue: 1, Active: 2, Completed: 10}, 0, 0)
	worker.ThreadPool.SearchWorker = rawPool{Threads: 4, Queue: 5, Active: 3, Completed: 99}
	fetched := raw(rawPool{Threads: 4, Completed: 160}, 1040, 5100)
	fetched.Indices.Search.FetchMillis = 300
	before := raw(rawPool{Completed: 100}, 1000, 5000)
	refused := raw(rawPool{Completed: 100}, 1000, 5000)
	refused.ThreadPool.SearchWorker.Rejected = 7
	tests := []struct {
		name      string
		last, now *rawStats
		want      NodeStats
	}{
		{"first", nil, first, NodeStats{Queue: 3, Active: 2}},
		{"since then", before, raw(rawPool{Threads: 4, Active: 3, Completed: 160}, 1040, 5100), NodeStats{Elapsed: second, Queries: 40, ServiceTime: 2500 * time.Microsecond, Active: 0.1}},
		{"documents are read by the same threads", before, fetched, NodeStats{Elapsed: second, Queries: 40, ServiceTime: 2500 * time.Microsecond, Active: 0.4}},
		{"longer than the window", before, raw(rawPool{Threads: 4, Completed: 101}, 1001, 65000), NodeStats{Elapsed: second, Queries: 1, ServiceTime: time.Minute, Active: 4}},
		{"nothing new", before, before, NodeStats{Elapsed: second}},
		{"none has ended yet", before, raw(rawPool{Threads: 4, Active: 3, Completed: 100}, 1000, 5000), NodeStats{Elapsed: second, Active: 3}},
		{"faster than the engine's clock", before, raw(rawPool{Threads: 4, Completed: 101}, 1001, 5000), NodeStats{Elapsed: second, Queries: 1}},
		{"restart", before, raw(rawPool{Threads: 4, Completed: 60}, 20, 100), NodeStats{Elapsed: second, Queries: 20, ServiceTime: 5 * ms, Active: 0.1}},
		{"a shard left", before, raw(rawPool{Threads: 4, Active: 1, Completed: 101}, 900, 4000), NodeStats{Elapsed: second, Active: 1}},
		{"a quarter was rejected", before, raw(rawPool{Threads: 4, Completed: 160, Rejected: 20}, 1000, 5000), NodeStats{Elapsed: second, Rejected: 0.25}},
		{"all were rejected by search_worker", before, refused, NodeStats{Elapsed: second, Rejected: 1}},
		{"rejected before the first poll", nil, raw(rawPool{Completed: 100, Rejected: 5}, 0, 0), NodeStats{}},
		{"search_worker", nil, worker, NodeStats{Queue: 6, Active: 5}},
	}
	for _, tt := range tests {
		at := time.Now()
		tt.want.At = at
		got := NodeStats{At: at}
		var last *baseline
		if tt.last != nil {
			last = &baseline{node: "n", at: at.Add(-second), raw: tt.last}
		}
		next, err := tt.now.measure("n", last, &got)
		require.NoError(t, err, tt.name)
		require.InDelta(t, tt.want.Active, got.Active, 1e-9, tt.name)
		got.Active = tt.want.Active
		require.Equal(t, tt.now.ThreadPool.Search.Threads+tt.now.ThreadPool.SearchWorker.Threads, got.Threads, tt.name)
		require.Equal(t, tt.want.Rejected > 0, got.RejectedTasks > 0, tt.name)
		got.Threads, got.RejectedTasks = 0, 0
		require.Equal(t, tt.want, got, tt.name)
		require.Equal(t, &baseline{node: "n", at: at, raw: tt.now}, next, tt.name)
	}
	last := &baseline{raw: before}
	next, err := (&rawStats{}).measure("n", last, &NodeStats{})
	require.ErrorIs(t, err, errNoSearchPool)
	require.Same(t, last, next)
}

func TestCoordinatedHoldsOnlyChanges(t *testing.T) {
	t.Parallel()
	before, now := raw(rawPool{Completed: 5}, 0, 0), raw(rawPool{Completed: 6}, 0, 0)
	before.AdaptiveSelection = map[string]rawCoordinated{"frozen": {ResponseTime: 5e6}, "busy": {ResponseTime: 5e6}}
	now.AdaptiveSelection = map[string]rawCoordinated{"frozen": {ResponseTime: 5e6}, "busy": {ResponseTime: 7e6}, "new": {ResponseTime: 1e6}}
	var first, second, third NodeStats
	last, err := before.measure("n", nil, &first)
	require.NoError(t, err)
	require.Empty(t, first.Coordinated, "how old they are is not known")
	last, err = now.measure("n", last, &second)
	require.NoError(t, err)
	require.Equal(t, map[string]Seen{"busy": {Now: 7 * time.Millisecond, Before: 5 * time.Millisecond}, "new": {Now: time.Millisecond}}, second.Coordinated)
	last, err = now.measure("n", last, &third)
	require.NoError(t, err)
	require.Nil(t, third.Coordinated)

	var unasked, again NodeStats
	last, err = raw(rawPool{Completed: 7}, 0, 0).measure("n", last, &unasked)
	require.NoError(t, err)
	require.Nil(t, unasked.Coordinated)
	now = raw(rawPool{Completed: 8}, 0, 0)
	now.AdaptiveSelection = map[string]rawCoordinated{"frozen": {ResponseTime: 5e6}, "busy": {ResponseTime: 7e6}, "new": {ResponseTime: 2e6}}
	_, err = now.measure("n", last, &again)
	require.NoError(t, err)
	require.Equal(t, map[string]Seen{"new": {Now: 2 * time.Millisecond, Before: time.Millisecond}}, again.Coordinated)
}

func TestPollStates(t *testing.T) {
	t.Parallel()
	f := newFake(t, 4)
	f.on(func(n *fakeNode, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/_nodes/_local"+statsMetrics {
			return false
		}
		switch n.id {
		case "n2":
			hang(r)
		case "n3":
			w.WriteHeader(http.StatusInternalServerError)
		case "n4":
			panic(http.ErrAbortHandler)
		default:
			return false
		}
		return true
	})
	w := f.watch(nil)
	for id, want := range map[string]PollState{"n1": PollOK, "n2": PollUnresponsive, "n3": PollFailed, "n4": PollUnreachable} {
		w.eventually(id+" is "+string(want), func() bool { s, ok := w.lastStats(id); return ok && s.State == want })
		s, _ := w.lastStats(id)
		require.Equal(t, want == PollOK, s.Err == nil)
		require.Positive(t, s.Took)
	}
	s, _ := w.lastStats("n2")
	require.GreaterOrEqual(t, s.Took, 300*time.Millisecond)
}

func TestRefusedIsUnreachable(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2)
	w := f.watch(nil)
	w.eventually("measured", func() bool { s, ok := w.lastStats("n2"); return ok && s.State == PollOK })
	f.nodes[1].server.CloseClientConnections()
	f.nodes[1].server.Close()
	w.eventually("refused", func() bool { s, _ := w.lastStats("n2"); return s.State == PollUnreachable })
}

func TestOnePollInFlightPerNode(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	w := f.watch(nil)
	w.eventually("measured", func() bool { _, ok := w.lastStats("n1"); return ok })
	now, most := 0, 0
	f.on(func(_ *fakeNode, _ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/_nodes/_local"+statsMetrics {
			return false
		}
		f.mu.Lock()
		now++
		most = max(most, now)
		f.mu.Unlock()
		hang(r)
		f.mu.Lock()
		now--
		f.mu.Unlock()
		return true
	})
	w.eventually("unresponsive", func() bool { s, _ := w.lastStats("n1"); return s.State == PollUnresponsive })
	f.mu.Lock()
	defer f.mu.Unlock()
	require.LessOrEqual(t, most, 2) // the server notices the end of one late
}

func TestAddressTakenOver(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2)
	w := f.watch(func(o *Options) { o.DiscoveryInterval = time.Hour })
	w.eventually("measured", func() bool { _, ok := w.lastStats("n2"); return ok })
	discoveries := f.count("/_nodes/http,os,thread_pool")
	f.mu.Lock()
	f.nodes[1].answerID = "n9"
	f.mu.Unlock()
	w.eventually("told under the id answered", func() bool { s, ok := w.lastStats("n9"); return ok && s.State == PollOK })
	w.eventually("discovered again", func() bool { return f.count("/_nodes/http,os,thread_pool") > discoveries })
}

func TestDedicatedManagersAreNotMeasured(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2)
	f.nodes[1].roles = []string{"cluster_manager"}
	w := f.watch(nil)
	w.eventually("measured", func() bool { _, ok := w.lastStats("n1"); return ok })
	_, ok := w.lastStats("n2")
	require.False(t, ok)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	f := newFake(t, 2)
	f.change(func() { f.indices = []Index{index("i", []string{"n1", "n2"}, []string{"n2"})} })
	w := f.watch(func(o *Options) { o.Registerer = reg })
	w.eventually("ready", func() bool { return w.Ready() == nil })
	w.Learn("i*", "")
	w.eventually("learned", func() bool { return value(t, w.metrics.learns.WithLabelValues("empty")) == 1 })
	require.InDelta(t, 2, value(t, w.metrics.nodes), 0)
	require.InDelta(t, 1, value(t, w.metrics.indices), 0)
	require.InDelta(t, 2, value(t, w.metrics.shards), 0)
	require.InDelta(t, 3, value(t, w.metrics.copies), 0)
	require.InDelta(t, 1, value(t, w.metrics.learnedTarget), 0)
	require.InDelta(t, 1, value(t, w.metrics.state.WithLabelValues("ok")), 0)
	require.Positive(t, value(t, w.metrics.refreshes.WithLabelValues(SourceCatShards, "ok")))
	require.Positive(t, value(t, w.metrics.polls.WithLabelValues("stats", "ok")))
	families, err := reg.Gather()
	require.NoError(t, err)
	require.Len(t, families, 17)
}

// value reads a counter or a gauge.
func value(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var read dto.Metric
	require.NoError(t, m.Write(&read))
	return read.GetCounter().GetValue() + read.GetGauge().GetValue()
}
