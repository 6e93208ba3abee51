package simcluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

func (n *Node) transport() string { return fmt.Sprintf("127.0.0.1:%d", 9300+n.number) }

// processors is what a node with this pool size has: the engines size the search
// pool as 3/2 of the processors plus one.
func (c *Cluster) processors() int { return max(1, (c.opts.Threads-1)*2/3) }

// nodesAPI answers _nodes[/filter][/metrics] and
// _nodes[/filter]/stats[/metrics[/index metrics]].
func (n *Node) nodesAPI(r *request) (reply, *apiError) {
	rest := r.parts[1:]
	filter := "_all"
	if len(rest) > 0 && rest[0] != "stats" && rest[0] != "hot_threads" && !isInfoMetric(rest[0]) {
		filter, rest = rest[0], rest[1:]
	}
	if len(rest) > 0 && rest[0] == "hot_threads" {
		return n.hotThreads(r, filter)
	}
	stats := len(rest) > 0 && rest[0] == "stats"
	if stats {
		rest = rest[1:]
	}
	rest = append(rest, "", "") // both lists may be left out
	wanted := metricsOf(rest[0])
	if !stats {
		return n.collect(r, filter, func(m *Node) map[string]any { return m.describe(wanted) })
	}
	if err := knownStats(r, wanted, metricsOf(rest[1])); err != nil {
		return reply{}, err
	}
	return n.collect(r, filter, func(m *Node) map[string]any { return m.statistics(wanted) })
}

// metrics are the parts of an answer that are asked for.
type metrics map[string]bool

// metricsOf reads a list of them; an empty one is all.
func metricsOf(list string) metrics {
	m := metrics{}
	for name := range strings.SplitSeq(cmp.Or(list, "_all"), ",") {
		m[name] = true
	}
	return m
}

func (m metrics) has(name string) bool { return m["_all"] || m[name] }

func isInfoMetric(s string) bool {
	known := []string{
		"settings", "os", "process", "jvm", "thread_pool", "transport", "http", "plugins", "ingest",
		"aggregations", "indices", "_all", "search_pipelines", "remote_cluster_server",
	}
	return !slices.ContainsFunc(strings.Split(s, ","), func(m string) bool { return !slices.Contains(known, m) })
}

// knownStats checks metrics and index metrics of a statistics request.
func knownStats(r *request, wanted, ofIndices metrics) *apiError {
	known := []string{
		"_all", "indices", "os", "process", "jvm", "thread_pool", "fs", "transport", "http", "breaker", "script",
		"discovery", "ingest", "adaptive_selection", "script_cache", "indexing_pressure",
	}
	knownIndices := []string{
		"_all", "docs", "store", "indexing", "get", "search", "merge", "refresh", "flush", "warmer", "query_cache",
		"fielddata", "completion", "segments", "translog", "recovery", "request_cache",
	}
	for _, m := range sortedKeys(wanted) {
		if !slices.Contains(known, m) {
			return illegalArgument("request [" + r.path + "] contains unrecognized metric: [" + m + "]")
		}
	}
	for _, m := range sortedKeys(ofIndices) {
		if !slices.Contains(knownIndices, m) {
			return illegalArgument("request [" + r.path + "] contains unrecognized index metric: [" + m + "]")
		}
	}
	return nil
}

// collect asks the nodes that filter names, this one among them without a detour.
// It waits for the slowest, or for the timeout parameter.
func (n *Node) collect(r *request, filter string, describe func(*Node) map[string]any) (reply, *apiError) {
	ctx := r.ctx
	if d, err := time.ParseDuration(r.params.Get("timeout")); err == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	ids := n.orderer(n.cluster.state.Load()).match(strings.Split(filter, ","))
	var mu sync.Mutex
	var wg sync.WaitGroup
	nodes := map[string]any{}
	for _, id := range ids {
		wg.Go(func() {
			m := n.cluster.byID[id]
			if m.travel(ctx, n) != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			nodes[id] = describe(m)
		})
	}
	wg.Wait()
	return answer(map[string]any{
		"_nodes":       map[string]any{"total": len(ids), "successful": len(nodes), "failed": len(ids) - len(nodes)},
		"cluster_name": clusterName, "nodes": nodes,
	}), nil
}

// identity is what information and statistics begin with.
func (n *Node) identity() map[string]any {
	return map[string]any{
		"name": n.name, "transport_address": n.transport(), "host": "127.0.0.1", "ip": "127.0.0.1",
		"roles": n.roles(), "attributes": n.attributes(),
	}
}

func (n *Node) attributes() map[string]string {
	if all := n.cluster.opts.Attributes; n.number < len(all) && all[n.number] != nil {
		return all[n.number]
	}
	return map[string]string{}
}

func (n *Node) roles() []string {
	if n.cluster.opts.Engine == Elasticsearch {
		return []string{"data", "data_content", "ingest", "master", "remote_cluster_client"}
	}
	return []string{"cluster_manager", "data", "ingest", "remote_cluster_client"}
}

