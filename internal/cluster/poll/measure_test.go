package poll

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

func raw(pool RawPool, queries, millis int64) *RawStats {
	r := &RawStats{}
	r.ThreadPool.Search = &pool
	r.Indices.Search.Queries, r.Indices.Search.QueryMillis = queries, millis
	return r
}

// looked is what a node tells of its process, looked at at (ms), that has used so much CPU (ms).
func looked(at, used int64) *RawStats {
	r := raw(RawPool{Completed: 100}, 0, 0)
	r.Process.At, r.Process.CPU.Total = at, used
	return r
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	const second, ms = time.Second, time.Millisecond
	first := raw(RawPool{Threads: 7, Queue: 3, Active: 2, Completed: 100}, 1000, 5000)
	worker := raw(RawPool{Threads: 4, Queue: 1, Active: 2, Completed: 10}, 0, 0)
	worker.ThreadPool.SearchWorker = RawPool{Threads: 4, Queue: 5, Active: 3, Completed: 99}
	fetched := raw(RawPool{Threads: 4, Completed: 160}, 1040, 5100)
	fetched.Indices.Search.FetchMillis = 300
	before := raw(RawPool{Completed: 100}, 1000, 5000)
	refused := raw(RawPool{Completed: 100}, 1000, 5000)
	refused.ThreadPool.SearchWorker.Rejected = 7
	limited := raw(RawPool{Completed: 100}, 0, 0)
	limited.OS.Cgroup.CPU.Quota, limited.OS.Cgroup.CPU.Period = 30_000, 100_000
	unlimited := raw(RawPool{Completed: 100}, 0, 0)
	unlimited.OS.Cgroup.CPU.Quota, unlimited.OS.Cgroup.CPU.Period = -1, 100_000
	throttled := raw(RawPool{Completed: 100}, 0, 0)
	throttled.OS = limited.OS
	throttled.OS.Cgroup.CPU.Stat.Throttled = 1
	tests := []struct {
		name      string
		last, now *RawStats
		want      cluster.NodeStats
	}{
		{"first", nil, first, cluster.NodeStats{Queue: 3, Active: 2}},
		{"since then", before, raw(RawPool{Threads: 4, Active: 3, Completed: 160}, 1040, 5100), cluster.NodeStats{Elapsed: second, Queries: 40, ServiceTime: 2500 * time.Microsecond, Active: 0.1}},
		{"documents are read by the same threads", before, fetched, cluster.NodeStats{Elapsed: second, Queries: 40, ServiceTime: 2500 * time.Microsecond, Active: 0.4}},
		{"longer than the window", before, raw(RawPool{Threads: 4, Completed: 101}, 1001, 65000), cluster.NodeStats{Elapsed: second, Queries: 1, ServiceTime: time.Minute, Active: 4}},
		{"nothing new", before, before, cluster.NodeStats{Elapsed: second}},
		{"none has ended yet", before, raw(RawPool{Threads: 4, Active: 3, Completed: 100}, 1000, 5000), cluster.NodeStats{Elapsed: second, Active: 3}},
		{"faster than the engine's clock", before, raw(RawPool{Threads: 4, Completed: 101}, 1001, 5000), cluster.NodeStats{Elapsed: second, Queries: 1}},
		{"restart, or a relay that is behind", before, raw(RawPool{Threads: 4, Active: 1, Completed: 60}, 20, 100), cluster.NodeStats{Active: 1}},
		{"a shard left", before, raw(RawPool{Threads: 4, Active: 1, Completed: 101}, 900, 4000), cluster.NodeStats{Elapsed: second, Active: 1}},
		{"a quarter was rejected", before, raw(RawPool{Threads: 4, Completed: 160, Rejected: 20}, 1000, 5000), cluster.NodeStats{Elapsed: second, Rejected: 0.25}},
		{"all were rejected by search_worker", before, refused, cluster.NodeStats{Elapsed: second, Rejected: 1}},
		{"rejected before the first poll", nil, raw(RawPool{Completed: 100, Rejected: 5}, 0, 0), cluster.NodeStats{}},
		{"a quota", nil, limited, cluster.NodeStats{Quota: 0.3}},
		{"a quota that ran out", limited, throttled, cluster.NodeStats{Elapsed: second, Quota: 0.3, Throttled: 100 * ms}},
		{"a quota that ran out before", throttled, throttled, cluster.NodeStats{Elapsed: second, Quota: 0.3}},
		{"no quota", nil, unlimited, cluster.NodeStats{}},
		{"CPU that was used", looked(2000, 1000), looked(4000, 1500), cluster.NodeStats{Elapsed: second, Used: 0.25}},
		{"CPU that another process used", looked(2000, 1000), looked(3000, 100), cluster.NodeStats{Elapsed: second}},
		{"a clock that went back", looked(2000, 1000), looked(1900, 1100), cluster.NodeStats{Elapsed: second}},
		{"CPU that is not told", looked(2000, -1), looked(3000, -1), cluster.NodeStats{Elapsed: second}},
		{"search_worker", nil, worker, cluster.NodeStats{Queue: 6, Active: 5}},
	}
	for _, tt := range tests {
		at := time.Now()
		tt.want.At = at
		got := cluster.NodeStats{At: at}
		var last *Baseline
		if tt.last != nil {
			last = &Baseline{node: "n", at: at.Add(-second), raw: tt.last}
		}
		next, err := tt.now.Measure("n", last, &got)
		require.NoError(t, err, tt.name)
		require.InDelta(t, tt.want.Active, got.Active, 1e-9, tt.name)
		got.Active = tt.want.Active
		require.Equal(t, tt.now.ThreadPool.Search.Threads+tt.now.ThreadPool.SearchWorker.Threads, got.Threads, tt.name)
		require.Equal(t, tt.want.Rejected > 0, got.RejectedTasks > 0, tt.name)
		got.Threads, got.RejectedTasks = 0, 0
		require.Equal(t, tt.want, got, tt.name)
		require.Equal(t, &Baseline{node: "n", at: at, raw: tt.now, used: tt.want.Used}, next, tt.name)
	}
	last := &Baseline{raw: before}
	next, err := (&RawStats{}).Measure("n", last, &cluster.NodeStats{})
	require.ErrorIs(t, err, errNoSearchPool)
	require.Same(t, last, next)
}

