package poll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"sidestep/internal/cluster"
)

const (
	loadMetrics  = "/stats/thread_pool,indices,os,process/search"
	statsMetrics = "/stats/thread_pool,indices,os,process,adaptive_selection/search"
	// Few patterns that take more than is needed: a node holds every field that it writes
	// against each of them.
	loadFields = "?filter_path=nodes.*.thread_pool.search*,nodes.*.thread_pool.write," +
		"nodes.*.thread_pool.management.completed," +
		"nodes.*.indices.search.query_t*,nodes.*.indices.search.fetch_time_in_millis," +
		"nodes.*.os.cgroup.cpu,nodes.*.process.timestamp,nodes.*.process.cpu.total_in_millis"
	statsFields = loadFields + ",nodes.*.adaptive_selection.*.avg_response_time_ns"

	// seenPerPoll bounds of how many other nodes a poll tells, in the mean: else the
	// cost of all polls would grow with the square of the cluster.
	seenPerPoll = 50

	// longestPeriod is the period of a CPU quota that the kernel has by default; of a longer
	// one a node would have to be left alone for so long that one that hangs is not found.
	longestPeriod = 100 * time.Millisecond

	// staticSlack is what a cluster-wide poll gets on top of the timeout that the
	// engine itself applies to its nodes.
	staticSlack = 500 * time.Millisecond

	// mostOthers bounds the nodes that are remembered to have answered in place of another one.
	mostOthers = 1000
)

// statsAnswer is the answer of _nodes/…/stats.
type statsAnswer struct {
	Nodes map[string]*RawStats `json:"nodes"`
}

// nodePoller is what runs for one node.
type nodePoller struct {
	address  string
	schedule *schedule
	cancel   context.CancelFunc
}

// measureLoop keeps one poller per node that holds shards or coordinates; under
// static discovery one for all.
func (p *Poller) measureLoop(ctx context.Context) {
	if p.o.Static {
		p.measureAll(ctx)
		return
	}
	pollers := map[string]*nodePoller{}
	look := time.NewTicker(touchGrain)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			for _, np := range pollers {
				np.cancel()
			}
			return
		case <-p.remeasure:
			p.startPollers(ctx, pollers)
		case now := <-look.C:
			if s := p.Snapshot(); s != nil {
				p.used.update(s, now)
				p.polledEvery(p.used.assess(pollers, p.o.StatsInterval, now))
				p.meanRate.update(pollers)
			}
		}
	}
}

// polledEvery notes how often nodes in use are polled now.
func (p *Poller) polledEvery(interval time.Duration) {
	p.interval.Store(int64(interval))
	p.metrics.statsInterval.Set(interval.Seconds())
}

// startPollers begins and ends pollers as nodes come and go.
func (p *Poller) startPollers(ctx context.Context, pollers map[string]*nodePoller) {
	wanted := map[string]*cluster.Node{}
	for _, n := range p.Snapshot().Nodes {
		if n.URL != nil && n.Coordinating() {
			wanted[n.ID] = n
		}
	}
	for id, np := range pollers {
		if n := wanted[id]; n == nil || n.URL.String() != np.address {
			np.cancel()
			delete(pollers, id)
		}
	}
	for id, n := range wanted {
		if _, ok := pollers[id]; ok {
			continue
		}
		pollCtx, cancel := context.WithCancel(ctx)
		np := &nodePoller{address: n.URL.String(), schedule: newSchedule(p.o.StatsInterval), cancel: cancel}
		pollers[id] = np
		p.done.Go(func() { p.measureNode(pollCtx, n, np.schedule) })
	}
}

