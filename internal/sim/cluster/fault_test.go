package simcluster

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const soon = time.Minute

func TestPausedNodeIsSilent(t *testing.T) {
	c := quick(t, nil)
	bad := c.Nodes()[1]
	bad.SetFault(Fault{Pause: true})
	short := 100 * time.Millisecond
	for _, line := range []string{
		"GET /_cat/shards?format=json", "GET /_nodes/stats", "GET /products/_search?preference=_only_nodes:" + bad.ID() + "," + c.Nodes()[3].ID() + "," + c.Nodes()[0].ID(),
	} {
		_, _, err := try(t, c.Nodes()[0], short, line)
		require.ErrorIs(t, err, context.DeadlineExceeded, line)
	}
	_, _, err := try(t, bad, short, "GET /")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	for _, line := range []string{
		"GET /_cluster/state/version?local=true", "GET /products/_search_shards?local=true",
		"GET /_cluster/state/routing_table,nodes/products?local=true", "GET /_search_shards",
	} {
		ask(t, c.Nodes()[0], 200, line)
	}
	o := ask(t, c.Nodes()[0], 200, "GET /_nodes/stats?timeout=1s")
	require.Len(t, o.at("nodes"), 4)

	time.AfterFunc(20*time.Millisecond, func() { bad.SetFault(Fault{}) })
	ask(t, bad, 200, "GET /")
}

func TestPausedManagerHangsWhatIsNotLocal(t *testing.T) {
	c := quick(t, nil)
	c.Nodes()[0].SetFault(Fault{Pause: true})
	_, _, err := try(t, c.Nodes()[1], 100*time.Millisecond, "GET /products/_search_shards")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	ask(t, c.Nodes()[1], 200, "GET /products/_search_shards?local=true")
}

func TestHangingNodeStillServesShards(t *testing.T) {
	c := quick(t, nil)
	bad := c.Nodes()[1]
	bad.SetFault(Fault{Hang: true})
	_, _, err := try(t, bad, 100*time.Millisecond, "GET /")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	for range 10 {
		ask(t, c.Nodes()[0], 200, "GET /products/_search")
	}
	require.Positive(t, bad.Searches())
}

func TestRefusingNodeComesBackAtItsAddress(t *testing.T) {
	c := quick(t, nil)
	bad := c.Nodes()[1]
	address := bad.URL()
	bad.SetFault(Fault{Refuse: true})
	_, _, err := try(t, bad, soon, "GET /")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Equal(t, 5, ask(t, c.Nodes()[0], 200, "GET /products/_search").number("_shards", "successful"))
	bad.SetFault(Fault{})
	require.Equal(t, address, bad.URL())
	ask(t, bad, 200, "GET /")
}

func TestFailFast(t *testing.T) {
	for engine, kind := range map[string]string{OpenSearch: "rejected_execution_exception", Elasticsearch: "es_rejected_execution_exception"} {
		c := quick(t, func(o *Options) { o.Engine = engine })
		bad := c.Nodes()[1]
		bad.SetFault(Fault{FailFast: 429})
		require.Equal(t, kind, ask(t, bad, 429, "GET /products/_search").at("error", "type"))
		o := ask(t, c.Nodes()[0], 429, "GET /products/_search?preference=_shards:1|_only_nodes:"+bad.ID())
		require.Equal(t, "all shards failed", o.at("error", "reason"))
		require.Equal(t, "search_phase_execution_exception", o.at("error", "type"))
		stats := ask(t, bad, 200, "GET /_nodes/_local/stats")
		require.Equal(t, 2, stats.number("nodes", bad.ID(), "thread_pool", "search", "rejected"))
		require.Zero(t, ask(t, c.Nodes()[0], 200, "GET /products/_search").number("_shards", "failed"), "other copies serve")
		bad.SetFault(Fault{FailFast: 503})
		ask(t, bad, 503, "GET /products/_search")
		ask(t, c.Nodes()[0], 503, "GET /products/_search?preference=_shards:1|_only_nodes:"+bad.ID())
	}
}

