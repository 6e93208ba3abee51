package page

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sidestep/internal/admin"
)

// scripted is a sidestep that says what a test wants it to say.
type scripted struct {
	admin.Service
	status  func() admin.Status
	setErr  error
	records map[string]any
	record  func() any // in place of records, if it is not nil
	folded  string
	fold    func() string // in place of folded, if it is not nil
	explain any           // or a func() any
	slow    func() any
	token   string // that a switch needs, if it is not empty
}

func (s *scripted) Ready() error          { return nil }
func (s *scripted) Status() admin.Status  { return s.status() }
func (s *scripted) History(time.Time) any { return map[string]any{"at": []string{}, "nodes": []any{}} }

func (s *scripted) Slow(int) any {
	if s.slow == nil {
		return []any{}
	}
	return s.slow()
}

func (s *scripted) Explain(admin.Question) (any, error) {
	if tell, ok := s.explain.(func() any); ok {
		return tell(), nil
	}
	return s.explain, nil
}

func (s *scripted) Spike(id string) (any, bool) {
	if s.record != nil {
		return s.record(), true
	}
	record, ok := s.records[id]
	return record, ok
}

func (s *scripted) Folded(id string) (string, bool) {
	_, ok := s.records[id]
	if s.fold != nil {
		return s.fold(), ok
	}
	return s.folded, ok
}

// serve serves the pages of a scripted sidestep and returns where.
func (s *scripted) serve(t *testing.T) string {
	t.Helper()
	if s.status == nil {
		s.status = func() admin.Status { return admin.Status{Mode: "route"} }
	}
	access := admin.Access{Open: true}
	if s.token != "" {
		access.Token = func() string { return s.token }
	}
	quit := make(chan struct{})
	server := httptest.NewServer(admin.New(admin.Options{
		Service: s, Gatherer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
		Version: "1.2.3", Quit: quit, Access: func() admin.Access { return access },
		Switches: map[string]admin.Switch{"routing": {
			Modes: []string{"route", "observe", "off"}, Get: func() string { return "route" }, Set: func(string) error { return s.setErr },
		}},
	}))
	t.Cleanup(func() {
		close(quit)
		server.Close()
	})
	return server.URL
}

var errScripted = errors.New(`the switch is stuck: <b>"why"</b> & so on`)

// node is a node as /nodes has it.
func node(name, state string, responseMS float64) map[string]any {
	return map[string]any{
		"id": "id-" + name, "name": name, "state": state, "since": time.Now().Add(-12 * time.Second).UTC(), "rank": responseMS,
		"parts":       map[string]float64{"response_time_ms": responseMS, "service_time_ms": 4, "queue": 0, "outstanding": 1},
		"outstanding": 1, "coordinating": 2, "coordinated": 1000, "coordinated_share_last_10s": 0.34, "http_overhead_ms": 1.26,
		"share_last_minute": 0.25, "failures": 0, "poll_age_s": 0.1, "last_error": nil, "address": "127.0.0.1:9200",
	}
}

// spikeOf is a spike as /spikes lists it, that began a while ago and lasted a while.
func spikeOf(id, name, cause string, ago, lasted time.Duration) map[string]any {
	began := time.Now().Add(-ago).UTC()
	s := map[string]any{
		"id": id, "node": name, "node_id": "id-" + name, "began": began, "ended": nil, "state": "slow",
		"why": "response time 310 ms, limit 42 ms", "cause": cause, "summary": name + " was slow: " + cause,
	}
	if lasted > 0 {
		s["ended"] = began.Add(lasted)
	}
	return s
}

// mergeSpike is a whole record: an hour of merging within 40 s.
func mergeSpike(id string) map[string]any {
	const lasted = 40 * time.Second
	record := spikeOf(id, "es-3", "merge_burst", 2*time.Minute, lasted)
	began := record["began"].(time.Time)
	evidence := []map[string]any{
		{"text": "threads busy with merging during the spike", "value": 2.4, "unit": "threads"},
		{"text": "before it", "value": 0.1, "unit": "threads"},
		{"text": "bytes merged", "value": 3.1, "unit": "GiB"},
	}
	record["evidence"] = evidence
	record["causes"] = []map[string]any{
		{"cause": "merge_burst", "score": 0.86, "evidence": evidence},
		{"cause": "fetch_heavy", "score": 0.31, "evidence": []map[string]any{{"text": "share of the time in the fetch phase", "value": 0.4, "unit": ""}}},
	}
	record["samples"], record["stats"] = samples(began, lasted), counters(began, lasted)
	record["captures"] = []map[string]any{
		{"at": began.Add(200 * time.Millisecond), "took_ms": 41.5, "via": "es-1", "via_took_ms": 12.0, "notes": []string{"hot threads: not permitted"}},
		{"at": began.Add(1200 * time.Millisecond), "took_ms": nil, "error": "no answer within 2 s"},
	}
	record["tasks"] = []map[string]any{{"action": "indices:data/read/search[phase/query]", "indices": "products", "running_ms": 812.0}}
	record["pending_tasks"] = map[string]any{"tasks": 2, "longest_ms": 4.5}
	record["hot_threads"] = []map[string]any{{"at": began.Add(time.Second), "threads": []map[string]any{
		{"name": "elasticsearch[es-3][products][[Lucene Merge Thread #12]]", "cpu_percent": 97.1},
		{"name": "elasticsearch[es-3][search][T#4]", "cpu_percent": 40.2},
	}}}
	return record
}

