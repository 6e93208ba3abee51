package diagnosis

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// scene is a record of a node that was in trouble for ten seconds from epoch on, with
// figures as of a node that has nothing wrong.
func scene() *Record {
	ended := Time{epoch.Add(10 * time.Second)}
	rec := &Record{Spike: Spike{ID: "s", Node: "node-3", NodeID: "n3", Began: Time{epoch}, Ended: &ended, State: "slow"}}
	rec.Bouts = []Bout{{Began: rec.Began, Ended: &ended}}
	for _, at := range []time.Duration{-18 * time.Second, -8 * time.Second} {
		rec.Stats = append(rec.Stats, counters(at))
	}
	own, others := newNodeSeries(named{"n3", "node-3"}, 70), newNodeSeries(named{name: "median"}, 70)
	for i := range 70 {
		rec.Samples.At = append(rec.Samples.At, Time{epoch.Add(time.Duration(i-60) * time.Second)})
		for _, s := range []*NodeSeries{own, others} {
			s.Service[i], s.Poll[i], s.Probe[i], s.Queue[i], s.Response[i] = 3, 4, 5, 1, 6
		}
	}
	rec.Samples.Nodes = []NodeSeries{*own, *others}
	for i := range 9 {
		at := time.Duration(i)*time.Second + 300*time.Millisecond
		rec.Captures = append(rec.Captures, Capture{At: Time{epoch.Add(at)}, Took: ptr(5), Via: "node-1", ViaTook: ptr(7)})
		rec.Stats = append(rec.Stats, counters(at))
	}
	rec.Others = Rates{Elapsed: 10, Queries: 100, Service: 3, Query: 0.3, Fetch: 0.05, PerFetch: 1, Merge: 0.02, Refresh: 0.01, GC: 0.01, CPU: 0.6, OSCPU: 40}
	rec.HotThreads = []HotThreads{{At: Time{epoch.Add(time.Second)}, Threads: []Thread{
		{Name: "search", Pool: poolSearch, CPU: 30, Query: 8, Fetch: 1},
	}}}
	return rec
}

// counters are those of a node that serves a hundred queries of 3 ms each second.
func counters(at time.Duration) Counters {
	s := int64((at + time.Hour) / time.Millisecond) // ms since the start of the node
	return Counters{
		At: Time{epoch.Add(at)}, Clock: s + 77_000, Uptime: s, Queries: s / 10, QueryTime: s * 3 / 10, Fetches: s / 20, FetchTime: s / 20,
		Merges: s / 60_000, MergeTime: s / 50, Refreshes: s / 1000, RefreshTime: s / 100, GC: s / 5000, GCTime: s / 100,
		HeapUsed: 200 << 20, HeapMax: 512 << 20, CPUTime: s * 6 / 10, CPU: 30, OSCPU: 40, Quota: -1, Period: 100_000,
		Search: Pool{Threads: 4, Active: 1, Completed: s / 7},
	}
}

// during changes the counters of the spike; i counts from 0, and ms is since it began.
func during(rec *Record, change func(c *Counters, ms int64)) {
	for i := range rec.Stats {
		if c := &rec.Stats[i]; c.At.After(epoch) {
			change(c, c.At.Sub(epoch).Milliseconds())
		}
	}
}

// slowQueries makes queries during the spike take as long as this.
func slowQueries(rec *Record, factor float32) {
	for i := range rec.Samples.At {
		if !rec.Samples.At[i].Before(epoch) {
			rec.Samples.Nodes[0].Service[i] *= factor
		}
	}
	during(rec, func(c *Counters, ms int64) { c.QueryTime += int64(float64(ms) * 0.3 * float64(factor-1)) })
}