func TestPartialResults(t *testing.T) {
	c := quick(t, nil)
	nodes := c.Nodes()
	nodes[0].SetFault(Fault{Partial: true})
	o := ask(t, nodes[1], 200, "GET /products/_search?preference=_only_nodes:"+nodes[0].ID()+","+nodes[2].ID()+","+nodes[4].ID())
	failed := o.number("_shards", "failed")
	require.Positive(t, failed)
	require.Equal(t, 5-failed, o.number("_shards", "successful"))
	require.Less(t, o.number("hits", "total", "value"), 1000)
	first := object(o.at("_shards", "failures").([]any)[0].(map[string]any))
	require.Equal(t, nodes[0].ID(), first.at("node"))
	whole := "&allow_partial_search_results=false"
	require.Equal(t, "Partial shards failure", ask(t, nodes[1], 500, "GET /products/_search?preference=_only_nodes:"+nodes[0].ID()+","+nodes[2].ID()+","+nodes[4].ID()+whole).at("error", "reason"))
	require.Zero(t, ask(t, nodes[1], 200, "GET /products/_search").number("_shards", "failed"))
	for _, n := range nodes {
		n.SetFault(Fault{Partial: true})
	}
	require.Equal(t, "all shards failed", ask(t, nodes[1], 500, "GET /products/_search?"+whole).at("error", "reason"))
}

func TestSlowNodeDelays(t *testing.T) {
	c := quick(t, func(o *Options) { o.ServiceTime, o.Sigma = 10*time.Millisecond, -1 })
	n, other := c.Nodes()[1], c.Nodes()[0]
	shard := "GET /products/_search?preference=_shards:1|_only_nodes:" + n.ID()
	took := func(at *Node, line string) time.Duration {
		begin := time.Now()
		ask(t, at, 200, line)
		return time.Since(begin)
	}
	n.SetFault(Fault{Factor: 8})
	require.GreaterOrEqual(t, took(other, shard), 80*time.Millisecond)
	n.SetFault(Fault{Extra: time.Second, Jitter: 10 * time.Millisecond})
	require.GreaterOrEqual(t, took(other, shard), 990*time.Millisecond)
	stats := ask(t, n, 200, "GET /_nodes/_local/stats")
	require.Less(t, stats.number("nodes", n.ID(), "indices", "search", "query_time_in_millis"), 900, "latency is not service time")
	n.SetFault(Fault{CoordinatorDelay: 100 * time.Millisecond})
	require.GreaterOrEqual(t, took(n, "GET /"), 100*time.Millisecond)
}

func TestQueueBoundRejects(t *testing.T) {
	c := quick(t, func(o *Options) {
		o.Nodes, o.Threads, o.QueueSize, o.ServiceTime = 1, 1, 1, time.Second
		o.Indices = []IndexSpec{{Name: "one"}}
	})
	var mu sync.Mutex
	var wg sync.WaitGroup
	count := map[int]int{}
	for range 6 {
		wg.Go(func() {
			status, _, err := try(t, c.Nodes()[0], soon, "GET /one/_search")
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				count[status]++
			}
		})
	}
	wg.Wait()
	require.Equal(t, 6, count[200]+count[429])
	require.Positive(t, count[429])
	require.EqualValues(t, count[200], c.Nodes()[0].Searches())
}

func TestClientThatLeavesFreesThePool(t *testing.T) {
	c := quick(t, func(o *Options) { o.ServiceTime = time.Hour })
	_, _, err := try(t, c.Nodes()[0], 100*time.Millisecond, "POST /products/_search", `{"size":1}`)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Eventually(t, func() bool {
		for _, n := range c.Nodes() {
			if n.life.Load().pool.stats().Active > 0 {
				return false
			}
		}
		return true
	}, soon, 5*time.Millisecond)
}

