package diagnosis

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// baselineInterval is how often the counters of a healthy node are read. A record
	// compares them with those of the spike.
	baselineInterval = 10 * time.Second
	// baselineShare is the number of polls of a node's statistics for each of these
	// readings: when a fleet makes polls rarer, these become rarer too.
	baselineShare = 50
	// baselineRate bounds these readings, per second: in large clusters they cost
	// half a percent of a core.
	baselineRate = 5
	// baselineKept is the number of readings kept of each node: the latest three and, before them, two that are
	// baselineFar apart or more: whether a merge ends, or an index is refreshed, in half a minute is chance.
	baselineKept = 5
	baselineFar  = 5 * time.Minute
	// troubledMuch is the share of the time between two readings from which on trouble makes them no measure of what is
	// usual. Less of it changes little, and many a node is busy now and then.
	troubledMuch = 0.2
)

// baseline holds the latest counters of each node that serves searches.
type baseline struct {
	mu    sync.Mutex
	nodes map[string]*nodeBaseline
	seen  time.Time // when the states were set
}

// nodeBaseline is the baseline of one node.
type nodeBaseline struct {
	fine     bool
	serves   bool       // searches
	tried    time.Time  // when it was asked last
	counters []Counters // the oldest first
	// inTrouble says that the node is, and troubled for how long it has been so since the latest reading.
	inTrouble bool
	troubled  time.Duration
}

func newBaseline() *baseline { return &baseline{nodes: map[string]*nodeBaseline{}} }

// update sets which nodes there are, and their states.
func (b *baseline) update(readings []Reading, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	passed := now.Sub(b.seen)
	b.seen = now
	nodes := make(map[string]*nodeBaseline, len(readings))
	for _, r := range readings {
		n := b.nodes[r.ID]
		if n == nil {
			n = &nodeBaseline{}
		}
		if n.inTrouble {
			n.troubled += passed
		}
		n.fine, n.serves, n.inTrouble = r.State == "fine", r.Share > 0, inTrouble(r.State) && !r.briefly(now)
		nodes[r.ID] = n
	}
	b.nodes = nodes
}

// due returns the healthy node that was asked longest ago, if that is an interval; empty if there is none.
func (b *baseline) due(interval time.Duration, now time.Time) (node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := now.Add(-interval)
	for id, n := range b.nodes {
		if n.serves && !n.inTrouble && !n.tried.After(last) {
			node, last = id, n.tried
		}
	}
	if node != "" {
		b.nodes[node].tried = now
	}
	return node
}

// put adds the counters of a node.
func (b *baseline) put(node string, c Counters) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.nodes[node]
	if n == nil {
		return
	}
	if len(n.counters) == baselineKept {
		gone := 2
		if c.At.Sub(n.counters[1].At.Time) >= baselineFar {
			gone = 0
		}
		n.counters[gone+1].troubled += n.counters[gone].troubled
		n.counters = slices.Delete(n.counters, gone, gone+1)
	}
	c.troubled, n.troubled = n.troubled, 0
	n.counters = append(n.counters, c)
}

// of returns the counters read of a node, the oldest first.
func (b *baseline) of(node string) []Counters {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.nodes[node]; n != nil {
		return append([]Counters{}, n.counters...)
	}
	return []Counters{}
}

// fine reports whether a node is in the state fine.
func (b *baseline) fine(node string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.nodes[node]
	return n != nil && n.fine
}

// others returns the medians of the rates of the healthy nodes, except one.
func (b *baseline) others(but string) Rates {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Rates
	for id, n := range b.nodes {
		if id != but && len(n.counters) > 1 && !n.inTrouble {
			if r, ok := usual(n.counters); ok {
				all = append(all, r)
			}
		}
	}
	return medianRates(all)
}

// readBaselines reads the counters of the nodes in turn, until ctx ends.
func (r *Recorder) readBaselines(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		wait := time.Second
		if s := r.source.Load(); !s.Follows() {
			if node := r.baseline.due(max(baselineInterval, baselineShare*s.Interval()), time.Now()); node != "" {
				r.readSteady(ctx, s, node)
				wait /= baselineRate
			}
		}
		timer.Reset(wait)
	}
}

func (r *Recorder) readSteady(ctx context.Context, s *Source, node string) {
	a := newQuerier(s, node, r.baseline.fine)
	var via other
	if a.direct == nil {
		if via = a.next(); via.url == nil {
			return
		}
	}
	c, _, err := a.stats(ctx, via)
	if err == nil {
		r.baseline.put(node, c)
	}
	if ctx.Err() == nil {
		r.metrics.baselines.WithLabelValues(r.result(err)).Inc()
	}
}

// Rates are what a node did between two readings of its counters. Times are shares of the
// elapsed time, summed over threads: 0.5 is half a thread's time.
type Rates struct {
	Elapsed   float64 `json:"elapsed_s"`
	Queries   float64 `json:"queries_per_s"`
	Service   float64 `json:"service_ms"` // of a query, 0 if none ended
	Query     float64 `json:"query_share"`
	Fetch     float64 `json:"fetch_share"`
	PerFetch  float64 `json:"fetch_ms"` // of a fetch, 0 if none ended
	Merge     float64 `json:"merge_share"`
	Refresh   float64 `json:"refresh_share"`
	GC        float64 `json:"gc_share"`
	CPU       float64 `json:"cpu_share"` // of one processor
	Throttled float64 `json:"throttled_share"`
	Rejected  float64 `json:"rejected"`
	OSCPU     float64 `json:"os_cpu_percent"` // at the end
}

