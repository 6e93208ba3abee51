package diagnosis

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/testkit"
)

// bench is a recorder on nodes whose states the test sets.
type bench struct {
	*Recorder
	log testkit.Log

	mu       sync.Mutex
	readings []Reading
	follows  atomic.Bool
}

// newBench starts a recorder whose nodes are all served by handler.
func newBench(t testing.TB, nodes int, handler http.Handler) *bench {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	require.NoError(t, err)
	b := &bench{}
	known := make([]*cluster.Node, nodes)
	for i := range known {
		id := "n" + string(rune('a'+i))
		known[i] = &cluster.Node{ID: id, Name: "name-" + id, URL: base}
		b.readings = append(b.readings, Reading{ID: id, Name: "name-" + id, State: "fine", Share: 0.1, Service: 2, Response: 3})
	}
	snapshot := cluster.NewSnapshot(cluster.Contents{Nodes: known})
	b.Recorder = New(Options{Enabled: true, MaxSize: 1 << 20, Logger: slog.New(slog.NewTextHandler(&b.log, nil)), Registerer: prometheus.NewRegistry()})
	client := &http.Client{Transport: &http.Transport{}}
	b.Use(Source{
		Read: func() []Reading {
			b.mu.Lock()
			defer b.mu.Unlock()
			return append([]Reading(nil), b.readings...)
		},
		Snapshot: func() *cluster.Snapshot { return snapshot },
		Interval: func() time.Duration { return 200 * time.Millisecond },
		Follows:  b.follows.Load,
		Client:   client,
	})
	b.Start(t.Context())
	t.Cleanup(func() {
		require.NoError(t, b.Stop(context.Background()))
		client.CloseIdleConnections()
	})
	return b
}

// set changes the state of a node, as the selection would tell.
func (b *bench) set(node int, state string) {
	b.mu.Lock()
	b.readings[node].State, b.readings[node].Since = state, time.Now()
	b.mu.Unlock()
	b.Look()
}

const patience = time.Minute

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patience, 5*time.Millisecond)
}

