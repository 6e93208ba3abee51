package diagnosis

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// statsQuery asks a node for the counters below and nothing else. It follows "_nodes/ID".
const statsQuery = "/stats/thread_pool,indices,jvm,os,process,breaker,fs/search,merge,refresh,flush,indexing?filter_path=nodes.*.timestamp," +
	"nodes.*.indices.search.query_*,nodes.*.indices.search.fetch_*," +
	"nodes.*.indices.merges.current,nodes.*.indices.merges.current_size_in_bytes,nodes.*.indices.merges.total,nodes.*.indices.merges.total_time_in_millis," +
	"nodes.*.indices.merges.total_size_in_bytes," +
	"nodes.*.indices.refresh.total,nodes.*.indices.refresh.total_time_in_millis," +
	"nodes.*.indices.flush.total,nodes.*.indices.flush.total_time_in_millis," +
	"nodes.*.indices.indexing.index_total,nodes.*.indices.indexing.index_time_in_millis," +
	"nodes.*.jvm.uptime_in_millis,nodes.*.jvm.mem.heap_used_in_bytes,nodes.*.jvm.mem.heap_max_in_bytes,nodes.*.jvm.gc," +
	"nodes.*.os.cpu.percent,nodes.*.os.cpu.load_average.1m,nodes.*.os.cgroup.cpu," +
	"nodes.*.process.cpu.percent,nodes.*.process.cpu.total_in_millis," +
	"nodes.*.thread_pool.search,nodes.*.thread_pool.search_worker,nodes.*.thread_pool.write,nodes.*.thread_pool.management," +
	"nodes.*.breakers.*.tripped,nodes.*.breakers.parent.estimated_size_in_bytes,nodes.*.breakers.parent.limit_size_in_bytes," +
	"nodes.*.fs.io_stats.total"

// Counters are a node's own figures, from one answer. Totals count from the start of the
// node; what the node does not report is 0.
type Counters struct {
	// At is when the answer arrived. Clock is when the node made it, by its own clock, in
	// ms since 1970. Clocks differ, so only differences of Clock are used.
	At    Time  `json:"at"`
	Clock int64 `json:"clock_ms"`
	// Via is the node that was asked about it; empty if the node itself answered.
	Via    string `json:"via,omitempty"`
	Uptime int64  `json:"uptime_ms"`

	Queries     int64 `json:"queries"`
	QueryTime   int64 `json:"query_ms"`
	QueriesNow  int64 `json:"queries_current"`
	Fetches     int64 `json:"fetches"`
	FetchTime   int64 `json:"fetch_ms"`
	FetchesNow  int64 `json:"fetches_current"`
	Merges      int64 `json:"merges"`
	MergeTime   int64 `json:"merge_ms"`
	MergeBytes  int64 `json:"merge_bytes"`
	MergesNow   int64 `json:"merges_current"`
	MergingNow  int64 `json:"merges_current_bytes"`
	Refreshes   int64 `json:"refreshes"`
	RefreshTime int64 `json:"refresh_ms"`
	Flushes     int64 `json:"flushes"`
	FlushTime   int64 `json:"flush_ms"`
	Indexed     int64 `json:"indexed"`
	IndexTime   int64 `json:"index_ms"`

	GC       int64 `json:"gc"` // of all collectors
	GCTime   int64 `json:"gc_ms"`
	OldGC    int64 `json:"gc_old"`
	OldTime  int64 `json:"gc_old_ms"`
	HeapUsed int64 `json:"heap_used_bytes"`
	HeapMax  int64 `json:"heap_max_bytes"`

	CPUTime    int64   `json:"cpu_ms"`      // of the process
	CPU        int64   `json:"cpu_percent"` // of the process, of all processors
	OSCPU      int64   `json:"os_cpu_percent"`
	Load       float64 `json:"load_1m"`
	Quota      int64   `json:"cpu_quota_us"`  // in each period, 0 or below: none
	Period     int64   `json:"cpu_period_us"` // of the quota
	Periods    int64   `json:"cpu_periods"`
	Throttled  int64   `json:"cpu_periods_throttled"`
	ThrottleNS int64   `json:"cpu_throttled_ns"`

	Search     Pool  `json:"search_pool"`
	Worker     Pool  `json:"search_worker_pool,omitzero"` // Elasticsearch 8.10 to 8.15
	Write      Pool  `json:"write_pool"`
	Management Pool  `json:"management_pool"`
	Tripped    int64 `json:"breakers_tripped"`
	Breaker    int64 `json:"parent_breaker_bytes"`
	Limit      int64 `json:"parent_breaker_limit_bytes"`

	IOs     int64 `json:"io_operations"`
	ReadKB  int64 `json:"io_read_kb"`
	WriteKB int64 `json:"io_write_kb"`

	// troubled is how long the node was in trouble since the reading before, of those of the baseline.
	troubled time.Duration
}