// usual returns the rates between the latest two of some readings; false as between. Merges and refreshes come in lumps:
// of these it is the rate over all readings, if that is more. Of collections it is that in any case: a long one just
// before is a part of the trouble. What a node did in earlier trouble is not usual: the time between two readings in
// which it had much is left out, and if no other is left, false.
func usual(counters []Counters) (Rates, bool) {
	first, latest, last := counters[0], 0, len(counters)-1
	for i, c := range counters[1:] {
		if prior := counters[i]; c.troubled.Seconds() <= troubledMuch*c.At.Sub(prior.At.Time).Seconds() {
			latest = i + 1
		} else {
			first = first.without(prior, c)
		}
	}
	if latest == 0 {
		return Rates{}, false
	}
	r, ok := between(counters[latest-1], counters[latest])
	if all, long := between(first, counters[last]); long {
		r.Merge, r.Refresh, r.GC = max(r.Merge, all.Merge), max(r.Refresh, all.Refresh), all.GC
	}
	return r, ok
}

// without returns c as if what the node did from a to b, in lumps, had been before.
func (c Counters) without(a, b Counters) Counters {
	c.Clock, c.Uptime = c.Clock+b.Clock-a.Clock, c.Uptime+b.Uptime-a.Uptime
	c.Merges, c.MergeTime = c.Merges+b.Merges-a.Merges, c.MergeTime+b.MergeTime-a.MergeTime
	c.RefreshTime, c.GCTime = c.RefreshTime+b.RefreshTime-a.RefreshTime, c.GCTime+b.GCTime-a.GCTime
	return c
}

// between returns the rates from a to b; false if the node restarted in between or no
// time passed.
func between(a, b Counters) (Rates, bool) {
	elapsed := float64(b.Clock - a.Clock)
	if elapsed <= 0 || b.Uptime < a.Uptime {
		return Rates{}, false
	}
	// Counters fall when a shard leaves the node, or its CPU limit is lifted.
	share := func(a, b int64) float64 { return max(0, float64(b-a)) / elapsed }
	each := func(count, sum int64) float64 {
		if count <= 0 || sum < 0 {
			return 0
		}
		return float64(sum) / float64(count)
	}
	periods := b.Periods - a.Periods
	r := Rates{
		Elapsed: elapsed / 1000,
		Queries: share(a.Queries, b.Queries) * 1000,
		Service: each(b.Queries-a.Queries, b.QueryTime-a.QueryTime),
		Query:   share(a.QueryTime, b.QueryTime), Fetch: share(a.FetchTime, b.FetchTime),
		PerFetch: each(b.Fetches-a.Fetches, b.FetchTime-a.FetchTime),
		// Merges that ended may have begun long before: each took all of the time at most.
		Merge: min(share(a.MergeTime, b.MergeTime), max(0, float64(b.Merges-a.Merges))), Refresh: share(a.RefreshTime, b.RefreshTime),
		GC: share(a.GCTime, b.GCTime), CPU: share(a.CPUTime, b.CPUTime),
		Throttled: min(1, each(periods, b.Throttled-a.Throttled)),
		Rejected:  max(0, float64(b.Search.Rejected+b.Worker.Rejected-a.Search.Rejected-a.Worker.Rejected)),
		OSCPU:     float64(b.OSCPU),
	}
	return r, true
}

// medianRates returns the median of each rate.
func medianRates(all []Rates) Rates {
	if len(all) == 0 {
		return Rates{}
	}
	var m Rates
	for _, field := range []func(*Rates) *float64{
		func(r *Rates) *float64 { return &r.Elapsed }, func(r *Rates) *float64 { return &r.Queries },
		func(r *Rates) *float64 { return &r.Service }, func(r *Rates) *float64 { return &r.Query },
		func(r *Rates) *float64 { return &r.Fetch }, func(r *Rates) *float64 { return &r.PerFetch },
		func(r *Rates) *float64 { return &r.Merge }, func(r *Rates) *float64 { return &r.Refresh },
		func(r *Rates) *float64 { return &r.GC }, func(r *Rates) *float64 { return &r.CPU },
		func(r *Rates) *float64 { return &r.Throttled }, func(r *Rates) *float64 { return &r.Rejected },
		func(r *Rates) *float64 { return &r.OSCPU },
	} {
		values := make([]float64, len(all))
		for i := range all {
			values[i] = *field(&all[i])
		}
		*field(&m) = median(values)
	}
	return m
}

// median returns the middle of values, which it sorts; 0 if there are none.
func median[T cmp.Ordered](values []T) T {
	var none T
	if len(values) == 0 {
		return none
	}
	slices.Sort(values)
	return values[len(values)/2]
}