// An account without the privilege still gives a record, and one line in the log.
func TestWithoutThePrivilege(t *testing.T) {
	b := newBench(t, 3, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	b.set(1, "slow")
	eventually(t, func() bool {
		list := b.Spikes().Spikes
		if len(list) != 1 {
			return false
		}
		record, ok := b.Spike(list[0].ID)
		return ok && len(record.Captures) > 2 && strings.Contains(record.Captures[0].Error+strings.Join(record.Captures[0].Notes, ""), "monitor")
	})
	list := b.Spikes().Spikes
	require.Equal(t, "name-nb", list[0].Node)
	require.Nil(t, list[0].Ended)
	record, ok := b.Spike(list[0].ID)
	require.True(t, ok)
	require.Equal(t, CauseUnknown, record.Cause, "that it may not ask says nothing of the node")
	require.Equal(t, 1, strings.Count(b.log.String(), "grant sidestep's account"))
	require.Positive(t, testutil.ToFloat64(b.metrics.captures.WithLabelValues(captureRefused)))
}

// Beyond maxAtOnce nodes are not asked, and all have a record.
func TestManyNodesInTrouble(t *testing.T) {
	var under, most atomic.Int64
	b := newBench(t, 9, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer under.Add(-1)
		if n := under.Add(1); n > most.Load() {
			most.Store(n)
		}
		select {
		case <-r.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	for i := range 8 {
		b.set(i, "unresponsive")
	}
	eventually(t, func() bool { return len(b.Spikes().Spikes) == 8 })
	eventually(t, func() bool { return testutil.ToFloat64(b.metrics.captures.WithLabelValues(captureDropped)) == 4 })
	// The node itself, another about it and hot threads, of each; and the baseline.
	require.LessOrEqual(t, most.Load(), int64(3*maxAtOnce+1))
}

// All nodes of a large cluster may get into trouble in the same second, as where sidestep's own network is gone.
func TestRecordsOfOneMomentHaveNamesOfTheirOwn(t *testing.T) {
	r := New(Options{Enabled: true, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	r.Use(Source{Follows: func() bool { return false }})
	for range maxAtOnce {
		r.slots <- struct{}{} // none is asked
	}
	ids := map[string]bool{}
	for i := range 1000 {
		node := fmt.Sprintf("n%d", i)
		r.begin(t.Context(), Reading{ID: node, Name: node, State: "unreachable"}, epoch)
		ids[r.open[node].record.ID] = true
	}
	require.Len(t, ids, 1000)
}

// A node that is busy has a record once that has lasted, and it does not end while the node is slow for it.
func TestABusyNodeIsRecordedOnceThatLasts(t *testing.T) {
	b := newBench(t, 3, http.NotFoundHandler())
	b.set(2, "busy")
	b.set(2, "fine")
	began := time.Now()
	b.set(1, "busy")
	eventually(t, func() bool { return len(b.Spikes().Spikes) == 1 })
	require.GreaterOrEqual(t, time.Since(began), busyLong)
	spike := b.Spikes().Spikes[0]
	require.Equal(t, "nb", spike.NodeID)
	require.Equal(t, "busy", spike.State)
	b.set(1, "slow")
	b.set(1, "busy")
	b.set(0, "failing")
	eventually(t, func() bool { return len(b.Spikes().Spikes) == 2 })
	record, ok := b.Spike(spike.ID)
	require.True(t, ok)
	require.Nil(t, record.Ended)
	require.Len(t, record.Bouts, 1)
}

// A node that flaps has one record, with a bout for each time.
func TestAFlappingNodeHasOneRecord(t *testing.T) {
	b := newBench(t, 3, http.NotFoundHandler())
	for range 3 {
		b.set(2, "slow")
		eventually(t, func() bool { s := b.Spikes().Spikes; return len(s) == 1 && s[0].Ended == nil })
		b.set(2, "ramping")
		eventually(t, func() bool { s := b.Spikes().Spikes; return len(s) == 1 && s[0].Ended != nil })
	}
	list := b.Spikes().Spikes
	require.Len(t, list, 1)
	require.Equal(t, 2, list[0].Again)
	record, ok := b.Spike(list[0].ID)
	require.True(t, ok)
	require.Len(t, record.Bouts, 3)
	for _, bout := range record.Bouts {
		require.NotNil(t, bout.Ended)
	}
}

// The ninth time and those after it belong to the last bout, which lasts meanwhile.
func TestAnyNumberOfBoutsIsRecorded(t *testing.T) {
	r := &Recorder{metrics: newMetrics(prometheus.NewRegistry())}
	open := &recording{capturing: true, well: func() {}, record: Record{Bouts: []Bout{{}}}}
	for i := range maxBouts + 2 {
		at := epoch.Add(time.Duration(i) * time.Second)
		r.end(t.Context(), open, at)
		require.NotNil(t, open.record.Bouts[len(open.record.Bouts)-1].Ended)
		r.resume(t.Context(), open, at)
		require.Nil(t, open.record.Bouts[len(open.record.Bouts)-1].Ended)
	}
	require.Len(t, open.record.Bouts, maxBouts)
}

// Long after the node was last asked the record still gets the figures of its first minutes.
func TestTheSamplesOfALongSpike(t *testing.T) {
	b := newBench(t, 3, http.NotFoundHandler())
	for range maxAtOnce {
		b.slots <- struct{}{} // no node is asked any more
	}
	b.set(2, "slow")
	eventually(t, func() bool { return len(b.Spikes().Spikes) == 1 })
	id := b.Spikes().Spikes[0].ID
	shown := func() int {
		record, ok := b.Spike(id)
		require.True(t, ok)
		return len(record.Samples.At)
	}
	first := shown()
	eventually(t, func() bool { return shown() > first })
	b.Recorder.mu.Lock()
	open := b.open["nc"]
	open.record.Began = Time{time.Now().Add(-maxSpan)}
	b.Recorder.mu.Unlock()
	eventually(t, func() bool {
		b.Recorder.mu.Lock()
		defer b.Recorder.mu.Unlock()
		return len(open.record.Samples.At) > first
	})
}

// What is counted and logged is the cause that the record has in the end: a node that got into trouble again tells more.
func TestASpikeIsCountedWhenItsRecordIsClosed(t *testing.T) {
	b := newBench(t, 3, http.NotFoundHandler())
	counted := func() float64 { return countedSpikes(b.Recorder) }
	once := func(node int, id string) {
		b.set(node, "slow")
		eventually(t, func() bool {
			b.Recorder.mu.Lock()
			defer b.Recorder.mu.Unlock()
			return b.open[id].lasts()
		})
		b.set(node, "fine")
		eventually(t, func() bool {
			b.Recorder.mu.Lock()
			defer b.Recorder.mu.Unlock()
			o := b.open[id]
			return o.record.Ended != nil && !o.capturing
		})
	}
	once(2, "nc")
	require.Zero(t, counted())
	require.NotContains(t, b.log.String(), "spike recorded")
	b.Recorder.mu.Lock()
	b.open["nc"].record.Ended = &Time{time.Now().Add(-pause)}
	b.Recorder.mu.Unlock()
	eventually(t, func() bool { return counted() == 1 })
	require.Equal(t, 1, strings.Count(b.log.String(), "spike recorded"))
}

// The record of a node that flaps for good is kept nevertheless, and the next trouble begins another.
func TestTheRecordOfANodeThatFlapsIsClosedAfterAWhile(t *testing.T) {
	b := newBench(t, 3, http.NotFoundHandler())
	slow := func() {
		b.set(2, "slow")
		eventually(t, func() bool { s := b.Spikes().Spikes; return len(s) > 0 && s[0].Ended == nil })
	}
	slow()
	b.set(2, "ramping")
	eventually(t, func() bool { return b.Spikes().Spikes[0].Ended != nil })
	slow()
	b.Recorder.mu.Lock()
	b.open["nc"].record.Began = Time{time.Now().Add(-longest)}
	b.Recorder.mu.Unlock()
	b.set(2, "ramping")
	eventually(t, func() bool { // the next look may close it
		b.Recorder.mu.Lock()
		defer b.Recorder.mu.Unlock()
		o := b.open["nc"]
		return o == nil || o.record.Ended != nil && !o.capturing
	})
	slow()
	require.Len(t, b.Spikes().Spikes, 2)
	require.Len(t, b.store.spikes(), 1)
	require.Equal(t, 1, b.store.spikes()[0].Again)
}

func TestARecordIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		began, ended time.Duration // before now; ended 0: not yet
		again        int
		capturing    bool
		want         bool
	}{
		"lasts":                {began: 2 * longest, again: 1},
		"a moment ago":         {began: time.Minute, ended: pause - 1},
		"well for long":        {began: time.Minute, ended: pause, want: true},
		"flaps":                {began: longest - 1, ended: time.Second, again: 1},
		"flaps for too long":   {began: longest, ended: time.Second, again: 1, want: true},
		"lasted for too long":  {began: longest, ended: time.Second},
		"is still being asked": {began: longest, ended: pause, again: 1, capturing: true},
	} {
		o := &recording{capturing: c.capturing, record: Record{Spike: Spike{Began: Time{epoch.Add(-c.began)}, Again: c.again}}}
		if c.ended > 0 {
			o.record.Ended = &Time{epoch.Add(-c.ended)}
		}
		require.Equal(t, c.want, o.over(epoch), name)
	}
}

// Dedicated managers are not polled, so they are in no trouble that could be seen.
func TestNodesInTroubleAtOnceAreOfThoseThatAreKnown(t *testing.T) {
	r := &Recorder{open: map[string]*recording{"a": {record: Record{Bouts: []Bout{{}}}}}}
	readings := []Reading{{ID: "a", State: "slow"}, {ID: "b", State: "unresponsive"}, {ID: "c", State: "fine"}, {ID: "m", State: "unknown"}, {ID: "n", State: "unknown"}}
	r.compare(readings, epoch)
	require.InDelta(t, 0.5, r.open["a"].record.Bouts[0].Alike, 0)
}

// Trouble that lasts is shown, however much came and went since.
func TestTheNewestSpikesAndThoseThatLast(t *testing.T) {
	over := Time{epoch}
	all := Spikes{Spikes: []Spike{{ID: "5"}, {ID: "4", Ended: &over}, {ID: "3", Ended: &over}, {ID: "2"}, {ID: "1", Ended: &over}}}
	for most, want := range []string{"52", "52", "542", "5432", "5432", "54321", "54321"} {
		got := ""
		for _, s := range all.Newest(most) {
			got += s.ID
		}
		require.Equal(t, want, got, most)
	}
	require.NotNil(t, Spikes{Spikes: []Spike{}}.Newest(20), "a list in JSON")
}

// What is under way when sidestep stops is kept, and lasts no longer: nobody would end it.
func TestStopKeepsRecords(t *testing.T) {
	b := newBench(t, 3, http.NotFoundHandler())
	b.set(0, "failing")
	eventually(t, func() bool { return len(b.Spikes().Spikes) == 1 })
	require.NoError(t, b.Stop(t.Context()))
	list := b.Spikes().Spikes
	require.Len(t, list, 1)
	require.NotNil(t, list[0].Ended)
	record, ok := b.Spike(list[0].ID)
	require.True(t, ok)
	require.Equal(t, list[0].Ended.UnixMilli(), record.Bouts[0].Ended.UnixMilli())
	_, ok = b.Folded(list[0].ID)
	require.True(t, ok)
	_, ok = b.Spike("none")
	require.False(t, ok)
}

// BenchmarkIdle is what a second of a quiet cluster costs: one look at the nodes, and
// five polls of each. The baseline's requests come on top, see BenchmarkBaseline.
func BenchmarkIdle(b *testing.B) {
	for _, nodes := range []int{5, 100, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			h, steady := NewHistory(), newBaseline()
			readings := make([]Reading, nodes)
			for i := range readings {
				readings[i] = Reading{ID: fmt.Sprintf("node-%d", i), State: "fine", Share: 0.1, Service: 2, Response: 3}
			}
			now := epoch
			b.ReportAllocs()
			for b.Loop() {
				for range 5 {
					for i := range readings {
						h.Poll(cluster.NodeStats{Node: readings[i].ID, Took: time.Millisecond, Queries: 10, ServiceTime: time.Millisecond})
					}
				}
				now = now.Add(time.Second)
				h.add(readings, now)
				steady.update(readings, now)
			}
		})
	}
}

// BenchmarkBaseline is what reading one node's counters costs, a real node's answer: one
// node of N is read every 10/N s, 5 a second at most.
func BenchmarkBaseline(b *testing.B) {
	answer := []byte(read(b, "testdata/stats_opensearch_3.6.0.json"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) }))
	b.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	require.NoError(b, err)
	client := &http.Client{Transport: &http.Transport{}}
	b.Cleanup(client.CloseIdleConnections)
	a := &querier{client: client, node: "m2nVjq1_R-mCGZJB-udrGQ", direct: base}
	b.ReportAllocs()
	for b.Loop() {
		_, _, err := a.stats(b.Context(), other{})
		require.NoError(b, err)
	}
}

// A stop does not wait for a disk that hangs.
func TestAStopIsBounded(t *testing.T) {
	b := newBench(t, 1, http.NotFoundHandler())
	hangs := make(chan struct{})
	b.saving.Go(func() { <-hangs })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, b.Stop(ended), "diagnosis.dir does not take them")
	close(hangs)
	require.NoError(t, b.Stop(t.Context()))
}
