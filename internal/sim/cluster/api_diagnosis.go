package simcluster

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// hotThreads answers _nodes[/filter]/hot_threads: text, as the engines write it. It
// takes as long as its interval.
func (n *Node) hotThreads(r *request, filter string) (reply, *apiError) {
	interval, err := time.ParseDuration(r.params.Get("interval"))
	if err != nil {
		interval = 500 * time.Millisecond
	}
	if err := sleep(r.ctx, interval); err != nil {
		return reply{}, n.failure(r.ctx, err)
	}
	texts := map[string]string{}
	for _, id := range n.orderer(n.cluster.state.Load()).match(strings.Split(filter, ",")) {
		if m := n.cluster.byID[id]; m.travel(r.ctx, n) == nil {
			texts[id] = m.hotText(interval)
		}
	}
	var all strings.Builder
	for _, id := range slices.Sorted(maps.Keys(texts)) {
		all.WriteString(texts[id])
	}
	return reply{status: http.StatusOK, body: []byte(all.String()), text: true}, nil
}

// hotText is what one node tells of its busiest threads.
func (n *Node) hotText(interval time.Duration) string {
	f := n.fault()
	engine, usage := "opensearch", "%5.1f%% (%s out of %s) cpu usage by thread '%s'\n"
	if n.cluster.opts.Engine == Elasticsearch {
		engine, usage = "elasticsearch", "%5.1f%% [cpu=%[1]f%%, other=0.0%%] (%[2]s out of %[3]s) cpu usage by thread '%[4]s'\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "::: {%s}{%s}{simulated}\n   Hot threads at %s, interval=%s, busiestThreads=12, ignoreIdleThreads=true:\n",
		n.name, n.id, time.Now().UTC().Format(time.RFC3339), interval)
	thread := func(name string, share float64, frames ...string) {
		spent := time.Duration(share * float64(interval))
		fmt.Fprintf(&b, "   \n   "+usage, 100*share, spent, interval, name)
		fmt.Fprintf(&b, "     10/10 snapshots sharing following %d elements\n", len(frames)+1)
		for _, frame := range append(frames, "java.base@21.0.1/java.lang.Thread.run(Thread.java:1583)") {
			b.WriteString("       " + frame + "\n")
		}
	}
	if f.Merging {
		thread(engine+"["+n.name+"][[items][0]: Lucene Merge Thread #7]", 0.93,
			"app//org.apache.lucene.index.SegmentMerger.merge(SegmentMerger.java:131)",
			"app//org.apache.lucene.index.ConcurrentMergeScheduler$MergeThread.run(ConcurrentMergeScheduler.java:735)")
	}
	if f.Refreshing {
		thread(engine+"["+n.name+"][refresh][T#1]", 0.8, "app//org.apache.lucene.index.IndexWriter.flush(IndexWriter.java:3900)")
	}
	phase := "QueryPhase"
	if f.Fetching > 0.5 {
		phase = "FetchPhase"
	}
	thread(engine+"["+n.name+"][search][T#1]", 0.2, "app//org."+engine+".search."+phase+".execute("+phase+".java:80)")
	return b.String()
}

// tasksAPI answers GET _tasks: nothing runs.
func (n *Node) tasksAPI() reply { return answer(map[string]any{"nodes": map[string]any{}}) }
