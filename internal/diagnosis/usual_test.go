package diagnosis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// earlier is what a node did in trouble that lasted from -270 s to -30 s.
func earlier(at time.Duration, work func(c *Counters, ms int64)) Counters {
	c := counters(at)
	work(&c, min(max(at+270*time.Second, 0), 240*time.Second).Milliseconds())
	return c
}

// What comes again has its cause again: what the trouble did the first time is not what is usual.
func TestEarlierTroubleIsNotUsual(t *testing.T) {
	for want, work := range map[Cause]func(c *Counters, ms int64){
		CauseGC:      func(c *Counters, ms int64) { c.GC, c.GCTime = c.GC+ms/200, c.GCTime+ms*7/10 },
		CauseMerge:   func(c *Counters, ms int64) { c.Merges, c.MergeTime = c.Merges+ms/1000, c.MergeTime+ms*8/10 },
		CauseRefresh: func(c *Counters, ms int64) { c.RefreshTime += ms * 8 / 10 },
	} {
		for name, well := range map[string]time.Duration{"read three times since": 30 * time.Second, "read once since": 10 * time.Second, "of a sidestep that is new": 10 * time.Second} {
			b := newBaseline()
			from := -15 * time.Minute
			if name == "of a sidestep that is new" {
				from = -270 * time.Second
			}
			for at := from; at < 0; at += time.Second {
				state := "fine"
				if at >= -270*time.Second && at < -30*time.Second {
					state = "slow"
				}
				if at%baselineInterval == 0 && (at <= -270*time.Second || at >= -well) {
					b.put("n", earlier(at, work))
				}
				b.update([]Reading{{ID: "n", Share: 1, State: state}}, epoch.Add(at))
			}
			rec := scene()
			slowQueries(rec, 3)
			during(rec, func(c *Counters, ms int64) { work(c, ms+240_000) })
			rec.Stats = append(b.of("n"), rec.Stats[2:]...)
			causes := Assess(rec)
			require.NotEmpty(t, causes, "%s, %s", want, name)
			require.Equal(t, want, causes[0].Cause, "%s: %+v", name, causes)
			require.Greater(t, causes[0].Score, threshold, "%s, %s", want, name)
		}
	}
}

// Many a node is busy now and then: the readings of minutes ago count nevertheless.
func TestTroubleOfAMomentLeavesTheReadings(t *testing.T) {
	for troubled, want := range map[time.Duration]float64{2 * time.Second: 0.5, 2 * time.Minute: 0.01} {
		readings := []Counters{counters(-6 * time.Minute), counters(-time.Minute), counters(-20 * time.Second), counters(-10 * time.Second)}
		for i := range readings[1:] {
			readings[1+i].RefreshTime += 300_000 / 2
		}
		readings[1].troubled = troubled
		r, ok := usual(readings)
		require.True(t, ok)
		require.InDelta(t, want, r.Refresh, 0.1, troubled)
	}
}

// Whether a merge ends in half a minute is chance, so a reading of minutes ago is kept beside the latest.
func TestReadingsOfMinutesAgoAreKept(t *testing.T) {
	b := newBaseline()
	b.update([]Reading{{ID: "n", Share: 1}}, epoch)
	for at := time.Duration(0); at <= time.Hour; at += baselineInterval {
		b.put("n", counters(at))
		kept := b.of("n")
		last := kept[len(kept)-1].At
		require.Equal(t, epoch.Add(at), last.Time)
		if at <= time.Minute {
			continue
		}
		require.Len(t, kept, baselineKept)
		require.Equal(t, 2*baselineInterval, last.Sub(kept[baselineKept-3].At.Time))
		require.GreaterOrEqual(t, last.Sub(kept[0].At.Time), min(at, baselineFar))
		require.LessOrEqual(t, last.Sub(kept[0].At.Time), 2*baselineFar+4*baselineInterval)
	}
}