// silent replaces the captures of the first so many ms by one that nobody answered.
func silent(rec *Record, ms int64, err string) {
	rec.Captures = slices.DeleteFunc(rec.Captures, func(c Capture) bool { return c.At.Sub(epoch).Milliseconds() < ms })
	rec.Stats = slices.DeleteFunc(rec.Stats, func(c Counters) bool {
		d := c.At.Sub(epoch).Milliseconds()
		return d > 0 && d < ms
	})
	lost := Capture{At: Time{epoch.Add(10 * time.Millisecond)}, Took: ptr(float64(ms)), Error: err, Via: "node-1", ViaTook: ptr(float64(ms)), ViaError: err}
	rec.Captures = append([]Capture{lost}, rec.Captures...)
}

// unanswered makes all captures those of a node that answers on neither way.
func unanswered(rec *Record) {
	for i := range rec.Captures {
		c := &rec.Captures[i]
		c.Took, c.Error, c.ViaTook, c.ViaError = ptr(2000), deadline, ptr(2003), "node-1 got no answer from the node"
	}
	rec.Stats = rec.Stats[:2]
}

func took(rec *Record, direct, via float64) {
	for i := range rec.Captures {
		rec.Captures[i].Took, rec.Captures[i].ViaTook = ptr(direct), ptr(via)
	}
}

func lasting(rec *Record) { rec.Ended, rec.Bouts[0].Ended = nil, nil }

const deadline = "context deadline exceeded"