func TestKillAndReturn(t *testing.T) {
	c := quick(t, func(o *Options) { o.ServiceTime = time.Hour })
	n, bad := c.Nodes()[0], c.Nodes()[1]
	results := make(chan int, 1)
	search := func() {
		status, _, err := try(t, n, soon, "GET /products/_search?preference=_shards:1|_only_nodes:"+bad.ID())
		if err != nil {
			status = 0
		}
		results <- status
	}
	go search()
	require.Eventually(t, func() bool { return bad.life.Load().pool.stats().Active > 0 }, soon, time.Millisecond)
	before := c.Version()
	bad.Kill()
	require.Equal(t, 500, <-results, "no other copy was allowed")
	require.Greater(t, c.Version(), before)
	require.False(t, bad.Alive())
	_, _, err := try(t, bad, soon, "GET /")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Equal(t, "yellow", ask(t, n, 200, "GET /_cluster/health").at("status"))
	require.Len(t, ask(t, n, 200, "GET /_nodes/http").at("nodes"), 4)

	require.NoError(t, bad.Return())
	require.Error(t, bad.Return())
	require.Eventually(t, func() bool { return ask(t, n, 200, "GET /_cluster/health").at("status") == "green" }, soon, 5*time.Millisecond)
	stats := ask(t, bad, 200, "GET /_nodes/_local/stats")
	require.Zero(t, stats.number("nodes", bad.ID(), "indices", "search", "query_total"))
}

// Clusters of other tests and other processes choose ports at any time, also while a node does not listen.
func TestANodeThatDoesNotListenKeepsItsPort(t *testing.T) {
	c := quick(t, nil)
	n := c.Nodes()[1]
	u, err := url.Parse(n.URL())
	require.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	for _, away := range []func(){n.Kill, func() { n.SetFault(Fault{Refuse: true}) }} {
		away()
		_, _, err = take(t.Context(), port)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		if !n.Alive() {
			require.NoError(t, n.Return())
		}
	}
	n.SetFault(Fault{})
	c.Stop()
	require.ErrorIs(t, n.reserved.Close(), net.ErrClosed, "nothing is held any more")
}

func TestRelocationEnds(t *testing.T) {
	c := quick(t, nil)
	to := c.Nodes()[3].ID()
	require.NoError(t, c.Relocate("products", 0, c.Nodes()[0].ID(), to))
	require.Eventually(t, func() bool {
		status, _ := call(t, c.Nodes()[1], "GET /products/_search?preference=_shards:0|_only_nodes:"+to)
		cp := c.state.Load().index("products").Shards[0][0]
		return status == 200 && cp.Node == to && cp.State == started
	}, soon, 5*time.Millisecond)
}

func TestStopAnswersNobodyAndEndsEverything(t *testing.T) {
	c, err := Start(Options{Nodes: 2, ServiceTime: time.Hour, Indices: []IndexSpec{{Name: "x"}}})
	require.NoError(t, err)
	c.Nodes()[1].SetFault(Fault{Hang: true})
	var wg sync.WaitGroup
	for _, n := range c.Nodes() {
		wg.Go(func() { _, _, _ = try(t, n, soon, "GET /_search") })
	}
	time.Sleep(20 * time.Millisecond)
	c.Stop()
	wg.Wait()
	_, err = Start(Options{})
	require.Error(t, err)
	_, err = Start(Options{Nodes: 1, Engine: "solr"})
	require.Error(t, err)
	_, err = Start(Options{Nodes: 1, Indices: []IndexSpec{{Name: "x"}, {Name: "x"}}})
	require.Error(t, err)
}

// A request that a node has not answered when it is killed fails: nothing that looks
// like an answer comes back.
func TestAKilledNodeAnswersNothing(t *testing.T) {
	c := quick(t, nil)
	victim, client := c.Nodes()[1], client(t)
	for range 50 {
		failed := make(chan error, 8)
		victim.SetFault(Fault{CoordinatorDelay: time.Minute})
		for range cap(failed) {
			go func() {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, victim.URL()+"/products/_search", http.NoBody)
				if err == nil {
					var resp *http.Response
					if resp, err = client.Do(req); err == nil {
						_ = resp.Body.Close()
					}
				}
				failed <- err
			}()
		}
		time.Sleep(5 * time.Millisecond) // for most to arrive; the others are refused
		victim.Kill()
		for range cap(failed) {
			require.Error(t, <-failed)
		}
		require.NoError(t, victim.Return())
	}
}