func TestRatesBetweenReadings(t *testing.T) {
	a, b := counters(0), counters(10*time.Second)
	r, ok := between(a, b)
	require.True(t, ok)
	require.InDelta(t, 100, r.Queries, 1)
	require.InDelta(t, 3, r.Service, 0.1)
	require.InDelta(t, 0.6, r.CPU, 0.01)
	b.MergeTime += time.Hour.Milliseconds()
	b.Merges = a.Merges + 1
	r, ok = between(a, b)
	require.True(t, ok)
	require.InDelta(t, 1, r.Merge, 0, "a merge of an hour that ended")
	_, ok = between(b, a)
	require.False(t, ok, "the node restarted, or time went back")
	b.QueryTime, b.Queries = 0, 0 // its shards left
	r, ok = between(a, b)
	require.True(t, ok)
	require.Zero(t, r.Query)
	require.Zero(t, r.Service)
}

// Each healthy node that serves searches is read once in an interval, those that were never read at once.
func TestEachNodeIsReadOnceInAnInterval(t *testing.T) {
	b := newBaseline()
	read := map[string]int{}
	for at := time.Duration(0); at < time.Minute; at += time.Second / baselineRate {
		b.update([]Reading{
			{ID: "a", Share: 0.5, State: "fine"}, {ID: "b", Share: 0.5, State: "ramping"},
			{ID: "slow", Share: 0.1, State: "slow"}, {ID: "idle", State: "fine"},
		}, epoch.Add(at))
		if node := b.due(baselineInterval, epoch.Add(at)); node != "" {
			read[node]++
		}
		if at == time.Second {
			require.Equal(t, map[string]int{"a": 1, "b": 1}, read)
		}
	}
	require.Equal(t, map[string]int{"a": 6, "b": 6}, read)
}

// seldom makes the readings of before those of a node that is read once in minutes, as in large clusters and fleets.
func seldom(rec *Record) {
	rec.Stats = append([]Counters{counters(-8 * time.Minute), counters(-260 * time.Second), counters(-100 * time.Second)}, rec.Stats[2:]...)
}

// What is compared with may be of minutes, or of an earlier bout.
func TestCausesBesideWhatIsUsual(t *testing.T) {
	for name, c := range map[string]struct {
		corrupt func(*Record)
		want    Cause
	}{
		"one collection after the other, of a node that is read once in minutes": {func(r *Record) {
			seldom(r)
			slowQueries(r, 6)
			during(r, func(c *Counters, ms int64) { c.GC, c.GCTime = c.GC+ms/200, c.GCTime+ms*7/10 })
		}, CauseGC},
		"refreshes that come once in half a minute as ever, of a node that is read once in minutes": {func(r *Record) {
			seldom(r)
			slowQueries(r, 3)
			for i := range r.Stats {
				r.Stats[i].RefreshTime = (r.Stats[i].Uptime + 27_000) / 30_000 * 9000
			}
		}, CauseUnknown},
		"long queue of slow queries, for the second time": {func(r *Record) {
			slowQueries(r, 10)
			during(r, func(c *Counters, _ int64) { c.Search.Queue, c.Search.Active = 180, 4 })
			first, over := Time{epoch.Add(-45 * time.Second)}, Time{epoch.Add(-4 * time.Second)}
			for i := range r.Samples.At {
				if at := r.Samples.At[i]; !at.Before(first.Time) && at.Before(epoch) {
					r.Samples.Nodes[0].Service[i] *= 10
				}
			}
			r.Began, r.Again, r.Bouts = first, 1, []Bout{{Began: first, Ended: &over}, r.Bouts[0]}
		}, CauseUnknown},
	} {
		rec := scene()
		c.corrupt(rec)
		rec.Causes = Assess(rec)
		cause, _, _ := verdict(rec)
		require.Equal(t, c.want, cause, "%s: %+v", name, rec.Causes)
	}
}