var causeCases = []struct {
	name    string
	corrupt func(*Record)
	want    Cause
	// over, if set, is another cause with evidence, which must score less.
	over Cause
}{
	{"nothing speaks", func(*Record) {}, CauseUnknown, ""},
	{"nothing was captured", func(r *Record) { *r = Record{Spike: r.Spike, Bouts: r.Bouts} }, CauseUnknown, ""},
	{"no captures were allowed", func(r *Record) {
		r.Captures, r.Stats, r.HotThreads = []Capture{{At: Time{epoch}, Notes: []string{"stats: not permitted"}}}, nil, nil
	}, CauseUnknown, ""},
	{"one long collection", func(r *Record) {
		silent(r, 1900, deadline)
		during(r, func(c *Counters, _ int64) { c.GC, c.GCTime, c.OldTime = c.GC+1, c.GCTime+1850, 1850 })
	}, CauseGC, CauseUnresponsive},
	{"one long collection, and one a few seconds before", func(r *Record) {
		silent(r, 1900, deadline)
		r.Stats = append([]Counters{counters(-5 * time.Minute)}, r.Stats...)
		for i := range r.Stats[2:] {
			r.Stats[2+i].GC, r.Stats[2+i].GCTime = r.Stats[2+i].GC+1, r.Stats[2+i].GCTime+2000
		}
		during(r, func(c *Counters, _ int64) { c.GC, c.GCTime = c.GC+1, c.GCTime+1850 })
	}, CauseGC, CauseUnresponsive},
	{"one long collection of a node that collects much as always", func(r *Record) {
		silent(r, 1900, deadline)
		for i := range r.Stats {
			r.Stats[i].GC, r.Stats[i].GCTime = r.Stats[i].Uptime/100, r.Stats[i].Uptime/5
		}
		during(r, func(c *Counters, _ int64) { c.GC, c.GCTime = c.GC+1, c.GCTime+1850 })
	}, CauseGC, CauseUnresponsive},
	{"stopped process, and more garbage than usual after that", func(r *Record) {
		silent(r, 3000, deadline)
		during(r, func(c *Counters, ms int64) {
			c.CPUTime -= 1800
			c.GC, c.GCTime = c.GC+(ms-3000)/500, c.GCTime+(ms-3000)*3/10
		})
	}, CausePause, CauseGC},
	{"silent, and it is not known whether it collected", func(r *Record) {
		silent(r, 3000, deadline)
		r.Stats, r.Others = r.Stats[2:], Rates{}
	}, CauseUnresponsive, CausePause},
	{"silent, with many short collections as always", func(r *Record) {
		silent(r, 1900, deadline)
		for i := range r.Stats {
			r.Stats[i].GC, r.Stats[i].GCTime = r.Stats[i].Uptime/100, r.Stats[i].Uptime*3/10
		}
	}, CauseUnresponsive, CauseGC},
	{"one collection after the other", func(r *Record) {
		slowQueries(r, 6)
		during(r, func(c *Counters, ms int64) { c.GC, c.GCTime = c.GC+ms/200, c.GCTime+ms*7/10 })
	}, CauseGC, ""},
	{"much garbage as always", func(r *Record) {
		for i := range r.Stats {
			r.Stats[i].GCTime = r.Stats[i].Uptime * 3 / 10
		}
	}, CauseUnknown, ""},
	{"silent after long without a reading", func(r *Record) {
		silent(r, 3000, deadline)
		r.Stats = slices.Delete(r.Stats, 0, 1)
		r.Stats[0] = counters(-8 * time.Minute)
	}, CauseUnresponsive, ""},
	{"stopped process", func(r *Record) {
		silent(r, 3000, deadline)
		during(r, func(c *Counters, _ int64) { c.CPUTime -= 1800 })
	}, CausePause, CauseUnresponsive},
	{"silent while it computes", func(r *Record) {
		silent(r, 3000, deadline)
		during(r, func(c *Counters, _ int64) { c.CPUTime += 2500 })
	}, CauseUnresponsive, ""},
	{"all nodes silent at once", func(r *Record) {
		silent(r, 3000, deadline)
		during(r, func(c *Counters, _ int64) { c.CPUTime -= 1800 })
		r.Bouts[0].Alike = 0.75
	}, CauseUnresponsive, CausePause},
	{"silent with a trickle of CPU", func(r *Record) {
		silent(r, 5000, deadline)
		during(r, func(c *Counters, _ int64) { c.CPUTime -= 2200 })
	}, CauseCPU, CauseUnresponsive},
	{"never answers", func(r *Record) { silent(r, 20_000, deadline); lasting(r) }, CauseUnresponsive, ""},
	{"connections refused", func(r *Record) {
		silent(r, 20_000, "connect: connection refused")
		r.Captures[0].Took = ptr(1)
		lasting(r)
	}, CauseUnresponsive, ""},
	{"restarted", func(r *Record) {
		silent(r, 4000, "connect: connection refused")
		during(r, func(c *Counters, ms int64) { *c = Counters{At: c.At, Clock: c.Clock, Uptime: ms - 3000} })
	}, CauseUnresponsive, ""},
	{"never answers, however often it is asked", func(r *Record) { unanswered(r); lasting(r) }, CauseUnresponsive, ""},
	{"answers with an error at once", func(r *Record) {
		unanswered(r)
		for i := range r.Captures {
			r.Captures[i].Took, r.Captures[i].Error, r.Captures[i].Status = ptr(3), "HTTP status 429", 429
		}
	}, CauseUnknown, ""},
	{"no right to ask", func(r *Record) {
		unanswered(r)
		for i := range r.Captures {
			c := &r.Captures[i]
			c.Took, c.Error, c.Status, c.ViaTook, c.ViaError, c.ViaStatus = ptr(3), "not permitted", 403, ptr(3), "not permitted", 403
		}
	}, CauseUnknown, ""},
	{"everything slow alike, on most nodes", func(r *Record) { slowQueries(r, 8); took(r, 300, 280); r.Bouts[0].Alike = 0.75 }, CauseUnknown, ""},
	{"everything slow alike but queries, as over a slow network", func(r *Record) { took(r, 300, 280) }, CauseUnknown, ""},
	{"everything slow alike, and no query ends", func(r *Record) {
		took(r, 600, 600)
		during(r, func(c *Counters, ms int64) { c.Queries, c.QueryTime = c.Queries-ms/10, c.QueryTime-ms*3/10 })
	}, CauseCPU, ""},
	{"everything slow alike, and no query is known", func(r *Record) {
		took(r, 300, 280)
		for i := range r.Samples.Nodes {
			clear(r.Samples.Nodes[i].Service)
		}
		for i := range r.Stats {
			r.Stats[i].Queries, r.Stats[i].QueryTime = 0, 0
		}
	}, CauseCPU, ""},
	{"restarted long before", func(r *Record) {
		for i := range r.Stats[:2] {
			r.Stats[i].Uptime += (10 * time.Hour).Milliseconds()
		}
	}, CauseUnknown, ""},
	{"slow transport", func(r *Record) { took(r, 6, 310) }, CauseTransport, ""},
	{"one answer through another node is late", func(r *Record) { r.Captures = r.Captures[:1]; took(r, 40, 160) }, CauseUnknown, CauseTransport},
	{"no answer over HTTP, once", func(r *Record) { r.Captures = r.Captures[:1]; took(r, 2000, 6); r.Captures[0].Error = deadline }, CauseHTTP, ""},
	{"slow transport of most nodes", func(r *Record) { took(r, 6, 310); r.Bouts[0].Alike = 0.75 }, CauseTransport, ""},
	{"most nodes slow, and so those that are asked about it", func(r *Record) { took(r, 590, 3004); r.Bouts[0].Alike = 1 }, CauseUnknown, ""},
	{"most nodes slow, and it more than those that are asked about it", func(r *Record) { took(r, 2000, 590); r.Bouts[0].Alike = 1 }, CauseUnknown, ""},
	{"slow transport, node without address", func(r *Record) {
		for i := range r.Captures {
			r.Captures[i].Took = nil
		}
		for i := range 10 {
			r.Samples.Nodes[0].Probe[60+i] = 300
		}
	}, CauseTransport, ""},
	{"slow HTTP", func(r *Record) { took(r, 420, 8) }, CauseHTTP, ""},
	{"HTTP refused", func(r *Record) {
		for i := range r.Captures {
			r.Captures[i].Took, r.Captures[i].Error = ptr(1), "connect: connection refused"
		}
	}, CauseHTTP, ""},
	{"CPU quota", func(r *Record) {
		slowQueries(r, 20)
		took(r, 500, 420)
		during(r, func(c *Counters, ms int64) { c.Quota, c.Periods, c.Throttled = 5000, ms/100, ms/103; c.GCTime += 600 })
	}, CauseCPU, ""},
	{"CPU quota and a merge", func(r *Record) {
		slowQueries(r, 20)
		during(r, func(c *Counters, ms int64) {
			c.Quota, c.Periods, c.Throttled, c.MergesNow = 50_000, ms/100, ms/103, 1
		})
	}, CauseCPU, CauseMerge},
	{"a merge that takes all of a large quota", func(r *Record) {
		slowQueries(r, 20)
		during(r, func(c *Counters, ms int64) {
			c.Quota, c.Periods, c.Throttled, c.MergesNow = 150_000, ms/100, ms/103, 1
		})
		r.HotThreads[0].Threads = append(r.HotThreads[0].Threads, Thread{Name: "merge", Pool: poolMerge, CPU: 45})
	}, CauseMerge, CauseCPU},
	{"merge threads that take most of a small quota", func(r *Record) {
		slowQueries(r, 20)
		during(r, func(c *Counters, ms int64) {
			c.Quota, c.Periods, c.Throttled, c.MergesNow = 30_000, ms/100, ms/103, 1
		})
		r.HotThreads[0].Threads = append(r.HotThreads[0].Threads, Thread{Name: "merge", Pool: poolMerge, CPU: 26})
	}, CauseMerge, CauseCPU},
	{"a flood of searches that takes all of a large quota", func(r *Record) {
		slowQueries(r, 5)
		during(r, func(c *Counters, ms int64) {
			c.Quota, c.Periods, c.Throttled, c.Search.Rejected = 150_000, ms/100, ms/103, ms/20
		})
	}, CauseQueue, CauseCPU},
	{"a busy neighbour", func(r *Record) {
		slowQueries(r, 5)
		during(r, func(c *Counters, _ int64) { c.OSCPU, c.CPU = 100, 12 })
	}, CauseCPU, ""},
	{"a machine that is always busy", func(r *Record) {
		for i := range r.Stats {
			r.Stats[i].OSCPU, r.Stats[i].CPU = 100, 12
		}
		r.Others.OSCPU = 100
	}, CauseUnknown, ""},
	{"everything slow alike", func(r *Record) { slowQueries(r, 8); took(r, 300, 280) }, CauseCPU, ""},
	{"forced merge", func(r *Record) {
		slowQueries(r, 4)
		during(r, func(c *Counters, _ int64) { c.MergesNow, c.MergingNow, c.CPU, c.OSCPU = 1, 3<<30, 96, 97 })
		r.HotThreads[0].Threads = append(r.HotThreads[0].Threads, Thread{Name: "merge", Pool: poolMerge, CPU: 92})
		for i := range 10 {
			r.Samples.Nodes[0].Queue[60+i] = 60
		}
	}, CauseMerge, CauseQueue},
	{"merges everywhere", func(r *Record) {
		r.Others.Merge = 0.6
		during(r, func(c *Counters, ms int64) { c.MergesNow = 1; c.MergeTime += ms / 2 })
	}, CauseUnknown, ""},
	{"merges as ever, of which a long one ends", func(r *Record) {
		slowQueries(r, 4)
		r.Stats = append([]Counters{counters(-8 * time.Minute)}, r.Stats...)
		for i := range r.Stats { // one after the other, a minute each, which counts when it ends
			c := &r.Stats[i]
			c.MergesNow, c.MergingNow, c.MergeTime = 1, 3<<30, c.Uptime/60_000*60_000
		}
		r.HotThreads[0].Threads = append(r.HotThreads[0].Threads, Thread{Name: "merge", Pool: poolMerge, CPU: 80})
	}, CauseUnknown, ""},
	{"slow transport, while a merge runs as for a fourth of the time", func(r *Record) {
		took(r, 6, 310)
		r.Stats = append([]Counters{counters(-8 * time.Minute)}, r.Stats...)
		for i := range r.Stats {
			c := &r.Stats[i]
			c.Merges, c.MergeTime, c.MergesNow, c.MergingNow = c.Uptime/4000, c.Uptime/4, 1, 10<<20
		}
		r.HotThreads[0].Threads = append(r.HotThreads[0].Threads, Thread{Name: "merge", Pool: poolMerge, CPU: 85})
	}, CauseTransport, CauseMerge},
	{"a busy neighbour, while an index is refreshed as for a fourth of the time", func(r *Record) {
		slowQueries(r, 5)
		during(r, func(c *Counters, _ int64) { c.OSCPU, c.CPU = 100, 12 })
		for i := range r.Stats {
			r.Stats[i].RefreshTime = r.Stats[i].Uptime / 4
		}
		r.HotThreads[0].Threads = append(r.HotThreads[0].Threads, Thread{Name: "refresh", Pool: poolRefresh, CPU: 85})
	}, CauseCPU, CauseRefresh},
	{"merges, and it is not known what is usual", func(r *Record) {
		r.Stats, r.Others = r.Stats[2:], Rates{}
		during(r, func(c *Counters, ms int64) { c.MergesNow = 1; c.MergeTime += ms / 2 })
	}, CauseUnknown, CauseMerge},
	{"refreshes, and it is not known what is usual", func(r *Record) {
		r.Stats, r.Others = r.Stats[2:], Rates{}
		during(r, func(c *Counters, ms int64) { c.RefreshTime += ms * 8 / 10 })
	}, CauseUnknown, CauseRefresh},
	{"fetches, and it is not known what is usual", func(r *Record) {
		r.Stats, r.Others = r.Stats[2:], Rates{}
		during(r, func(c *Counters, ms int64) { c.FetchTime += ms * 2 })
	}, CauseUnknown, CauseFetch},
	{"refreshes", func(r *Record) {
		slowQueries(r, 3)
		during(r, func(c *Counters, ms int64) { c.RefreshTime += ms * 8 / 10 })
	}, CauseRefresh, ""},
	{"refreshes that come once in half a minute, as ever", func(r *Record) {
		slowQueries(r, 3)
		r.Stats = append([]Counters{counters(-8 * time.Minute)}, r.Stats...)
		for i := range r.Stats {
			r.Stats[i].RefreshTime = (r.Stats[i].Uptime + 27_000) / 30_000 * 9000
		}
	}, CauseUnknown, CauseRefresh},
	{"more refreshes than in half a minute", func(r *Record) {
		slowQueries(r, 3)
		r.Stats = append([]Counters{counters(-8 * time.Minute)}, r.Stats...)
		for i := range r.Stats {
			r.Stats[i].RefreshTime = (r.Stats[i].Uptime + 27_000) / 30_000 * 1500
		}
		during(r, func(c *Counters, ms int64) { c.RefreshTime += ms * 8 / 10 })
	}, CauseRefresh, ""},
	{"fetches in merged segments", func(r *Record) {
		during(r, func(c *Counters, ms int64) { c.FetchTime += ms * 2 })
		r.HotThreads[0].Threads[0].Fetch, r.HotThreads[0].Threads[0].Query = 9, 1
		for i := range 10 {
			r.Samples.Nodes[0].Queue[60+i] = 50
		}
	}, CauseFetch, CauseQueue},
	{"fetches that are cancelled", func(r *Record) {
		r.HotThreads[0].Threads[0].Fetch, r.HotThreads[0].Threads[0].Query = 10, 0
	}, CauseFetch, ""},
	{"fetches as always", func(r *Record) {
		for i := range r.Stats {
			r.Stats[i].FetchTime = r.Stats[i].Uptime
		}
		r.HotThreads[0].Threads[0].Fetch, r.HotThreads[0].Threads[0].Query = 8, 2
	}, CauseUnknown, ""},
	{"rejections", func(r *Record) {
		during(r, func(c *Counters, ms int64) { c.Search.Rejected, c.Search.Queue, c.Search.Active = ms/10, 1000, 4 })
	}, CauseQueue, ""},
	{"rejections at some time in minutes", func(r *Record) {
		r.Stats = slices.Delete(r.Stats, 0, 1)
		r.Stats[0] = counters(-8 * time.Minute)
		during(r, func(c *Counters, _ int64) { c.Search.Rejected = 50 })
	}, CauseUnknown, ""},
	{"long queue", func(r *Record) {
		during(r, func(c *Counters, _ int64) { c.Search.Queue, c.Search.Active = 180, 4 })
	}, CauseQueue, ""},
	{"a queue as long as that of a busy node, without counters", func(r *Record) {
		r.Captures, r.Stats, r.HotThreads = nil, nil, nil
		for i := range r.Samples.At {
			r.Samples.Nodes[0].Queue[i], r.Samples.Nodes[0].Active[i] = 40, 13
		}
	}, CauseUnknown, ""},
	{"a long queue, without counters", func(r *Record) {
		r.Captures, r.Stats, r.HotThreads = nil, nil, nil
		for i := range r.Samples.At {
			r.Samples.Nodes[0].Queue[i], r.Samples.Nodes[0].Active[i] = 140, 13
		}
	}, CauseQueue, ""},
	{"never answers, with searches in its queue", func(r *Record) {
		silent(r, 20_000, deadline)
		lasting(r)
		for i := range 60 {
			r.Samples.Nodes[0].Queue[i] = 12
		}
	}, CauseUnresponsive, ""},
	{"never answers, with a long queue", func(r *Record) {
		silent(r, 20_000, deadline)
		lasting(r)
		for i := range 60 {
			r.Samples.Nodes[0].Queue[i] = 120
		}
	}, CauseUnresponsive, CauseQueue},
	{"long queue of slow queries", func(r *Record) {
		slowQueries(r, 10)
		during(r, func(c *Counters, _ int64) { c.Search.Queue, c.Search.Active = 180, 4 })
	}, CauseUnknown, ""},
}

