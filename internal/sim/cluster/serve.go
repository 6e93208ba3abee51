package simcluster

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// counts are the counters of shard queries and reads of a node.
type counts struct {
	mu               sync.Mutex
	queries, fetches int64
	queryTime        time.Duration
	fetchTime        time.Duration
	current          int64
	gets             int64 // documents read by id
	getTime          time.Duration
	service          float64 // moving average in ns, as the engines' executors keep
}

// searchStats is indices.search of the node statistics.
type searchStats struct {
	OpenContexts  int64 `json:"open_contexts"`
	QueryTotal    int64 `json:"query_total"`
	QueryMillis   int64 `json:"query_time_in_millis"`
	QueryCurrent  int64 `json:"query_current"`
	FetchTotal    int64 `json:"fetch_total"`
	FetchMillis   int64 `json:"fetch_time_in_millis"`
	FetchCurrent  int64 `json:"fetch_current"`
	ScrollTotal   int64 `json:"scroll_total"`
	ScrollMillis  int64 `json:"scroll_time_in_millis"`
	ScrollCurrent int64 `json:"scroll_current"`
}

func (c *counts) stats() searchStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return searchStats{
		QueryTotal: c.queries, QueryMillis: c.queryTime.Milliseconds(), QueryCurrent: c.current,
		FetchTotal: c.fetches, FetchMillis: c.fetchTime.Milliseconds(),
	}
}

// getStats is indices.get of the node statistics.
type getStats struct {
	Total  int64 `json:"total"`
	Millis int64 `json:"time_in_millis"`
}

func (c *counts) getStats() getStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return getStats{Total: c.gets, Millis: c.getTime.Milliseconds()}
}

// got counts a document that was read in d.
func (c *counts) got(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gets++
	c.getTime += d
}

func (c *counts) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current++
}

// end counts a query that took d, a part of it for fetching documents; 0 if none were.
func (c *counts) end(d time.Duration, completed bool, fetched float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current--
	if !completed {
		return
	}
	c.queries++
	if c.queries == 1 {
		c.service = float64(d)
	}
	c.service = ewma(c.service, float64(d))
	if fetched > 0 {
		c.fetches++
		part := time.Duration(float64(d) * fetched)
		c.fetchTime += part
		d -= part
	}
	c.queryTime += d
}

func (c *counts) serviceAverage() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.service)
}

// report is what a data node tells about itself with each answer.
type report struct {
	queue   int
	service time.Duration
}

var errLeft = errors.New("node left the cluster")

// query runs one shard query of the coordinating node from on this data node.
func (n *Node) query(ctx context.Context, from *Node, fetch bool) (r report, failed *apiError) {
	failed = n.during(ctx, func(ctx context.Context, life *life) error {
		if err := n.queryWithin(ctx, life, from, fetch); err != nil {
			return err
		}
		n.searches.Add(1)
		r = report{queue: life.pool.stats().Queue, service: life.counts.serviceAverage()}
		return nil
	})
	return r, failed
}

// during does work for another node, which fails when this one is killed.
func (n *Node) during(ctx context.Context, work func(context.Context, *life) error) *apiError {
	life := n.life.Load()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(life.ctx, func() { cancel(errLeft) })()
	if err := work(ctx, life); err != nil {
		return n.failure(ctx, err)
	}
	return nil
}

func (n *Node) queryWithin(ctx context.Context, life *life, from *Node, fetch bool) error {
	if err := n.travel(ctx, from); err != nil {
		return err
	}
	f := n.fault()
	if f.FailFast == http.StatusTooManyRequests {
		life.pool.reject()
		return errRejected
	}
	if f.FailFast != 0 {
		return errUnavailable
	}
	if f.Partial {
		return errBroken
	}
	return life.pool.run(ctx, func(ctx context.Context) error {
		return n.execute(ctx, life, fetch)
	})
}

// travel is what it takes to reach this node from another.
func (n *Node) travel(ctx context.Context, from *Node) error {
	if err := n.awaitNot(ctx, paused); err != nil || from == n {
		return err
	}
	f := n.fault()
	return sleep(ctx, n.cluster.spread(f.Extra, f.Jitter))
}

// execute holds a search thread for the service time.
func (n *Node) execute(ctx context.Context, life *life, fetch bool) (err error) {
	begin := time.Now()
	life.counts.begin()
	f := n.fault()
	fetching := 0.0
	if fetch {
		fetching = f.fetching()
	}
	defer func() { life.counts.end(time.Since(begin), err == nil, fetching) }()
	d := time.Duration(float64(n.cluster.serviceTime()) * f.factor())
	if err := sleep(ctx, d); err != nil {
		return err
	}
	return n.awaitNot(ctx, paused)
}

var (
	errUnavailable = errors.New("shard is not available")
	errBroken      = errors.New("simulated disk failure")
)

// failure is how the engines name what went wrong with a shard query.
func (n *Node) failure(ctx context.Context, err error) *apiError {
	switch {
	case errors.Is(err, errRejected):
		return n.cluster.rejection(n)
	case errors.Is(err, errUnavailable):
		return &apiError{Status: http.StatusServiceUnavailable, Type: noShardAvailable, Reason: err.Error()}
	case errors.Is(err, errBroken):
		return &apiError{Status: http.StatusInternalServerError, Type: "i_o_exception", Reason: err.Error()}
	case errors.Is(context.Cause(ctx), errLeft):
		return &apiError{
			Status: http.StatusInternalServerError, Type: "node_disconnected_exception",
			Reason: "[" + n.name + "][" + n.addr + "][indices:data/read/search[phase/query]] disconnected",
		}
	default:
		return &apiError{Status: http.StatusBadRequest, Type: "task_cancelled_exception", Reason: "cancelled: " + err.Error()}
	}
}

// rejection is the error of a full search queue.
func (c *Cluster) rejection(n *Node) *apiError {
	kind := "rejected_execution_exception"
	if c.opts.Engine == Elasticsearch {
		kind = "es_rejected_execution_exception"
	}
	return &apiError{
		Status: http.StatusTooManyRequests, Type: kind,
		Reason: "rejected execution of search on [" + n.name + "], search queue is full",
	}
}
