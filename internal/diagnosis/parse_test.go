package diagnosis

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What real nodes answered.
const (
	hotOpenSearch    = "testdata/hot_threads_opensearch_3.6.0.txt"
	hotElasticsearch = "testdata/hot_threads_elasticsearch_8.19.4.txt"
)

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

func TestHotThreadsOfRealNodes(t *testing.T) {
	for _, c := range []struct {
		file   string
		name   string
		cpu    float64
		pool   string
		stacks int
	}{
		{hotOpenSearch, "opensearch[node-2][search][T#1]", 7.9, "search", 10},
		{hotElasticsearch, "elasticsearch[node-2][search][T#1]", 7.5, "search", 9},
	} {
		threads := parseHotThreads(read(t, c.file))
		require.NotEmpty(t, threads, c.file)
		first := threads[0]
		require.Equal(t, c.name, first.Name)
		require.Equal(t, c.pool, first.Pool)
		require.InDelta(t, c.cpu, first.CPU, 0)
		counts := map[string]int{}
		fold(counts, threads)
		snapshots := 0
		for line, n := range counts {
			if strings.HasPrefix(line, "search;") {
				snapshots += n
			}
			require.Regexp(t, `^[^;]+(;[^;() ]+)+$`, line)
			require.NotRegexp(t, `0x[0-9a-f]|\.java:|java\.base@`, line)
		}
		require.GreaterOrEqual(t, snapshots, c.stacks)
		text := foldedText(counts)
		require.Equal(t, len(counts), strings.Count(text, "\n"))
		require.Regexp(t, `java\.lang\.Thread\.run.* \d+\n`, text)
	}
}

func TestHotThreadsTellPhasesAndMerges(t *testing.T) {
	threads := parseHotThreads(`::: {n}
   20.5% (102ms out of 500ms) cpu usage by thread 'opensearch[n][search][T#2]'
     7/10 snapshots sharing following 3 elements
       app//org.apache.lucene.Reader.read(Reader.java:1)
       app//org.opensearch.search.fetch.FetchPhase.execute(FetchPhase.java:160)
       java.base@25/java.lang.Thread.run(Thread.java:1)
     unique snapshot
       app//org.opensearch.search.query.QueryPhase.execute(QueryPhase.java:1)
   91.2% [cpu=90.1%, other=1.1%] (456ms out of 500ms) cpu usage by thread 'elasticsearch[n][[logs][3]: Lucene Merge Thread #12]'
     10/10 snapshots sharing following 1 elements
       app//org.apache.lucene.index.SegmentMerger.merge(SegmentMerger.java:1)
`)
	require.Len(t, threads, 2)
	require.Equal(t, poolMerge, threads[0].Pool)
	require.InDelta(t, 90.1, threads[0].CPU, 0)
	require.Equal(t, 7, threads[1].Fetch)
	require.Equal(t, 1, threads[1].Query)
	counts := map[string]int{}
	fold(counts, threads)
	require.Equal(t, "merge;org.apache.lucene.index.SegmentMerger.merge 10\n"+
		"search;java.lang.Thread.run;org.opensearch.search.fetch.FetchPhase.execute;org.apache.lucene.Reader.read 7\n"+
		"search;org.opensearch.search.query.QueryPhase.execute 1\n", foldedText(counts))
}

// Segments that are searched at once are, in threads other than the one of the query phase.
func TestSlicesOfAQueryAreOfItsPhase(t *testing.T) {
	threads := parseHotThreads(`::: {n}
   20.5% (102ms out of 500ms) cpu usage by thread 'opensearch[n][index_searcher][T#2]'
     6/10 snapshots sharing following 3 elements
       app//org.opensearch.search.internal.ContextIndexSearcher.searchLeaf(ContextIndexSearcher.java:1)
       app//org.apache.lucene.search.TaskExecutor$Task.run(TaskExecutor.java:1)
       java.base@25/java.lang.Thread.run(Thread.java:1)
     4/10 snapshots sharing following 2 elements
       app//org.opensearch.search.internal.ContextIndexSearcher.searchLeaf(ContextIndexSearcher.java:1)
       app//org.opensearch.search.fetch.FetchPhase.execute(FetchPhase.java:160)
`)
	rec := &Record{HotThreads: []HotThreads{{At: Time{epoch}, Threads: threads}}}
	f := gather(rec, Bout{Began: Time{epoch}})
	require.Equal(t, 6, f.querying)
	require.Equal(t, 4, f.fetching, "as of the hits within hits")
}