// measureNode polls one node, one poll at a time: a node that does not answer is
// not asked twice at once.
func (p *Poller) measureNode(ctx context.Context, node *cluster.Node, n *schedule) {
	var last *Baseline
	id, address, pace := node.ID, node.URL, p.newPace(n, node.ID)
	if !pace.begin(ctx, p.Readers(), float64(node.Processors)) {
		return
	}
	others := map[string]bool{} // nodes that answered in place of this one
	for {
		started := time.Now()
		stats := cluster.NodeStats{Node: id}
		var answer statsAnswer
		var told *RawStats
		err := p.endpoints.askOne(ctx, address, Query{Kind: kindStats, Path: "_nodes/_local" + p.statsPath(last == nil), Deadline: p.o.StatsTimeout, Decode: DecodeJSON(&answer)})
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
			if answered != id && !others[answered] { // it took the address over; or there is something before them all
				if len(others) >= mostOthers {
					clear(others)
				}
				others[answered] = true
				hint(p.rediscover)
			}
			if _, member := p.Snapshot().Position(answered); answered != id && !member {
				err = fmt.Errorf("poll statistics from %s: %w", address.Redacted(), errElsewhere)
				break
			}
			if last != nil && last.node != answered {
				last = nil
			}
			stats.Node = answered
			if raw == nil {
				err = fmt.Errorf("poll statistics from %s: %w", address.Redacted(), errNothingTold)
				break
			}
			told = raw
			last, err = raw.Measure(answered, last, &stats)
			pace.ceiling.observe(raw.ThreadPool.Management.Completed, cmp.Or(raw.OS.quota(), float64(node.Processors)), stats.At)
		}
		p.measuredNode(stats, started, told, err)
		if !pace.Wait(ctx, started, err) {
			return
		}
	}
}

// statsPath returns what to ask a node for. In a large cluster only some polls ask
// what the node saw of the others as coordinating node: it is most of the answer,
// and the nodes tell much the same. The first poll does, to compare with.
func (p *Poller) statsPath(first bool) string {
	if nodes := len(p.Snapshot().Nodes); first || nodes <= seenPerPoll || rand.IntN(nodes) < seenPerPoll {
		return statsMetrics + statsFields
	}
	return loadMetrics + loadFields
}

// measuredNode hands on how a poll ended.
func (p *Poller) measuredNode(stats cluster.NodeStats, started time.Time, raw *RawStats, err error) {
	stats.Took = stats.At.Sub(started)
	stats.State, stats.Err = pollState(err), err
	if stranger(err) || errors.Is(err, errElsewhere) {
		stats.State = cluster.PollUnreachable // clients' requests, and their credentials, are not for whatever is there
	}
	if err != nil {
		raw = nil
	}
	for _, told := range p.listeners {
		told(stats, raw)
	}
	p.Deliver(stats)
}

// errNotInAnswer is how the engine leaves out a node that did not answer it.
var errNotInAnswer = fmt.Errorf("not in the answer about all nodes: %w", context.DeadlineExceeded)

// measureAll polls all nodes through the seeds, first the one that told the latest version of the cluster state: one
// that is cut off from the others tells of itself alone. While no seed answers nothing is
// known of the nodes, so nothing is said of them.
func (p *Poller) measureAll(ctx context.Context) {
	last := map[string]*Baseline{}
	all := newSchedule(p.o.StatsInterval)
	pace := p.newPace(all)
	if !pace.begin(ctx, p.Readers(), 0) {
		return
	}
	tasks, answered := 1., time.Now() // what the management pools have completed meanwhile, in the mean of the nodes
	for {
		started := time.Now()
		var err error
		if s := p.Snapshot(); s != nil && len(s.Nodes) > 0 {
			all.usual.Store(int64(max(p.o.StatsInterval, time.Duration(len(s.Nodes))*time.Second/Budget)))
			var answer statsAnswer
			path := fmt.Sprintf("_nodes%s&timeout=%dms", p.statsPath(len(last) == 0), p.o.StatsTimeout.Milliseconds())
			_, err = p.endpoints.askFirst(ctx, p.newest.Load(), Query{Kind: kindStats, Path: path, Deadline: p.o.StatsTimeout + staticSlack, Decode: DecodeJSON(&answer)})
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				var rate float64
				last, rate = p.measuredAll(s.Nodes, answer, last, started)
				tasks, answered = tasks+rate*started.Sub(answered).Seconds(), started
				pace.ceiling.observe(int64(tasks), 0, started)
			}
		}
		if !pace.Wait(ctx, started, err) {
			return
		}
		p.polledEvery(time.Duration(all.interval.Load()))
		p.meanRate.update(map[string]*nodePoller{"": {schedule: all}})
	}
}