func TestCauses(t *testing.T) {
	for _, c := range causeCases {
		t.Run(c.name, func(t *testing.T) {
			rec := scene()
			c.corrupt(rec)
			rec.Causes = Assess(rec)
			cause, evidence, summary := verdict(rec)
			require.Equal(t, c.want, cause, "%+v", rec.Causes)
			require.Contains(t, summary, cause.meaning())
			t.Log(summary)
			if cause == CauseUnknown {
				require.Empty(t, evidence)
			} else {
				require.NotEmpty(t, evidence)
			}
			for _, s := range rec.Causes {
				require.True(t, s.Score > 0 && s.Score <= 1, "%+v", s)
				for _, e := range s.Evidence {
					require.False(t, math.IsNaN(e.Value) || math.IsInf(e.Value, 0), "%+v", s)
				}
			}
			if c.over != "" {
				require.True(t, slices.ContainsFunc(rec.Causes, func(s ScoredCause) bool { return s.Cause == c.over }), "%+v", rec.Causes)
			}
		})
	}
}

// What did not answer has no response time.
func TestNoAnswerIsNoResponseTime(t *testing.T) {
	for want, change := range map[string]func(*Capture){
		"response time over HTTP: 420 ms":            func(c *Capture) { c.Took = ptr(420) },
		"no answer over HTTP within: 2000 ms":        func(c *Capture) { c.Took, c.Error = ptr(2000), deadline },
		"connections over HTTP refused or broken: 9": func(c *Capture) { c.Took, c.Error = ptr(1), "connect: connection refused" },
		"no answer through other nodes within: 2000 ms": func(c *Capture) {
			c.ViaTook, c.ViaError = ptr(2), "node-1 got no answer from the node"
		},
	} {
		rec := scene()
		for i := range rec.Captures {
			change(&rec.Captures[i])
		}
		rec.Causes = Assess(rec)
		_, _, summary := verdict(rec)
		require.Contains(t, summary, "("+want+", response time ")
	}
}