func TestCoordinatedHoldsOnlyChanges(t *testing.T) {
	t.Parallel()
	before, now := raw(RawPool{Completed: 5}, 0, 0), raw(RawPool{Completed: 6}, 0, 0)
	before.AdaptiveSelection = map[string]rawCoordinated{"frozen": {ResponseTime: 5e6}, "busy": {ResponseTime: 5e6}}
	now.AdaptiveSelection = map[string]rawCoordinated{"frozen": {ResponseTime: 5e6}, "busy": {ResponseTime: 7e6}, "new": {ResponseTime: 1e6}}
	var first, second, third cluster.NodeStats
	last, err := before.Measure("n", nil, &first)
	require.NoError(t, err)
	require.Empty(t, first.Coordinated, "how old they are is not known")
	last, err = now.Measure("n", last, &second)
	require.NoError(t, err)
	require.Equal(t, map[string]cluster.Seen{"busy": {Now: 7 * time.Millisecond, Before: 5 * time.Millisecond}, "new": {Now: time.Millisecond}}, second.Coordinated)
	last, err = now.Measure("n", last, &third)
	require.NoError(t, err)
	require.Nil(t, third.Coordinated)

	var unasked, again cluster.NodeStats
	last, err = raw(RawPool{Completed: 7}, 0, 0).Measure("n", last, &unasked)
	require.NoError(t, err)
	require.Nil(t, unasked.Coordinated)
	now = raw(RawPool{Completed: 8}, 0, 0)
	now.AdaptiveSelection = map[string]rawCoordinated{"frozen": {ResponseTime: 5e6}, "busy": {ResponseTime: 7e6}, "new": {ResponseTime: 2e6}}
	_, err = now.Measure("n", last, &again)
	require.NoError(t, err)
	require.Equal(t, map[string]cluster.Seen{"new": {Now: 2 * time.Millisecond, Before: time.Millisecond}}, again.Coordinated)
}