// measuredAll hands on what an answer tells of each node. It returns what to compare the next one with, and how many
// tasks a second the management pools complete, in the mean of the nodes that tell: for its processors each completes as
// much of [pollCeiling].
func (p *Poller) measuredAll(nodes []*cluster.Node, answer statsAnswer, last map[string]*Baseline, started time.Time) (next map[string]*Baseline, rate float64) {
	next = make(map[string]*Baseline, len(nodes))
	now, told := time.Now(), 0
	for _, n := range nodes {
		if !n.Coordinating() {
			continue
		}
		stats := cluster.NodeStats{Node: n.ID, At: now}
		raw, err := answer.Nodes[n.ID], errNotInAnswer
		next[n.ID] = last[n.ID]
		if raw != nil {
			next[n.ID], err = raw.Measure(n.ID, last[n.ID], &stats)
		}
		if stats.Elapsed > 0 {
			completed := raw.ThreadPool.Management.Completed - last[n.ID].raw.ThreadPool.Management.Completed
			share := mayComplete(cmp.Or(raw.OS.quota(), float64(n.Processors))) / pollCeiling
			rate, told = rate+float64(max(0, completed))/stats.Elapsed.Seconds()/share, told+1
		}
		p.measuredNode(stats, started, raw, err)
	}
	return next, rate / max(1, float64(told))
}

// RawStats is one node in the answer of _nodes/…/stats.
type RawStats struct {
	ThreadPool struct {
		Search       *RawPool `json:"search"`
		SearchWorker RawPool  `json:"search_worker"`
		Write        RawPool  `json:"write"`
		Management   RawPool  `json:"management"`
	} `json:"thread_pool"`
	Indices struct {
		Search RawSearch `json:"search"`
	} `json:"indices"`
	OS                rawOS                     `json:"os"`
	Process           rawProcess                `json:"process"`
	AdaptiveSelection map[string]rawCoordinated `json:"adaptive_selection"`
}

// rawProcess is what the node's process has used of the CPU, in ms, and when the engine looked at
// that (ms), which it does once a second; -1 where the system does not tell.
type rawProcess struct {
	At  int64 `json:"timestamp"`
	CPU struct {
		Total int64 `json:"total_in_millis"`
	} `json:"cpu"`
}

// usedSince returns how many processors the process kept busy since the engine looked before; 0 if
// that is not known, or the process has begun anew.
func (p *rawProcess) usedSince(before *rawProcess) float64 {
	used, lasted := p.CPU.Total-before.CPU.Total, p.At-before.At
	if used < 0 || lasted <= 0 || before.CPU.Total <= 0 {
		return 0
	}
	return float64(used) / float64(lasted)
}

// rawOS has the limit that a control group sets on a node's CPU; a quota of -1 is none.
type rawOS struct {
	Cgroup struct {
		CPU struct {
			Quota  int64 `json:"cfs_quota_micros"`
			Period int64 `json:"cfs_period_micros"`
			Stat   struct {
				Throttled int64 `json:"number_of_times_throttled"` // periods in which it ran out
			} `json:"stat"`
		} `json:"cpu"`
	} `json:"cgroup"`
}

// quota returns how many processors the node may use; 0 if nothing limits it.
func (r *rawOS) quota() float64 {
	cpu := r.Cgroup.CPU
	if cpu.Quota <= 0 || cpu.Period <= 0 {
		return 0
	}
	return float64(cpu.Quota) / float64(cpu.Period)
}

// RawPool are the counters of a thread pool.
type RawPool struct {
	Threads   int64 `json:"threads"`
	Queue     int64 `json:"queue"`
	Active    int64 `json:"active"`
	Completed int64 `json:"completed"`
	Rejected  int64 `json:"rejected"`
}

// RawSearch are the counters of searches.
type RawSearch struct {
	Queries     int64 `json:"query_total"`
	QueryMillis int64 `json:"query_time_in_millis"`
	FetchMillis int64 `json:"fetch_time_in_millis"`
}