// started is when the node's process began.
func (c Counters) started() time.Time { return c.At.Add(-time.Duration(c.Uptime) * time.Millisecond) }

// Pool is a thread pool.
type Pool struct {
	Threads   int64 `json:"threads"`
	Queue     int64 `json:"queue"`
	Active    int64 `json:"active"`
	Rejected  int64 `json:"rejected"`
	Completed int64 `json:"completed"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(data []byte) (err error) {
	t.Time, err = time.Parse(`"`+time.RFC3339Nano+`"`, string(data))
	return err
}

// rawNode is a node in the answer of _nodes/stats, as the engines write it.
type rawNode struct {
	Timestamp int64 `json:"timestamp"`
	Indices   struct {
		Search struct {
			QueryTotal   int64 `json:"query_total"`
			QueryMillis  int64 `json:"query_time_in_millis"`
			QueryCurrent int64 `json:"query_current"`
			FetchTotal   int64 `json:"fetch_total"`
			FetchMillis  int64 `json:"fetch_time_in_millis"`
			FetchCurrent int64 `json:"fetch_current"`
		} `json:"search"`
		Merges struct {
			Current      int64 `json:"current"`
			CurrentBytes int64 `json:"current_size_in_bytes"`
			Total        int64 `json:"total"`
			Millis       int64 `json:"total_time_in_millis"`
			Bytes        int64 `json:"total_size_in_bytes"`
		} `json:"merges"`
		Refresh  rawWork `json:"refresh"`
		Flush    rawWork `json:"flush"`
		Indexing struct {
			Total  int64 `json:"index_total"`
			Millis int64 `json:"index_time_in_millis"`
		} `json:"indexing"`
	} `json:"indices"`
	JVM struct {
		Uptime int64 `json:"uptime_in_millis"`
		Mem    struct {
			Used int64 `json:"heap_used_in_bytes"`
			Max  int64 `json:"heap_max_in_bytes"`
		} `json:"mem"`
		GC struct {
			Collectors map[string]struct {
				Count  int64 `json:"collection_count"`
				Millis int64 `json:"collection_time_in_millis"`
			} `json:"collectors"`
		} `json:"gc"`
	} `json:"jvm"`
	OS struct {
		CPU struct {
			Percent int64 `json:"percent"`
			Load    struct {
				Minute float64 `json:"1m"`
			} `json:"load_average"`
		} `json:"cpu"`
		Cgroup struct {
			CPU struct {
				Period int64 `json:"cfs_period_micros"`
				Quota  int64 `json:"cfs_quota_micros"`
				Stat   struct {
					// Elasticsearch 9 writes large numbers as strings.
					Periods   json.Number `json:"number_of_elapsed_periods"`
					Throttled json.Number `json:"number_of_times_throttled"`
					Nanos     json.Number `json:"time_throttled_nanos"`
				} `json:"stat"`
			} `json:"cpu"`
		} `json:"cgroup"`
	} `json:"os"`
	Process struct {
		CPU struct {
			Percent int64 `json:"percent"`
			Millis  int64 `json:"total_in_millis"`
		} `json:"cpu"`
	} `json:"process"`
	Pools    map[string]Pool `json:"thread_pool"`
	Breakers map[string]struct {
		Tripped   int64 `json:"tripped"`
		Estimated int64 `json:"estimated_size_in_bytes"`
		Limit     int64 `json:"limit_size_in_bytes"`
	} `json:"breakers"`
	FS struct {
		IO struct {
			Total struct {
				Operations int64 `json:"operations"`
				Read       int64 `json:"read_kilobytes"`
				Write      int64 `json:"write_kilobytes"`
			} `json:"total"`
		} `json:"io_stats"`
	} `json:"fs"`
}

type rawWork struct {
	Total  int64 `json:"total"`
	Millis int64 `json:"total_time_in_millis"`
}

var errNotTold = errors.New("the answer has nothing about the node")

// parseStats reads the counters of one node.
func parseStats(body []byte, node string) (Counters, error) {
	var answer struct {
		Nodes map[string]*rawNode `json:"nodes"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return Counters{}, err
	}
	raw := answer.Nodes[node]
	if raw == nil || raw.Timestamp == 0 {
		return Counters{}, errNotTold
	}
	return raw.counters(), nil
}

