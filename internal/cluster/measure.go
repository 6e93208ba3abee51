package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"
)

const (
	loadMetrics  = "/stats/thread_pool,indices/search"
	statsMetrics = "/stats/thread_pool,indices,adaptive_selection/search"
	loadFields   = "?filter_path=" +
		"nodes.*.thread_pool.search.threads,nodes.*.thread_pool.search.queue," +
		"nodes.*.thread_pool.search.active,nodes.*.thread_pool.search.completed,nodes.*.thread_pool.search.rejected," +
		"nodes.*.thread_pool.search_worker.threads,nodes.*.thread_pool.search_worker.queue," +
		"nodes.*.thread_pool.search_worker.active,nodes.*.thread_pool.search_worker.completed," +
		"nodes.*.thread_pool.search_worker.rejected," +
		"nodes.*.thread_pool.write.queue,nodes.*.thread_pool.write.active," +
		"nodes.*.thread_pool.write.completed,nodes.*.thread_pool.write.rejected," +
		"nodes.*.thread_pool.management.completed," +
		"nodes.*.indices.search.query_total,nodes.*.indices.search.query_time_in_millis," +
		"nodes.*.indices.search.fetch_time_in_millis"
	statsFields = loadFields + ",nodes.*.adaptive_selection.*.avg_response_time_ns"

	// seenPerPoll bounds of how many other nodes a poll tells, in the mean: else the
	// cost of all polls would grow with the square of the cluster.
	seenPerPoll = 50

	// staticSlack is what a cluster-wide poll gets on top of the timeout that the
	// engine itself applies to its nodes.
	staticSlack = 500 * time.Millisecond
)

// statsAnswer is the answer of _nodes/…/stats.
type statsAnswer struct {
	Nodes map[string]*rawStats `json:"nodes"`
}

// poller is what runs for one node.
type poller struct {
	address string
	need    *need
	cancel  context.CancelFunc
}

// measureLoop keeps one poller per node that holds shards or coordinates; under
// static discovery one for all.
func (c *Cluster) measureLoop(ctx context.Context) {
	if c.o.Static {
		c.measureAll(ctx)
		return
	}
	pollers := map[string]*poller{}
	look := time.NewTicker(touchGrain)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			for _, p := range pollers {
				p.cancel()
			}
			return
		case <-c.remeasure:
			c.appoint(ctx, pollers)
		case now := <-look.C:
			if s := c.Snapshot(); s != nil {
				c.demand.look(s, now)
				c.polledEvery(c.demand.assess(pollers, c.o.StatsInterval, now))
				c.crowd.look(pollers)
			}
		}
	}
}

// polledEvery notes how often nodes in use are polled now.
func (c *Cluster) polledEvery(interval time.Duration) {
	c.interval.Store(int64(interval))
	c.metrics.statsInterval.Set(interval.Seconds())
}

// appoint begins and ends pollers as nodes come and go.
func (c *Cluster) appoint(ctx context.Context, pollers map[string]*poller) {
	wanted := map[string]*Node{}
	for _, n := range c.Snapshot().Nodes {
		if n.URL != nil && n.Coordinating() {
			wanted[n.ID] = n
		}
	}
	for id, p := range pollers {
		if n := wanted[id]; n == nil || n.URL.String() != p.address {
			p.cancel()
			delete(pollers, id)
		}
	}
	for id, n := range wanted {
		if _, ok := pollers[id]; ok {
			continue
		}
		pollCtx, cancel := context.WithCancel(ctx)
		p := &poller{address: n.URL.String(), need: newNeed(c.o.StatsInterval), cancel: cancel}
		pollers[id] = p
		c.done.Go(func() { c.measureNode(pollCtx, id, n.URL, p.need) })
	}
}

