package cluster

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestLearn(t *testing.T) {
	t.Parallel()
	f := newFake(t, 3)
	f.change(func() {
		f.indices = []Index{index("a", []string{"n1"}, []string{"n2"}), index("b", []string{"n3"})}
		f.targets[Target{"alias", ""}] = []ShardName{{"a", 0}, {"a", 1}}
		f.targets[Target{"alias", "r"}] = []ShardName{{"a", 1}}
		f.targets[Target{"a", "r"}] = []ShardName{{"a", 1}}
		f.targets[Target{"", ""}] = []ShardName{{"a", 0}, {"a", 1}, {"b", 0}}
		f.targets[Target{"<x-{now/d}>", ""}] = []ShardName{{"b", 0}}
		f.targets[Target{"red*", ""}] = []ShardName{{"b", 0}, {}}
	})
	w := f.watch(nil)
	w.resolves("a", "", []string{"n1"}, []string{"n2"})
	for _, target := range []Target{{"alias", "r"}, {"a", "r"}, {"", ""}, {"<x-{now/d}>", ""}, {"red*", ""}, {"none*", ""}} {
		_, miss := w.Snapshot().Resolve(target.Expression, target.Routing)
		if target.Expression != "a" {
			require.Equal(t, MissUnknownTarget, miss, target)
		}
		w.Learn(target.Expression, target.Routing)
	}
	w.resolves("alias", "r", []string{"n2"})
	w.resolves("alias", "", []string{"n1"}, []string{"n2"}) // learned besides
	w.resolves("a", "r", []string{"n2"})
	w.resolves("", "", []string{"n1"}, []string{"n2"}, []string{"n3"})
	w.resolves("<x-{now/d}>", "", []string{"n3"})
	w.missIs("red*", "", MissShardUnavailable)
	w.missIs("none*", "", MissEmptyTarget)

	// A relocation needs no learning.
	asked := f.count("/alias/_search_shards")
	at := w.Snapshot().Version
	f.change(func() { f.indices[0] = index("a", []string{"n3"}, []string{"n2"}) })
	w.eventually("moved", func() bool { return w.Snapshot().Version > at })
	require.Equal(t, [][]string{{"n3"}, {"n2"}}, nodesOf(w.Snapshot(), "alias", ""))
	require.LessOrEqual(t, f.count("/alias/_search_shards"), asked+2)
}

func TestTargetsInUseAreLearnedAgain(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2)
	f.change(func() {
		f.indices = []Index{index("a", []string{"n1"}), index("b", []string{"n2"})}
		f.targets[Target{"used", ""}] = []ShardName{{"a", 0}}
		f.targets[Target{"idle", ""}] = []ShardName{{"a", 0}}
	})
	w := f.watch(nil)
	w.resolves("a", "", []string{"n1"})
	w.Learn("used", "")
	w.Learn("idle", "")
	w.resolves("used", "", []string{"n1"})
	w.eventually("idle is learned", func() bool { return f.count("/idle/_search_shards") == 1 })
	f.change(func() { f.targets[Target{"used", ""}] = []ShardName{{"a", 0}, {"b", 0}} })
	w.resolves("used", "", []string{"n1"}, []string{"n2"})
	require.Equal(t, 1, f.count("/idle/_search_shards"))
	f.change(func() { delete(f.targets, Target{"used", ""}) })
	w.missIs("used", "", MissEmptyTarget)
}

func TestTargetsThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	f.change(func() { f.indices = []Index{index("a", []string{"n1"})} })
	f.on(func(_ *fakeNode, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/gone/_search_shards" {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		return false
	})
	w := f.watch(nil)
	w.resolves("a", "", []string{"n1"})
	learn := func() {
		for range 100 {
			w.Learn("gone", "")
			time.Sleep(time.Millisecond)
		}
	}
	learn()
	require.Equal(t, 1, f.count("/gone/_search_shards"), "not again at the same version")
	w.missIs("gone", "", MissUnknownTarget)
	f.on(nil)
	f.change(func() { f.targets[Target{"gone", ""}] = []ShardName{{"a", 0}} })
	w.eventually("learned now", func() bool {
		w.Learn("gone", "")
		return len(nodesOf(w.Snapshot(), "gone", "")) == 1
	})
}

