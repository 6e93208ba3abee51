package diagnosis

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Bounds of what is kept of one answer of hot threads.
const (
	maxThreads = 64
	maxFrames  = 256
)

// HotThreads is what the busiest threads of a node did during half a second.
type HotThreads struct {
	At Time `json:"at"`
	// Via is the node that was asked about it; empty if the node itself answered.
	Via     string   `json:"via,omitempty"`
	Threads []Thread `json:"threads"` // the busiest first
}

// Thread is a busy thread of a node.
type Thread struct {
	Name string `json:"name"`
	// CPU is in percent of one processor.
	CPU float64 `json:"cpu_percent"`
	// Pool is what the thread belongs to: a thread pool, "merge", or its own name.
	Pool string `json:"pool"`
	// Fetch and Query are how many of the thread's snapshots were in these phases of a
	// search.
	Fetch int `json:"fetch_snapshots,omitempty"`
	Query int `json:"query_snapshots,omitempty"`

	stacks []stack
}

// stack is a stack of frames, the innermost first, and in how many snapshots it was.
type stack struct {
	frames []string
	count  int
}

// What the engines write. Elasticsearch adds the share of CPU in a thread's time in
// brackets:
//
//	62.3% [cpu=61.0%, other=1.3%] (311.5ms out of 500ms) cpu usage by thread 'elasticsearch[n][search][T#1]'
//	61.2% (306ms out of 500ms) cpu usage by thread 'opensearch[n][search][T#1]'
var (
	threadLine = regexp.MustCompile(`^\s*([0-9.]+)%(?: \[cpu=([0-9.]+)%[^\]]*\])? \(.* out of .*\) \w+ usage by thread '(.*)'$`)
	sharedLine = regexp.MustCompile(`^\s*(\d+)/\d+ snapshots sharing following \d+ elements`)
	uniqueLine = regexp.MustCompile(`^\s*unique snapshot`)
	// A thread of a pool is called engine[node][pool][T#1]; one that merges
	// engine[node][[index][shard]: Lucene Merge Thread #1].
	poolName = regexp.MustCompile(`^\w+\[[^\]]*\]\[([^\]\[]+)\]`)
)

// parseHotThreads reads an answer of _nodes/ID/hot_threads. It ignores what it does not
// understand.
func parseHotThreads(text string) []Thread {
	var threads []Thread
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n ")
		if m := threadLine.FindStringSubmatch(line); m != nil {
			if len(threads) == maxThreads {
				break
			}
			percent, err := strconv.ParseFloat(cmp.Or(m[2], m[1]), 64)
			if err != nil {
				continue
			}
			name := strings.Clone(m[3]) // else the whole answer would stay in memory
			threads = append(threads, Thread{Name: name, CPU: percent, Pool: poolOf(name)})
			continue
		}
		if len(threads) > 0 {
			threads[len(threads)-1].read(line)
		}
	}
	for i := range threads {
		threads[i].countPhases()
	}
	slices.SortStableFunc(threads, func(a, b Thread) int { return cmp.Compare(b.CPU, a.CPU) })
	return threads
}

// read reads a line of the thread's stacks.
func (t *Thread) read(line string) {
	if m := sharedLine.FindStringSubmatch(line); m != nil {
		count, err := strconv.Atoi(m[1])
		if err == nil {
			t.stacks = append(t.stacks, stack{count: count})
		}
		return
	}
	if uniqueLine.MatchString(line) {
		t.stacks = append(t.stacks, stack{count: 1})
		return
	}
	frame := strings.TrimSpace(line)
	if frame == "" || strings.HasPrefix(frame, ":::") || len(t.stacks) == 0 {
		return
	}
	last := &t.stacks[len(t.stacks)-1]
	if len(last.frames) < maxFrames {
		last.frames = append(last.frames, frame)
	}
}

// countPhases counts the snapshots of each phase of a search.
func (t *Thread) countPhases() {
	in := func(s stack, class string) bool {
		return slices.ContainsFunc(s.frames, func(f string) bool { return strings.Contains(f, class) })
	}
	for _, s := range t.stacks {
		switch {
		case in(s, ".FetchPhase."):
			t.Fetch += s.count
		case in(s, ".QueryPhase."), in(s, ".ContextIndexSearcher."): // slices of a query have threads of their own
			t.Query += s.count
		}
	}
}

// Names of threads that are recognised.
const (
	poolMerge   = "merge"
	poolRefresh = "refresh"
	poolSearch  = "search"
	poolWorker  = "search_worker"  // Elasticsearch 8.10 to 8.15
	poolSlices  = "index_searcher" // OpenSearch
)

// poolOf returns the pool of a thread.
func poolOf(thread string) string {
	if strings.Contains(thread, "Lucene Merge Thread") || strings.Contains(thread, "[merge]") {
		return poolMerge
	}
	if m := poolName.FindStringSubmatch(thread); m != nil {
		return m[1]
	}
	return strings.TrimRight(strings.NewReplacer(";", ",", "\n", " ").Replace(thread), "0123456789-# ")
}

// fold adds the stacks of threads to counts, keyed by their folded form: pool;outermost
// frame;…;innermost frame.
func fold(counts map[string]int, threads []Thread) {
	for _, t := range threads {
		for _, s := range t.stacks {
			if len(s.frames) == 0 {
				continue // a thread of the JVM itself
			}
			var line strings.Builder
			line.WriteString(t.Pool)
			for _, frame := range slices.Backward(s.frames) {
				line.WriteByte(';')
				line.WriteString(strings.ReplaceAll(frameName(frame), ";", ","))
			}
			counts[line.String()] += s.count
		}
	}
}

// lambda is the JVM's name of a lambda, which differs at each start.
var lambda = regexp.MustCompile(`\$\$Lambda(?:\$\d+)?/(?:0x)?[0-9a-f]+`)

// frameName shortens java.base@21.0.1/java.lang.Thread.run(Thread.java:1583) to
// java.lang.Thread.run. With line numbers equal stacks would look different.
func frameName(frame string) string {
	if at := strings.IndexByte(frame, '('); at > 0 {
		frame = frame[:at]
	}
	frame = lambda.ReplaceAllLiteralString(frame, "$$Lambda")
	return frame[strings.LastIndexByte(frame, '/')+1:] // without the module or class loader
}

// foldedText writes folded stacks, the most frequent first.
func foldedText(counts map[string]int) string {
	lines := make([]string, 0, len(counts))
	for line := range counts {
		lines = append(lines, line)
	}
	slices.SortFunc(lines, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(line)
		text.WriteByte(' ')
		text.WriteString(strconv.Itoa(counts[line]))
		text.WriteByte('\n')
	}
	return text.String()
}