// measureNode polls one node, one poll at a time: a node that does not answer is
// not asked twice at once.
func (c *Cluster) measureNode(ctx context.Context, id string, address *url.URL, n *need) {
	var last *baseline
	pace := c.newPace(n)
	for {
		started := time.Now()
		stats := NodeStats{Node: id}
		var answer statsAnswer
		var told *rawStats
		err := c.fleet.askOne(ctx, address, query{kind: pollStats, path: "_nodes/_local" + c.statsPath(last == nil), deadline: c.o.StatsTimeout, decode: decodeJSON(&answer)})
		if ctx.Err() != nil {
			return
		}
		stats.At = time.Now()
		if err == nil && len(answer.Nodes) != 1 {
			err = fmt.Errorf("poll statistics from %s: answer is about %d nodes", address.Redacted(), len(answer.Nodes))
		}
		for answered, raw := range answer.Nodes {
			if err != nil {
				break
			}
			if answered != id {
				hint(c.rediscover) // another node took the address over
			}
			if last != nil && last.node != answered {
				last = nil
			}
			stats.Node = answered
			told = raw
			last, err = raw.measure(answered, last, &stats)
			pace.ceiling.observe(raw.ThreadPool.Management.Completed, stats.At)
		}
		c.measuredNode(stats, started, told, err)
		if !pace.wait(ctx, started, pollState(err)) {
			return
		}
	}
}

// statsPath returns what to ask a node for. In a large cluster only some polls ask
// what the node saw of the others as coordinating node: it is most of the answer,
// and the nodes tell much the same. The first poll does, to compare with.
func (c *Cluster) statsPath(first bool) string {
	if nodes := len(c.Snapshot().Nodes); first || nodes <= seenPerPoll || rand.IntN(nodes) < seenPerPoll {
		return statsMetrics + statsFields
	}
	return loadMetrics + loadFields
}

// measuredNode hands on how a poll ended.
func (c *Cluster) measuredNode(stats NodeStats, started time.Time, raw *rawStats, err error) {
	stats.Took = stats.At.Sub(started)
	stats.State, stats.Err = pollState(err), err
	if err == nil {
		c.measured.Store(true)
	} else {
		raw = nil
	}
	c.relay.feed.poll(stats, raw)
	c.hand(stats)
}

// errNotInAnswer is how the engine leaves out a node that did not answer it.
var errNotInAnswer = fmt.Errorf("not in the answer about all nodes: %w", context.DeadlineExceeded)

// measureAll polls all nodes through the seeds. While no seed answers nothing is
// known of the nodes, so nothing is said of them.
func (c *Cluster) measureAll(ctx context.Context) {
	last := map[string]*baseline{}
	all := newNeed(c.o.StatsInterval)
	pace := c.newPace(all)
	for {
		started := time.Now()
		var err error
		if s := c.Snapshot(); s != nil && len(s.Nodes) > 0 {
			var answer statsAnswer
			path := fmt.Sprintf("_nodes%s&timeout=%dms", c.statsPath(len(last) == 0), c.o.StatsTimeout.Milliseconds())
			_, err = c.fleet.ask(ctx, query{kind: pollStats, path: path, deadline: c.o.StatsTimeout + staticSlack, decode: decodeJSON(&answer)})
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				last = c.measuredAll(s.Nodes, answer, last, started)
				pace.ceiling.observe(answer.tasks(), started)
			}
		}
		if !pace.wait(ctx, started, pollState(err)) {
			return
		}
		c.polledEvery(time.Duration(all.interval.Load()))
		c.crowd.look(map[string]*poller{"": {need: all}})
	}
}

func (c *Cluster) measuredAll(nodes []*Node, answer statsAnswer, last map[string]*baseline, started time.Time) map[string]*baseline {
	next := make(map[string]*baseline, len(nodes))
	now := time.Now()
	for _, n := range nodes {
		if !n.Coordinating() {
			continue
		}
		stats := NodeStats{Node: n.ID, At: now}
		raw, err := answer.Nodes[n.ID], errNotInAnswer
		next[n.ID] = last[n.ID]
		if raw != nil {
			next[n.ID], err = raw.measure(n.ID, last[n.ID], &stats)
		}
		c.measuredNode(stats, started, raw, err)
	}
	return next
}

// tasks returns how many tasks the management pools completed, in the mean.
func (a statsAnswer) tasks() int64 {
	var all int64
	for _, raw := range a.Nodes {
		all += raw.ThreadPool.Management.Completed
	}
	return all / max(1, int64(len(a.Nodes)))
}

// rawStats is one node in the answer of _nodes/…/stats.
type rawStats struct {
	ThreadPool struct {
		Search       *rawPool `json:"search"`
		SearchWorker rawPool  `json:"search_worker"`
		Write        rawPool  `json:"write"`
		Management   rawPool  `json:"management"`
	} `json:"thread_pool"`
	Indices struct {
		Search rawSearch `json:"search"`
	} `json:"indices"`
	AdaptiveSelection map[string]rawCoordinated `json:"adaptive_selection"`
}