// The second bout has a cause, the first one, half a minute earlier, has none.
func TestCauseOfTheSecondBout(t *testing.T) {
	rec := scene()
	early := Time{epoch.Add(-40 * time.Second)}
	over := Time{epoch.Add(-38 * time.Second)}
	rec.Began, rec.Again = early, 1
	rec.Bouts = append([]Bout{{Began: early, Ended: &over}}, rec.Bouts...)
	rec.Captures = append([]Capture{{At: early, Took: ptr(4), ViaTook: ptr(5)}}, rec.Captures...)
	require.Empty(t, Assess(rec))
	during(rec, func(c *Counters, ms int64) { c.RefreshTime += ms * 8 / 10 })
	require.Equal(t, CauseRefresh, Assess(rec)[0].Cause)
}

// A node that flaps for the same cause each time: what it did in an earlier bout is not
// normal.
func TestCauseOfBoutsThatAreAlike(t *testing.T) {
	rec := scene()
	over, again := Time{epoch.Add(1500 * time.Millisecond)}, Time{epoch.Add(3500 * time.Millisecond)}
	rec.Bouts = []Bout{{Began: rec.Began, Ended: &over}, {Began: again, Ended: rec.Ended}}
	during(rec, func(c *Counters, ms int64) { c.RefreshTime += ms * 8 / 10 })
	require.Equal(t, CauseRefresh, Assess(rec)[0].Cause)
}
