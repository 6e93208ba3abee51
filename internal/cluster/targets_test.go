package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func testTargets() *Targets {
	return newTargets(newStoreMetrics(prometheus.NewPedanticRegistry(), func() time.Time { return time.Time{} }))
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := testTargets()
		for i := range unknownBurst + 5 {
			s.enqueue(LookUp{Target: Target{Expression: strconv.Itoa(i)}}, 1)
			s.enqueue(LookUp{Target: Target{Expression: strconv.Itoa(i)}}, 1)
		}
		require.Len(t, s.fresh, unknownBurst)
		require.InDelta(t, 10, testutil.ToFloat64(s.metrics.lookUps.WithLabelValues(lookUpThrottled)), 0)
		time.Sleep(time.Second)
		s.enqueue(LookUp{Target: Target{Expression: strings.Repeat("x", maxTargetLength+1)}}, 1)
		require.Len(t, s.fresh, unknownBurst)
		for i := range queueLength {
			s.renew(LookUp{Target: Target{Expression: strconv.Itoa(i)}})
		}
		require.Len(t, s.fresh, queueLength)
		s.renew(LookUp{Target: Target{Expression: "one more"}})
		require.InDelta(t, 1, testutil.ToFloat64(s.metrics.lookUps.WithLabelValues(lookUpDropped)), 0)
	})
}

func TestMemoryOfTargetsIsBounded(t *testing.T) {
	t.Parallel()
	s := testTargets()
	for i := range maxMissing + 10 {
		s.LookedUp(LookUp{Target: Target{Expression: strconv.Itoa(i)}}, &Resolved{Unknown: true})
	}
	require.Equal(t, maxMissing, s.missing.Len())
	for i := range maxTargets + 5 {
		s.LookedUp(LookUp{Target: Target{Expression: strconv.Itoa(i)}}, &Resolved{Shards: make([]ShardName, 1)})
	}
	require.Equal(t, maxTargets, s.forSnapshot().Len())
	require.Equal(t, maxTargets, s.shards)
	s.LookedUp(LookUp{Target: Target{Expression: "wide"}}, &Resolved{Shards: make([]ShardName, maxTargetShards-100)})
	require.Equal(t, 101, s.forSnapshot().Len())
	require.Equal(t, maxTargetShards, s.shards)
	s.LookedUp(LookUp{Target: Target{Expression: "wide"}}, &Resolved{})
	require.Equal(t, 100, s.shards)
	s.clear()
	require.Zero(t, s.forSnapshot().Len())
	require.Zero(t, s.shards)
}

func TestTargetsInUseStay(t *testing.T) {
	t.Parallel()
	s := testTargets()
	now := time.Now()
	for i := range maxTargets {
		s.LookedUp(LookUp{Target: Target{Expression: strconv.Itoa(i)}}, &Resolved{Shards: make([]ShardName, 1), Version: 1, At: now})
	}
	used := LookUp{Target: Target{Expression: "0"}}
	known := s.forSnapshot()
	l, _ := known.Get(used)
	l.markUsed(now.Unix())
	require.Empty(t, s.outdated(1, now.Add(-time.Second), 50))
	s.LookedUp(LookUp{Target: Target{Expression: "new"}}, &Resolved{})
	kept := func(t LookUp) bool { _, ok := s.forSnapshot().Get(t); return ok }
	require.True(t, kept(used))
	require.False(t, kept(LookUp{Target: Target{Expression: "1"}}))
	require.Equal(t, maxTargets, known.Len(), "published snapshots do not change")

	l.markUsed(now.Unix())
	require.Equal(t, []LookUp{used}, s.outdated(2, now.Add(-time.Second), 50), "the version moved")
	require.Equal(t, []LookUp{used}, s.outdated(1, now.Add(time.Second), 50), "a long time ago")
	require.Empty(t, s.outdated(2, now, 0))
	require.False(t, s.LookedUp(used, &Resolved{Shards: make([]ShardName, 1), Version: 2, At: now.Add(time.Minute)}), "the same again is no news")
	require.Empty(t, s.outdated(2, now, 50))
}