func samples(began time.Time, lasted time.Duration) map[string]any {
	var at []time.Time
	series := map[string][]any{}
	for s := -60; s <= int(lasted.Seconds()); s++ {
		at = append(at, began.Add(time.Duration(s)*time.Second))
		wave := math.Sin(float64(s) / 3)
		response, queue := 5+wave, 0.0
		if s >= 0 {
			response, queue = 310+40*wave, 6+3*wave
		}
		for name, v := range map[string]any{"response_ms": response, "queue": queue, "active": 2 + wave, "poll_ms": 3 + wave, "share": 0.2, "others": 5 - wave/2} {
			series[name] = append(series[name], v)
		}
	}
	series["poll_ms"][20] = nil // a poll that was not answered
	own := map[string]any{"node_id": "id-es-3", "node": "es-3"}
	for name, v := range series {
		own[name] = v
	}
	return map[string]any{"interval_s": 1, "at": at, "nodes": []any{own, map[string]any{"node": "median of the others", "response_ms": series["others"]}}}
}

func counters(began time.Time, lasted time.Duration) []map[string]any {
	var out []map[string]any
	total := map[string]float64{}
	prior := -490
	for s := -480; s <= int(lasted.Seconds()); s++ { // a reading of minutes ago, then one each 10 s
		if s < 0 && s%10 != 0 || s > -480 && s < -60 {
			continue
		}
		step := float64(s - prior)
		prior = s
		busy := s > 0
		for key, rate := range map[string][2]float64{"query_ms": {400, 1900}, "fetch_ms": {90, 420}, "merge_ms": {60, 2400}, "refresh_ms": {30, 90}, "flush_ms": {1, 4}, "gc_ms": {4, 35}, "cpu_ms": {700, 3300}} {
			grown := rate[0]
			if busy {
				grown = rate[1]
			}
			total[key] += grown * step
		}
		at := began.Add(time.Duration(s) * time.Second)
		one := map[string]any{"at": at, "clock_ms": at.UnixMilli(), "heap_used_bytes": 512e6 + 1e6*float64(s), "heap_max_bytes": 1e9}
		for key, v := range total {
			one[key] = v
		}
		out = append(out, one)
	}
	return out
}

// stacks are folded stacks with a long common beginning.
func stacks() string {
	pool := "java.base/java.lang.Thread.run;java.base/java.util.concurrent.ThreadPoolExecutor$Worker.run;java.base/java.util.concurrent.ThreadPoolExecutor.runWorker;" +
		"app//org.elasticsearch.common.util.concurrent.AbstractRunnable.run;app//org.elasticsearch.search.SearchService.executeQueryPhase"
	merge := "app//org.apache.lucene.index.ConcurrentMergeScheduler$MergeThread.run;app//org.apache.lucene.index.ConcurrentMergeScheduler.doMerge;" +
		"app//org.elasticsearch.index.engine.ElasticsearchConcurrentMergeScheduler.doMerge;app//org.apache.lucene.index.IndexWriter.merge;app//org.apache.lucene.index.SegmentMerger.merge"
	return fmt.Sprintf("%[2]s;app//org.apache.lucene.index.SegmentMerger.mergeTerms;app//org.apache.lucene.codecs.FieldsConsumer.merge 9\n"+
		"%[2]s;app//org.apache.lucene.index.SegmentMerger.mergeFields;app//org.apache.lucene.codecs.lucene90.compressing.Lucene90CompressingStoredFieldsWriter.merge 6\n"+
		"%[1]s;app//org.elasticsearch.search.query.QueryPhase.execute;app//org.apache.lucene.search.IndexSearcher.search;app//org.apache.lucene.search.BulkScorer.score 4\n"+
		"%[1]s;app//org.elasticsearch.search.fetch.FetchPhase.execute;app//org.apache.lucene.codecs.lucene90.compressing.Lucene90CompressingStoredFieldsReader.document 2\n", pool, merge)
}