type rawPool struct {
	Threads   int64 `json:"threads"`
	Queue     int64 `json:"queue"`
	Active    int64 `json:"active"`
	Completed int64 `json:"completed"`
	Rejected  int64 `json:"rejected"`
}

type rawSearch struct {
	Queries     int64 `json:"query_total"`
	QueryMillis int64 `json:"query_time_in_millis"`
	FetchMillis int64 `json:"fetch_time_in_millis"`
}

type rawCoordinated struct {
	ResponseTime int64 `json:"avg_response_time_ns"`
}

// baseline is what the next poll of a node is compared with.
type baseline struct {
	node string
	at   time.Time
	raw  *rawStats
}

// errNoSearchPool is how an answer looks that is not about an engine's node.
var errNoSearchPool = errors.New("the answer has no search thread pool")

// measure fills in the statistics of a node at into.At, counters as differences
// from the last answer, and returns what to compare the next one with. last is nil
// on the first.
func (r *rawStats) measure(node string, last *baseline, into *NodeStats) (*baseline, error) {
	pool, worker := r.ThreadPool.Search, r.ThreadPool.SearchWorker
	if pool == nil {
		return last, errNoSearchPool
	}
	into.Queue = pool.Queue + worker.Queue
	into.Active = float64(pool.Active + worker.Active)
	into.Threads = pool.Threads + worker.Threads
	into.WriteQueue = r.ThreadPool.Write.Queue
	next := &baseline{node: node, at: into.At, raw: r}
	if last == nil {
		return next, nil
	}
	into.Elapsed = into.At.Sub(last.at)
	before := *last.raw
	if pool.Completed < before.ThreadPool.Search.Completed {
		before = rawStats{} // the node restarted
	}
	if r.AdaptiveSelection == nil { // not asked for
		r.AdaptiveSelection = before.AdaptiveSelection
	}
	into.Rejected, into.RejectedTasks = r.rejectedSince(&before)
	into.WriteQueueBefore = before.ThreadPool.Write.Queue
	into.WriteRejected = max(0, r.ThreadPool.Write.Rejected-before.ThreadPool.Write.Rejected)
	into.Coordinated = changed(r.AdaptiveSelection, before.AdaptiveSelection)
	now, then := r.Indices.Search, before.Indices.Search
	queries, query, fetch := now.Queries-then.Queries, now.QueryMillis-then.QueryMillis, now.FetchMillis-then.FetchMillis
	// They can fall without a restart while a shard leaves the node.
	if queries <= 0 || query < 0 || fetch < 0 {
		return next, nil
	}
	into.Queries = queries
	into.ServiceTime = time.Duration(query) * time.Millisecond / time.Duration(queries)
	if into.Elapsed > 0 {
		busy := float64(query+fetch) / (into.Elapsed.Seconds() * 1000)
		into.Active = min(busy, float64(pool.Threads+worker.Threads))
	}
	return next, nil
}

// rejectedSince returns the share of search tasks that were rejected since before, and how
// many they are.
func (r *rawStats) rejectedSince(before *rawStats) (share float64, rejected int64) {
	was := before.ThreadPool.Search
	if was == nil {
		was = &rawPool{}
	}
	completed := int64(0)
	for _, pool := range [][2]rawPool{{*r.ThreadPool.Search, *was}, {r.ThreadPool.SearchWorker, before.ThreadPool.SearchWorker}} {
		rejected += max(0, pool[0].Rejected-pool[1].Rejected)
		completed += max(0, pool[0].Completed-pool[1].Completed)
	}
	if rejected == 0 {
		return 0, 0
	}
	return float64(rejected) / float64(rejected+completed), rejected
}

// changed returns the entries that differ from those before; nil if none does.
func changed(now, before map[string]rawCoordinated) map[string]Seen {
	var diff map[string]Seen
	for id, c := range now {
		if b, ok := before[id]; ok && b == c {
			continue
		}
		if diff == nil {
			diff = make(map[string]Seen, len(now))
		}
		diff[id] = Seen{Now: time.Duration(c.ResponseTime), Before: time.Duration(before[id].ResponseTime)}
	}
	return diff
}
