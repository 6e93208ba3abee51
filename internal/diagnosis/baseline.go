package diagnosis

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// baselineInterval is how often the counters of a node are read while it is well, so
	// that a record can tell what changed when a spike began.
	baselineInterval = 10 * time.Second
	// baselineShare is how many polls of a node's statistics there are for each of these
	// readings: when a fleet makes polls rarer, they become rarer too.
	baselineShare = 50
	// baselineRate bounds them in large clusters, a second: half a percent of a core.
	baselineRate = 5
	// baselineKept is how many of them are kept of each node.
	baselineKept = 3
)

// baseline holds the latest counters of each node that serves searches.
type baseline struct {
	mu    sync.Mutex
	nodes map[string]*steady
	order []string // of those in use
	next  int
}

// steady is what is known of a node while nothing is wrong.
type steady struct {
	state    string
	tried    bool
	counters []Counters // the oldest first
}

func newBaseline() *baseline { return &baseline{nodes: map[string]*steady{}} }

// know takes in which nodes there are and which of them serve searches.
func (b *baseline) know(readings []Reading) {
	b.mu.Lock()
	defer b.mu.Unlock()
	nodes := make(map[string]*steady, len(readings))
	b.order = b.order[:0]
	for _, r := range readings {
		n := b.nodes[r.ID]
		if n == nil {
			n = &steady{}
		}
		n.state = r.State
		nodes[r.ID] = n
		if r.Share > 0 {
			b.order = append(b.order, r.ID)
		}
	}
	b.nodes = nodes
}

// due returns the node that is to be read next, if it is well, and how long to wait
// after that when each is to be read once in an interval. One that was never read does
// not wait for its turn.
func (b *baseline) due(interval time.Duration) (node string, wait time.Duration) {
	const soon = time.Second / baselineRate
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range b.order {
		if n := b.nodes[id]; !n.tried && !inTrouble(n.state) {
			n.tried = true
			return id, soon
		}
	}
	if len(b.order) == 0 {
		return "", time.Second
	}
	b.next = (b.next + 1) % len(b.order)
	if id := b.order[b.next]; !inTrouble(b.nodes[id].state) {
		node = id
	}
	return node, max(interval/time.Duration(len(b.order)), soon)
}

// put takes in the counters of a node.
func (b *baseline) put(node string, c Counters) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.nodes[node]; n != nil {
		if len(n.counters) == baselineKept {
			n.counters = slices.Delete(n.counters, 0, 1)
		}
		n.counters = append(n.counters, c)
	}
}

// of returns the counters of a node from before now.
func (b *baseline) of(node string) []Counters {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.nodes[node]; n != nil {
		return append([]Counters{}, n.counters...)
	}
	return []Counters{}
}

// well reports whether nothing speaks against a node.
func (b *baseline) well(node string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.nodes[node]
	return n != nil && n.state == "fine"
}

// others returns the median of the rates of the nodes that are well, but for one.
func (b *baseline) others(but string) Rates {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Rates
	for id, n := range b.nodes {
		if last := len(n.counters) - 1; id != but && last > 0 && !inTrouble(n.state) {
			if r, ok := between(n.counters[last-1], n.counters[last]); ok {
				all = append(all, r)
			}
		}
	}
	return medianRates(all)
}

// steadily reads the counters of the nodes in turn, until ctx ends.
func (r *Recorder) steadily(ctx context.Context) {
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
			var node string
			node, wait = r.baseline.due(max(baselineInterval, baselineShare*s.Interval()))
			r.readSteady(ctx, s, node)
		}
		timer.Reset(wait)
	}
}

func (r *Recorder) readSteady(ctx context.Context, s *Source, node string) {
	if node == "" {
		return
	}
	a := newAsker(s, node, r.baseline.well)
	var c Counters
	var err error
	if a.direct != nil {
		c, _, err = a.stats(ctx)
	} else if via := a.next(); via.url != nil {
		c, _, err = a.statsVia(ctx, via)
	} else {
		return
	}
	if err == nil {
		r.baseline.put(node, c)
	}
	if ctx.Err() == nil {
		r.metrics.baselines.WithLabelValues(r.result(err)).Inc()
	}
}

// Rates is what a node did between two readings of its counters. Times are shares of
// the time that passed: 0.5 is half of it, and of several threads they add up.
type Rates struct {
	Elapsed   float64 `json:"elapsed_s"`
	Queries   float64 `json:"queries_per_s"`
	Service   float64 `json:"service_ms"` // of a query, 0 if none ended
	Query     float64 `json:"query_share"`
	Fetch     float64 `json:"fetch_share"`
	PerFetch  float64 `json:"fetch_ms"` // of a fetch, 0 if none ended
	Merge     float64 `json:"merge_share"`
	Refresh   float64 `json:"refresh_share"`
	Flush     float64 `json:"flush_share"`
	GC        float64 `json:"gc_share"`
	CPU       float64 `json:"cpu_share"` // of one processor
	Throttled float64 `json:"throttled_share"`
	Rejected  float64 `json:"rejected"`
	OSCPU     float64 `json:"os_cpu_percent"` // at the end
}

// between returns what happened from a to b; false if the node restarted in between, or
// they are of the same moment.
func between(a, b Counters) (Rates, bool) {
	elapsed := float64(b.Clock - a.Clock)
	if elapsed <= 0 || b.Uptime < a.Uptime {
		return Rates{}, false
	}
	// Counters fall when a shard leaves the node, or its limits are lifted.
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
		Merge:    share(a.MergeTime, b.MergeTime), Refresh: share(a.RefreshTime, b.RefreshTime), Flush: share(a.FlushTime, b.FlushTime),
		GC: share(a.GCTime, b.GCTime), CPU: share(a.CPUTime, b.CPUTime),
		Throttled: min(1, each(periods, b.Throttled-a.Throttled)),
		Rejected:  max(0, float64(b.Search.Rejected+b.Worker.Rejected-a.Search.Rejected-a.Worker.Rejected)),
		OSCPU:     float64(b.OSCPU),
	}
	return r, true
}

// medianRates returns the median of each figure.
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
		func(r *Rates) *float64 { return &r.Flush }, func(r *Rates) *float64 { return &r.GC },
		func(r *Rates) *float64 { return &r.CPU }, func(r *Rates) *float64 { return &r.Throttled },
		func(r *Rates) *float64 { return &r.Rejected }, func(r *Rates) *float64 { return &r.OSCPU },
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