type rawCoordinated struct {
	ResponseTime int64 `json:"avg_response_time_ns"`
}

// Baseline is what the next poll of a node is compared with.
type Baseline struct {
	node string
	at   time.Time
	raw  *RawStats
	used float64 // processors, as of the engine's last look
}

// Move says that the answer was later than it was thought to be.
func (b *Baseline) Move(by time.Duration) { b.at = b.at.Add(by) }

// errElsewhere is how an answer looks where a node of another cluster has taken the address over, or one that is not
// known yet.
var errElsewhere = errors.New("a node that is not known answers there")

// errNothingTold is how an answer looks that names a node and tells nothing of it.
var errNothingTold = errors.New("the answer tells nothing of the node")

// errNoSearchPool is how an answer looks that is not about an engine's node.
var errNoSearchPool = errors.New("the answer has no search thread pool")

// Measure fills in the statistics of a node at into.At, counters as differences
// from the last answer, and returns what to compare the next one with. last is nil
// on the first.
func (r *RawStats) Measure(node string, last *Baseline, into *cluster.NodeStats) (*Baseline, error) {
	pool, worker := r.ThreadPool.Search, r.ThreadPool.SearchWorker
	if pool == nil {
		return last, errNoSearchPool
	}
	into.Queue = pool.Queue + worker.Queue
	into.Active = float64(pool.Active + worker.Active)
	into.Threads = pool.Threads + worker.Threads
	into.Quota = r.OS.quota()
	write := r.ThreadPool.Write
	into.WriteQueue, into.WriteThreads, into.WriteActive = write.Queue, write.Threads, write.Active
	next := &Baseline{node: node, at: into.At, raw: r}
	if last == nil {
		return next, nil
	}
	if pool.Completed < last.raw.ThreadPool.Search.Completed {
		return next, nil // the node restarted, or another relay is behind: there is no difference to tell
	}
	into.Elapsed = into.At.Sub(last.at)
	if cpu := r.OS.Cgroup.CPU; cpu.Stat.Throttled > last.raw.OS.Cgroup.CPU.Stat.Throttled {
		into.Throttled = min(time.Duration(cpu.Period)*time.Microsecond, longestPeriod)
	}
	if next.used = last.used; r.Process.At != last.raw.Process.At {
		next.used = r.Process.usedSince(&last.raw.Process)
	}
	into.Used = next.used
	before := *last.raw
	if r.AdaptiveSelection == nil { // not asked for
		r.AdaptiveSelection = before.AdaptiveSelection
	}
	into.Rejected, into.RejectedTasks = r.rejectedSince(&before)
	into.WriteQueueBefore = before.ThreadPool.Write.Queue
	into.WriteRejected = max(0, write.Rejected-before.ThreadPool.Write.Rejected)
	into.Writes = max(0, write.Completed-before.ThreadPool.Write.Completed)
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
func (r *RawStats) rejectedSince(before *RawStats) (share float64, rejected int64) {
	completed := int64(0)
	for _, pool := range [][2]RawPool{{*r.ThreadPool.Search, *before.ThreadPool.Search}, {r.ThreadPool.SearchWorker, before.ThreadPool.SearchWorker}} {
		rejected += max(0, pool[0].Rejected-pool[1].Rejected)
		completed += max(0, pool[0].Completed-pool[1].Completed)
	}
	if rejected == 0 {
		return 0, 0
	}
	return float64(rejected) / float64(rejected+completed), rejected
}

// changed returns the entries that differ from those before; nil if none does.
func changed(now, before map[string]rawCoordinated) map[string]cluster.Seen {
	var diff map[string]cluster.Seen
	for id, c := range now {
		if b, ok := before[id]; ok && b == c {
			continue
		}
		if diff == nil {
			diff = make(map[string]cluster.Seen, len(now))
		}
		diff[id] = cluster.Seen{Now: time.Duration(c.ResponseTime), Before: time.Duration(before[id].ResponseTime)}
	}
	return diff
}