// describe answers _nodes for one node.
func (n *Node) describe(wanted metrics) map[string]any {
	o := n.identity()
	o["version"], o["build_type"], o["build_hash"] = n.cluster.version(), "tar", "simulated"
	if wanted.has("http") {
		o["http"] = map[string]any{
			"bound_address": []string{n.addr}, "publish_address": n.publishAddress(), "max_content_length_in_bytes": maxBody,
		}
	}
	if wanted.has("os") {
		o["os"] = map[string]any{
			"refresh_interval_in_millis": 1000, "name": "Linux", "arch": "amd64", "version": "6.1",
			"available_processors": n.cluster.processors(), "allocated_processors": n.cluster.processors(),
		}
	}
	if wanted.has("thread_pool") {
		o["thread_pool"] = map[string]any{
			"search": map[string]any{"type": "fixed", "size": n.cluster.opts.Threads, "queue_size": n.cluster.opts.QueueSize},
		}
	}
	return o
}

// statistics answers _nodes/stats for one node.
func (n *Node) statistics(wanted metrics) map[string]any {
	life := n.life.Load()
	pool := life.pool.stats()
	now := time.Now()
	f := n.fault()
	v := life.usage.told(f, now)
	const heap = 512 << 20
	sections := map[string]struct {
		key   string
		value any
	}{
		"indices": {"indices", n.indexStatistics(life, f, v)},
		"thread_pool": {"thread_pool", map[string]any{
			"search": pool, "write": map[string]any{"threads": pool.Threads, "queue": 0, "active": 0, "rejected": 0, "completed": 0}, "management": map[string]any{"completed": life.tasks.Add(1)},
		}},
		"os": {"os", map[string]any{
			"timestamp": now.UnixMilli(),
			"cpu":       map[string]any{"percent": 100 * pool.Active / pool.Threads},
			"cgroup":    cgroup(f, v),
		}},
		"process": {"process", map[string]any{"timestamp": now.UnixMilli(), "cpu": map[string]any{
			"percent": 100 * pool.Active / pool.Threads, "total_in_millis": int64(float64(v.ran.Milliseconds()) * idleCPU),
		}}},
		"jvm": {"jvm", map[string]any{
			"timestamp": now.UnixMilli(), "uptime_in_millis": now.Sub(life.since).Milliseconds(),
			"mem": map[string]any{"heap_used_in_bytes": heap * 4 / 10, "heap_used_percent": 40, "heap_max_in_bytes": heap},
			"gc": map[string]any{"collectors": map[string]any{
				"young": map[string]any{"collection_count": 1 + v.gcs, "collection_time_in_millis": 5 + v.gc.Milliseconds()},
				"old":   map[string]any{"collection_count": 0, "collection_time_in_millis": 0},
			}},
		}},
		"breaker": {"breakers", map[string]any{"parent": map[string]any{
			"limit_size_in_bytes": heap * 95 / 100, "estimated_size_in_bytes": heap * 4 / 10, "overhead": 1.0, "tripped": 0,
		}}},
		"adaptive_selection": {"adaptive_selection", life.seen.stats()},
	}
	o := n.identity()
	o["timestamp"] = now.UnixMilli()
	for metric, section := range sections {
		if wanted.has(metric) {
			o[section.key] = section.value
		}
	}
	return o
}

// indexStatistics is the section indices of the statistics.
func (n *Node) indexStatistics(l *life, f Fault, v spent) map[string]any {
	merges := map[string]any{
		"current": 0, "current_size_in_bytes": 0, "total": v.merges, "total_time_in_millis": v.merge.Milliseconds(), "total_size_in_bytes": v.merges << 30,
	}
	if f.Merging {
		merges["current"], merges["current_size_in_bytes"] = 1, 1<<30
	}
	return map[string]any{
		"search": l.counts.stats(), "get": l.counts.getStats(), "merges": merges,
		"refresh":  map[string]any{"total": v.refresh / (100 * time.Millisecond), "total_time_in_millis": v.refresh.Milliseconds()},
		"flush":    map[string]any{"total": 1, "total_time_in_millis": 7},
		"indexing": map[string]any{"index_total": 1000, "index_time_in_millis": 900},
	}
}

// cgroup tells of the node's CPU quota: while it is throttled, of nine periods in ten
// in which it ran out.
func cgroup(f Fault, v spent) map[string]any {
	quota := -1
	if f.Throttled {
		quota = 5000
	}
	periods := v.throttled.Milliseconds() / 100
	return map[string]any{"cpu": map[string]any{
		"control_group": "/", "cfs_period_micros": 100_000, "cfs_quota_micros": quota,
		"stat": map[string]any{
			"number_of_elapsed_periods": periods, "number_of_times_throttled": periods * 9 / 10,
			"time_throttled_nanos": v.throttled.Nanoseconds() * 9 / 10,
		},
	}}
}