func FuzzHotThreads(f *testing.F) {
	f.Add(read(f, hotOpenSearch))
	f.Add(read(f, hotElasticsearch))
	f.Fuzz(func(t *testing.T, text string) {
		threads := parseHotThreads(text)
		require.LessOrEqual(t, len(threads), maxThreads)
		counts := map[string]int{}
		fold(counts, threads)
		for line := range counts {
			require.NotContains(t, line, "\n")
		}
	})
}

func TestTasksKeepNoSearch(t *testing.T) {
	for _, file := range []string{"testdata/tasks_opensearch_3.6.0.json", "testdata/tasks_elasticsearch_8.19.4.json"} {
		tasks, err := parseTasks([]byte(read(t, file)))
		require.NoError(t, err)
		require.NotEmpty(t, tasks, file)
		for i, task := range tasks {
			require.Contains(t, task.Action, "search")
			require.Positive(t, task.Running)
			require.Contains(t, []string{"products", ""}, task.Indices)
			if i > 0 {
				require.LessOrEqual(t, task.Running, tasks[i-1].Running)
			}
		}
		require.Equal(t, "products", tasks[0].Indices)
	}
}

func TestStatsOfRealNodes(t *testing.T) {
	for file, node := range map[string]string{
		"testdata/stats_opensearch_3.6.0.json":     "m2nVjq1_R-mCGZJB-udrGQ",
		"testdata/stats_elasticsearch_8.19.4.json": "z_vwZnjtTz69N4lmXOFaaA",
	} {
		c, err := parseStats([]byte(read(t, file)), node)
		require.NoError(t, err, file)
		for what, figure := range map[string]int64{
			"uptime": c.Uptime, "queries": c.Queries, "query time": c.QueryTime, "fetches": c.Fetches, "fetch time": c.FetchTime,
			"refreshes": c.Refreshes, "gc": c.GC, "gc time": c.GCTime, "heap": c.HeapUsed, "heap max": c.HeapMax,
			"cpu": c.CPUTime, "threads": c.Search.Threads, "completed": c.Search.Completed, "period": c.Period, "limit": c.Limit, "io": c.IOs,
		} {
			require.Positive(t, figure, "%s: %s", file, what)
		}
		require.False(t, c.At.IsZero())
		_, err = parseStats([]byte(read(t, file)), "another")
		require.ErrorIs(t, err, errNotTold)
	}
}

// What collectors do beside the threads of the node stops none.
func TestOnlyPausesAreCollections(t *testing.T) {
	for collectors, want := range map[string]int64{
		`"young":{"collection_time_in_millis":30},"old":{"collection_time_in_millis":4},"G1 Concurrent GC":{"collection_time_in_millis":900}`:                        34,
		`"ZGC Cycles":{"collection_time_in_millis":900},"ZGC Pauses":{"collection_time_in_millis":2}`:                                                                2,
		`"ZGC Minor Cycles":{"collection_time_in_millis":900},"ZGC Minor Pauses":{"collection_time_in_millis":1},"ZGC Major Pauses":{"collection_time_in_millis":1}`: 2,
		`"Shenandoah Cycles":{"collection_time_in_millis":900},"Shenandoah Pauses":{"collection_time_in_millis":3}`:                                                  3,
	} {
		c, err := parseStats([]byte(`{"nodes":{"n":{"timestamp":1,"jvm":{"gc":{"collectors":{`+collectors+`}}}}}}`), "n")
		require.NoError(t, err)
		require.Equal(t, want, c.GCTime, collectors)
	}
}

// An error is an answer of the node, but not one of a gateway that cannot reach it.
func TestStatusesOfTheNode(t *testing.T) {
	for status, want := range map[int]int{401: 401, 429: 429, 500: 500, 502: 0, 503: 0, 504: 0} {
		require.Equal(t, want, statusOf(statusError{status}))
	}
	require.Zero(t, statusOf(errNotTold))
}

// A record of trouble that lasts holds a few names of each answer, and not the answer, of which the texts of searches are a part.
func TestAnswersAreNotHeld(t *testing.T) {
	held := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const answers = 32
	long, before := strings.Repeat("x", maxAnswer), held()
	var kept []any
	for range answers {
		threads := parseHotThreads("20.5% (102ms out of 500ms) cpu usage by thread 'opensearch[n][search][T#2]'\n" + long)
		require.Len(t, threads, 1)
		tasks, err := parseTasks([]byte(`{"nodes":{"n":{"tasks":{"1":{"action":"search","description":"indices[logs], source[` + long + `]"}}}}}`))
		require.NoError(t, err)
		require.Equal(t, "logs", tasks[0].Indices)
		kept = append(kept, threads, tasks)
	}
	require.Less(t, held()-before, int64(answers*maxAnswer/2))
	runtime.KeepAlive(kept)
}