func TestFailedLookUpsAreRepeatedOnDemand(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	f.change(func() {
		f.indices = []Index{index("a", []string{"n1"})}
		f.targets[Target{"x", ""}] = []ShardName{{"a", 0}}
	})
	f.on(func(_ *fakeNode, w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "_search_shards") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	w := f.watch(nil)
	w.resolves("a", "", []string{"n1"})
	w.Learn("x", "")
	w.eventually("asked", func() bool { return f.count("/x/_search_shards") > 0 })
	f.on(nil)
	w.eventually("learned", func() bool {
		w.Learn("x", "")
		return len(nodesOf(w.Snapshot(), "x", "")) == 1
	})
}

func TestLearnBeforeAnythingIsKnown(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	c.Learn("x", "")
	c.RefreshPlacement()
	require.Empty(t, c.school.queue)
	require.EqualError(t, c.Ready(), "the cluster has not answered yet")
}

func testSchool() *school {
	return newSchool(newMetrics(prometheus.NewPedanticRegistry(), func() time.Time { return time.Time{} }))
}

func TestSchoolIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := testSchool()
		for i := range unknownBurst + 5 {
			s.enrol(topic{Target: Target{Expression: strconv.Itoa(i)}}, 1)
			s.enrol(topic{Target: Target{Expression: strconv.Itoa(i)}}, 1)
		}
		require.Len(t, s.queue, unknownBurst)
		require.InDelta(t, 10, value(t, s.metrics.learns.WithLabelValues(string(learnThrottled))), 0)
		time.Sleep(time.Second)
		s.enrol(topic{Target: Target{Expression: strings.Repeat("x", maxTargetLength+1)}}, 1)
		require.Len(t, s.queue, unknownBurst)
		for i := range queueLength {
			s.renew(topic{Target: Target{Expression: strconv.Itoa(i)}})
		}
		require.Len(t, s.queue, queueLength)
		s.renew(topic{Target: Target{Expression: "one more"}})
		require.InDelta(t, 1, value(t, s.metrics.learns.WithLabelValues(string(learnDropped))), 0)
	})
}

func TestMemoryOfTargetsIsBounded(t *testing.T) {
	t.Parallel()
	s := testSchool()
	for i := range maxTargets + 5 {
		s.learned(topic{Target: Target{Expression: strconv.Itoa(i)}}, &lesson{shards: make([]ShardName, 1)})
	}
	require.Equal(t, maxTargets, s.forSnapshot().Len())
	require.Equal(t, maxTargets, s.shards)
	s.learned(topic{Target: Target{Expression: "wide"}}, &lesson{shards: make([]ShardName, maxTargetShards-100)})
	require.Equal(t, 101, s.forSnapshot().Len())
	require.Equal(t, maxTargetShards, s.shards)
	s.learned(topic{Target: Target{Expression: "wide"}}, &lesson{})
	require.Equal(t, 100, s.shards)
	s.dismiss()
	require.Zero(t, s.forSnapshot().Len())
	require.Zero(t, s.shards)
}

func TestTargetsInUseStay(t *testing.T) {
	t.Parallel()
	s := testSchool()
	now := time.Now()
	for i := range maxTargets {
		s.learned(topic{Target: Target{Expression: strconv.Itoa(i)}}, &lesson{shards: make([]ShardName, 1), version: 1, at: now})
	}
	used := topic{Target: Target{Expression: "0"}}
	known := s.forSnapshot()
	l, _ := known.Get(used)
	l.markUsed(now.Unix())
	require.Empty(t, s.outdated(1, now.Add(-time.Second), 50))
	s.learned(topic{Target: Target{Expression: "new"}}, &lesson{})
	kept := func(t topic) bool { _, ok := s.forSnapshot().Get(t); return ok }
	require.True(t, kept(used))
	require.False(t, kept(topic{Target: Target{Expression: "1"}}))
	require.Equal(t, maxTargets, known.Len(), "published snapshots do not change")

	l.markUsed(now.Unix())
	require.Equal(t, []topic{used}, s.outdated(2, now.Add(-time.Second), 50), "the version moved")
	require.Equal(t, []topic{used}, s.outdated(1, now.Add(time.Second), 50), "a long time ago")
	require.Empty(t, s.outdated(2, now, 0))
	require.False(t, s.learned(used, &lesson{shards: make([]ShardName, 1), version: 2, at: now.Add(time.Minute)}), "the same again is no news")
	require.Empty(t, s.outdated(2, now, 50))
}

func TestParseSearchShardsRefuses(t *testing.T) {
	t.Parallel()
	for _, body := range []string{``, `{"shards":[[{"index":"i","shard":-1}]]}`, `{"shards":[[{"shard":1}]]}`, `{"shards":{}}`} {
		_, _, err := parseSearchShards(strings.NewReader(body))
		require.Error(t, err, body)
	}
	shards, incomplete, err := parseSearchShards(strings.NewReader(`{}`))
	require.NoError(t, err)
	require.False(t, incomplete)
	require.Empty(t, shards)
}

// BenchmarkLearn takes in one target: its cost is to stay however many are known.
func BenchmarkLearn(b *testing.B) {
	for _, known := range []int{100, maxTargets} {
		s := testSchool()
		for i := range known {
			s.learned(topic{Target: Target{Expression: strconv.Itoa(i)}}, &lesson{})
		}
		b.Run(fmt.Sprintf("targets=%d", known), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.learned(topic{Target: Target{Expression: "7"}}, &lesson{incomplete: i%2 == 0})
				s.forSnapshot()
			}
		})
	}
}