func (r *rawNode) counters() Counters {
	search, merges := r.Indices.Search, r.Indices.Merges
	c := Counters{
		At: Time{time.Now()}, Clock: r.Timestamp, Uptime: r.JVM.Uptime,
		Queries: search.QueryTotal, QueryTime: search.QueryMillis, QueriesNow: search.QueryCurrent,
		Fetches: search.FetchTotal, FetchTime: search.FetchMillis, FetchesNow: search.FetchCurrent,
		Merges: merges.Total, MergeTime: merges.Millis, MergeBytes: merges.Bytes, MergesNow: merges.Current, MergingNow: merges.CurrentBytes,
		Refreshes: r.Indices.Refresh.Total, RefreshTime: r.Indices.Refresh.Millis,
		Flushes: r.Indices.Flush.Total, FlushTime: r.Indices.Flush.Millis,
		Indexed: r.Indices.Indexing.Total, IndexTime: r.Indices.Indexing.Millis,
		HeapUsed: r.JVM.Mem.Used, HeapMax: r.JVM.Mem.Max,
		CPUTime: r.Process.CPU.Millis, CPU: r.Process.CPU.Percent, OSCPU: r.OS.CPU.Percent, Load: r.OS.CPU.Load.Minute,
		Quota: r.OS.Cgroup.CPU.Quota, Period: r.OS.Cgroup.CPU.Period,
		Periods: whole(r.OS.Cgroup.CPU.Stat.Periods), Throttled: whole(r.OS.Cgroup.CPU.Stat.Throttled), ThrottleNS: whole(r.OS.Cgroup.CPU.Stat.Nanos),
		Search: r.Pools["search"], Worker: r.Pools["search_worker"], Write: r.Pools["write"], Management: r.Pools["management"],
		Breaker: r.Breakers["parent"].Estimated, Limit: r.Breakers["parent"].Limit,
		IOs: r.FS.IO.Total.Operations, ReadKB: r.FS.IO.Total.Read, WriteKB: r.FS.IO.Total.Write,
	}
	for name, g := range r.JVM.GC.Collectors {
		// The concurrent cycles of G1 ("G1 Concurrent GC"), ZGC and Shenandoah ("ZGC Minor Cycles", "Shenandoah
		// Cycles") do not stop the node, so they are no pauses.
		if strings.Contains(name, "Concurrent GC") || strings.HasSuffix(name, "Cycles") {
			continue
		}
		c.GC, c.GCTime = c.GC+g.Count, c.GCTime+g.Millis
		if name == "old" {
			c.OldGC, c.OldTime = g.Count, g.Millis
		}
	}
	for _, b := range r.Breakers {
		c.Tripped += b.Tripped
	}
	return c
}

// whole returns a number that may be written as a string; 0 if there is none.
func whole(n json.Number) int64 {
	v, err := n.Int64()
	if err != nil {
		return 0
	}
	return v
}