// What was used within the minute is not pushed out by what clients make up: neither by
// many targets nor by wide ones.
func TestTargetsInUseAreNotPushedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := testTargets()
		learn := func(name string, shards int) LookUp {
			about := LookUp{Target: Target{Expression: name}}
			s.LookedUp(about, &Resolved{Shards: make([]ShardName, shards), Version: 1, At: time.Now()})
			return about
		}
		kept := func(t LookUp) bool { _, ok := s.forSnapshot().Get(t); return ok }
		use := func(t LookUp) {
			l, _ := s.forSnapshot().Get(t)
			l.markUsed(time.Now().Unix())
		}
		used, once := learn("used", 1000), learn("once", 1000)
		use(used)
		use(once)
		nothing := learn("nothing", 0)
		use(nothing)
		time.Sleep(30 * time.Second)
		use(used)
		for i := range 100 {
			wide := learn(fmt.Sprintf("wide-%d", i), maxTargetShards/5)
			require.True(t, kept(wide))
		}
		require.True(t, kept(used))
		require.True(t, kept(once), "used half a minute ago")
		require.False(t, kept(nothing), "it does not resolve")
		time.Sleep(40 * time.Second)
		for i := range 2 * maxTargets {
			learn(fmt.Sprintf("many-%d", i), 1)
		}
		require.True(t, kept(used))
		require.False(t, kept(once), "used more than a minute ago")
		require.Equal(t, maxTargets, s.forSnapshot().Len())

		for i := range maxTargets { // of those in use the longest known go
			use(learn(fmt.Sprintf("busy-%d", i), 1))
		}
		require.True(t, kept(learn("new", 1)))
		require.Equal(t, maxTargets, s.forSnapshot().Len())
	})
}

// BenchmarkLearn takes in one target: its cost is to stay however many are known.
func BenchmarkLearn(b *testing.B) {
	for _, known := range []int{100, maxTargets} {
		s := testTargets()
		for i := range known {
			s.LookedUp(LookUp{Target: Target{Expression: strconv.Itoa(i)}}, &Resolved{})
		}
		b.Run(fmt.Sprintf("targets=%d", known), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.LookedUp(LookUp{Target: Target{Expression: "7"}}, &Resolved{Incomplete: i%2 == 0})
				s.forSnapshot()
			}
		})
	}
}

// However fast the version of the cluster state moves, each target in use has its turn, the one that waits longest first.
func TestEachTargetInUseIsLookedUpAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := testTargets()
		const targets, atOnce = 25, 10
		find := func(about LookUp, version int64) {
			s.LookedUp(about, &Resolved{Shards: make([]ShardName, 1), Version: version, At: time.Now()})
		}
		for i := range targets {
			find(LookUp{Target: Target{Expression: strconv.Itoa(i)}}, 1)
		}
		again := map[LookUp]bool{}
		for version := int64(2); version < 5; version++ {
			time.Sleep(time.Second)
			for i := range targets {
				l, _ := s.forSnapshot().Get(LookUp{Target: Target{Expression: strconv.Itoa(i)}})
				l.markUsed(time.Now().Unix())
			}
			for _, about := range s.outdated(version, time.Now().Add(-lookUpMaxAge), atOnce) {
				again[about] = true
				find(about, version)
			}
		}
		require.Len(t, again, targets)
	})
}

// What a target stood for is believed at this version, for a moment after it was looked up, and while it is in use, as it
// is looked up again then. It is not if nobody has used it since the version moved.
func TestATargetThatNobodyUsedIsNotBelieved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := testTargets()
		about := LookUp{Target: Target{Expression: "logs-*"}}
		known := func(version int64) bool { return s.upToDate(about, version, time.Now()) != nil }
		require.False(t, known(1))
		s.LookedUp(about, &Resolved{Shards: make([]ShardName, 1), Version: 1, At: time.Now()})
		require.True(t, known(2), "just now")
		time.Sleep(24 * time.Hour)
		require.True(t, known(1), "nothing has changed")
		require.False(t, known(2))
		l, _ := s.forSnapshot().Get(about)
		l.markUsed(time.Now().Unix())
		require.False(t, known(2), "it is too old")
		s.LookedUp(about, &Resolved{Shards: make([]ShardName, 1), Version: 2, At: time.Now()})
		time.Sleep(2 * justNow)
		require.True(t, known(3), "it is in use")
		require.Empty(t, s.outdated(2, time.Now().Add(-lookUpMaxAge), 1))
		require.False(t, known(3), "it is not any more")
	})
}

// What a look-up costs bounds how often it is made again, here and for others, who are told what is known meanwhile.
func TestDearTargetsAreLookedUpAgainRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := testTargets()
		about := LookUp{Target: Target{Expression: "logs-*"}}
		s.LookedUp(about, &Resolved{Shards: make([]ShardName, 1), Version: 1, At: time.Now(), Took: time.Second})
		l, _ := s.forSnapshot().Get(about)
		l.markUsed(time.Now().Unix())
		due := func() []LookUp { return s.outdated(2, time.Now().Add(-lookUpMaxAge), 1) }
		time.Sleep(lookUpCostFactor*time.Second - 1)
		require.Empty(t, due())
		require.NotNil(t, s.recall(about, 2, time.Now()))
		time.Sleep(time.Nanosecond)
		require.Nil(t, s.recall(about, 2, time.Now()))
		require.Equal(t, []LookUp{about}, due())
		s.LookedUp(about, &Resolved{Failed: true, At: time.Now(), Took: time.Second})
		require.Empty(t, due())
		require.False(t, s.Admits(about))
		time.Sleep((1 + lookUpCostFactor) * time.Second)
		require.Equal(t, []LookUp{about}, due())
		require.True(t, s.Admits(about))
	})
}