func TestPollStates(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 8)
	f.On(func(n *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/_nodes/_local"+statsMetrics {
			return false
		}
		switch n.ID {
		case "n6": // something else has the address
			http.NotFound(w, r)
		case "n7":
			_, _ = io.WriteString(w, "<html>It works!</html>")
		case "n8":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{ "error" : {"reason": "unrecognized metric"}, "status": 400 }`)
		case "n5":
			_, _ = io.WriteString(w, `{"nodes":{"n5":null}}`)
		case "n2":
			clustertest.Hang(r)
		case "n3":
			w.WriteHeader(http.StatusInternalServerError)
		case "n4":
			panic(http.ErrAbortHandler)
		default:
			return false
		}
		return true
	})
	w := watch(t, f, impatient)
	for id, want := range map[string]cluster.PollState{"n1": cluster.PollOK, "n2": cluster.PollUnresponsive, "n3": cluster.PollFailed, "n4": cluster.PollUnreachable, "n5": cluster.PollFailed, "n6": cluster.PollUnreachable, "n7": cluster.PollUnreachable, "n8": cluster.PollFailed} {
		var s cluster.NodeStats
		w.Eventually(id+" is "+string(want), func() (ok bool) { s, ok = w.LastStats(id); return ok && s.State == want })
		require.Equal(t, want == cluster.PollOK, s.Err == nil)
		require.Positive(t, s.Took)
	}
	s, _ := w.LastStats("n2")
	require.GreaterOrEqual(t, s.Took, 300*time.Millisecond)
}

func TestRefusedIsUnreachable(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	w := watch(t, f, nil)
	w.Eventually("measured", func() bool { s, ok := w.LastStats("n2"); return ok && s.State == cluster.PollOK })
	f.Nodes[1].Server.CloseClientConnections()
	f.Nodes[1].Server.Close()
	w.Eventually("refused", func() bool { s, _ := w.LastStats("n2"); return s.State == cluster.PollUnreachable })
}

func TestOnePollInFlightPerNode(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	w := watch(t, f, impatient)
	w.Eventually("measured", func() bool { _, ok := w.LastStats("n1"); return ok })
	now, most := 0, 0
	f.On(func(_ *clustertest.Node, _ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/_nodes/_local"+statsMetrics {
			return false
		}
		f.Mu.Lock()
		now++
		most = max(most, now)
		f.Mu.Unlock()
		clustertest.Hang(r)
		f.Mu.Lock()
		now--
		f.Mu.Unlock()
		return true
	})
	w.Eventually("unresponsive", func() bool { s, _ := w.LastStats("n1"); return s.State == cluster.PollUnresponsive })
	f.Mu.Lock()
	defer f.Mu.Unlock()
	require.LessOrEqual(t, most, 2) // the server notices the end of one late
}

// Requests of clients, and their credentials, are not for a node of another cluster that has got the address of one which is
// still a member. A member that answers in place of another one, as behind a balancer, is measured.
func TestAddressTakenOver(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	w := watch(t, f, func(o *Options) { o.DiscoveryInterval = time.Hour })
	w.Eventually("measured", func() bool { _, ok := w.LastStats("n2"); return ok })
	discoveries := f.Count("/_nodes/http,os,thread_pool")
	f.Mu.Lock()
	f.Nodes[1].AnswerID = "n9"
	f.Mu.Unlock()
	w.Eventually("it is not there", func() bool { s, _ := w.LastStats("n2"); return s.State == cluster.PollUnreachable })
	w.Eventually("discovered again", func() bool { return f.Count("/_nodes/http,os,thread_pool") > discoveries })
	f.Mu.Lock()
	f.Nodes[1].AnswerID = "n1"
	f.Mu.Unlock()
	from := time.Now()
	w.Eventually("a member answers there", func() bool {
		polls := w.Metric("sidestep_cluster_polls_total", "stats", "ok")
		_, ok := w.Stat("n1", func(s cluster.NodeStats) bool { return s.At.After(from) })
		return ok && polls > 0
	})
	f.Mu.Lock()
	f.Nodes[1].AnswerID = ""
	f.Mu.Unlock()
	w.Eventually("it is back", func() bool { s, _ := w.LastStats("n2"); return s.State == cluster.PollOK && s.At.After(from) })
}

func TestDedicatedManagersAreNotMeasured(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	f.Nodes[1].Roles = []string{"cluster_manager"}
	w := watch(t, f, nil)
	w.Eventually("measured", func() bool { _, ok := w.LastStats("n1"); return ok })
	_, ok := w.LastStats("n2")
	require.False(t, ok)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1", "n2"}, []string{"n2"})} })
	w := watch(t, f, nil)
	w.Eventually("ready", func() bool { return w.Ready() == nil })
	w.Learn("i*", "")
	w.Eventually("learned", func() bool { return w.Metric("sidestep_cluster_learns_total", "empty") == 1 })
	require.InDelta(t, 2, w.Metric("sidestep_cluster_nodes"), 0)
	require.InDelta(t, 1, w.Metric("sidestep_cluster_placement_indices"), 0)
	require.InDelta(t, 2, w.Metric("sidestep_cluster_placement_shards"), 0)
	require.InDelta(t, 3, w.Metric("sidestep_cluster_placement_copies"), 0)
	require.InDelta(t, 1, w.Metric("sidestep_cluster_learned_targets"), 0)
	require.InDelta(t, 1, w.Metric("sidestep_cluster_state", "ok"), 0)
	require.Positive(t, w.Metric("sidestep_cluster_placement_refreshes_total", wholeTable, "ok"))
	require.Positive(t, w.Metric("sidestep_cluster_polls_total", "stats", "ok"))
	families, err := w.Registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 15)
}

// The engines look at their processes once a second, and a node is polled more often.
func TestUsedCPUHoldsUntilTheEngineLooksAgain(t *testing.T) {
	t.Parallel()
	var last *Baseline
	var told []float64
	for i, look := range []string{"1000, 500", "1000, 500", "2000, 700", "2000, 700", "2000, 700", "3000, 800"} {
		r := raw(RawPool{Completed: 100}, 0, 0)
		at, used, _ := strings.Cut(look, ", ")
		require.NoError(t, json.Unmarshal([]byte(`{"process":{"timestamp":`+at+`,"cpu":{"total_in_millis":`+used+`}}}`), r))
		got := cluster.NodeStats{At: time.Unix(0, 0).Add(time.Duration(i) * 200 * time.Millisecond)}
		var err error
		last, err = r.Measure("n", last, &got)
		require.NoError(t, err)
		told = append(told, got.Used)
	}
	require.InDeltaSlice(t, []float64{0, 0, 0.2, 0.2, 0.2, 0.1}, told, 1e-9)
}
