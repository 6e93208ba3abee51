package poll

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
)

// busyNodes answers polls of statistics for any number of nodes, by host name, and
// counts them as the tasks that they are.
type busyNodes struct {
	mu    sync.Mutex
	polls map[string]int
	quota float64 // processors that each may use; 0: nothing limits them
	// processors that each has; 0: not known.
	processors int
	calm       atomic.Bool // nothing goes by what they tell
}

func (b *busyNodes) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := r.URL.Hostname()
	b.polls[id]++
	body := fmt.Sprintf(`{"nodes":{%q:{"thread_pool":{"search":{"threads":4},"management":{"completed":%d}},"os":{"cgroup":{"cpu":{"cfs_quota_micros":%d,"cfs_period_micros":100000}}}}}}`,
		id, b.polls[id], int(b.quota*100000))
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// take returns the polls of each node since the last call.
func (b *busyNodes) take() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.polls
	b.polls = map[string]int{}
	return before
}

func newBusyNodes() *busyNodes {
	return &busyNodes{polls: map[string]int{}}
}

// count returns the polls of a node.
func (b *busyNodes) count(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.polls[id]
}

// measuring starts the pollers of a cluster with this many nodes, n0, n1, …
func (b *busyNodes) measuring(ctx context.Context, nodes int) *Poller {
	contents := cluster.Contents{Indices: []cluster.Index{}}
	for i := range nodes {
		id := fmt.Sprintf("n%d", i)
		contents.Nodes = append(contents.Nodes, &cluster.Node{ID: id, URL: &url.URL{Scheme: "http", Host: id + ":9200"}, Processors: b.processors})
	}
	c := New(cluster.NewStore(cluster.StoreOptions{}), Options{Seeds: []*url.URL{contents.Nodes[0].URL}, Client: &http.Client{Transport: b}, Registerer: prometheus.NewRegistry(), Needed: func(string) bool { return !b.calm.Load() }})
	discover(c, contents.Nodes)
	hint(c.remeasure)
	c.done.Go(func() { c.measureLoop(ctx) })
	return c
}

// Sidesteps that know nothing of each other must not burden a node, a few of
// them must not be hindered, and one that joins must get its share.
func TestPollsOfAllStayBelowTheCeiling(t *testing.T) {
	for _, tc := range []struct {
		sidesteps  int
		quota      float64 // of each node
		processors int     // likewise
		want       [2]int  // polls a second
	}{
		{1, 0, 0, [2]int{4, 6}}, {16, 0, 0, [2]int{75, 85}}, {60, 0, 16, [2]int{60, 120}}, {500, 0, 0, [2]int{60, 120}},
		{16, 8, 0, [2]int{75, 85}}, {60, 4, 8, [2]int{30, 60}}, {60, 0, 4, [2]int{30, 60}}, {60, 0, 2, [2]int{15, 30}},
		{60, 0.05, 2, [2]int{15, 30}}, {5, 0.05, 2, [2]int{20, 26}}, {1, 0.05, 2, [2]int{4, 6}},
	} {
		t.Run(fmt.Sprintf("%d, quota %g of %d", tc.sidesteps, tc.quota, tc.processors), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBusyNodes()
				b.quota, b.processors = tc.quota, tc.processors
				ctx, cancel := context.WithCancel(t.Context())
				clusters := make([]*Poller, tc.sidesteps)
				for i := range clusters {
					clusters[i] = b.measuring(ctx, 1)
				}
				searched := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
						for _, c := range clusters {
							c.Touch()
						}
					}
				}
				perSecond := func(seconds int) int {
					before := b.count("n0")
					searched(time.Duration(seconds) * time.Second)
					return (b.count("n0") - before) / seconds
				}
				searched(2 * time.Minute)
				polls := perSecond(60)
				require.GreaterOrEqual(t, polls, tc.want[0])
				require.LessOrEqual(t, polls, tc.want[1])
				// What is spared while nothing goes by the polls is not there for others: all may need it at once.
				b.calm.Store(true)
				searched(2 * time.Minute)
				require.LessOrEqual(t, perSecond(60), tc.want[1])
				b.calm.Store(false)
				require.LessOrEqual(t, perSecond(5), tc.want[1]+tc.want[1]/4)
				cancel()
				for _, c := range clusters {
					c.Stop()
				}
			})
		})
	}
}

// Under static discovery all nodes are asked at once. One that does not answer now and then has completed less than the
// others since it started, or more: that is no load, and its processors count as those of any node.
func TestTheCeilingUnderStaticDiscovery(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		nodes, processors int // that there are, and that each has
		want              time.Duration
	}{{3, 0, 200 * time.Millisecond}, {3, 8, 200 * time.Millisecond}, {3, 2, ceilingInterval}, {1000, 0, time.Second}} {
		t.Run(fmt.Sprintf("%d nodes, %d processors", tc.nodes, tc.processors), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				started, polls := time.Now(), 0
				answer := func(r *http.Request) (*http.Response, error) {
					done, nodes := int(50*time.Since(started).Seconds()), []string{} // tasks a second
					for id, before := range map[string]int{"n1": 5_000_000, "n2": 5_200_000, "n3": 1000} {
						switch polls++; {
						case id == "n3" && polls/3%10 == 0:
							nodes = append(nodes, `"n3":null`)
						case id != "n3" || polls/3%5 > 0:
							nodes = append(nodes, fmt.Sprintf(`%q:{"thread_pool":{"search":{"threads":4},"management":{"completed":%d}}}`, id, before+done))
						}
					}
					body := `{"nodes":{` + strings.Join(nodes, ",") + `}}`
					return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
				}
				c := New(cluster.NewStore(cluster.StoreOptions{}), Options{
					Seeds: []*url.URL{{Scheme: "http", Host: "n1:9200"}}, Static: true,
					Client: &http.Client{Transport: roundTripper(answer)}, Registerer: prometheus.NewRegistry(),
				})
				nodes := make([]*cluster.Node, tc.nodes)
				for i := range nodes {
					nodes[i] = &cluster.Node{ID: fmt.Sprintf("n%d", i+1), Processors: tc.processors}
				}
				discover(c, nodes)
				ctx, cancel := context.WithCancel(t.Context())
				c.done.Go(func() { c.measureLoop(ctx) })
				search(c, 5*time.Minute)
				require.Equal(t, tc.want, c.Interval())
				cancel()
				c.Stop()
			})
		})
	}
}

func TestCeilingRisesWithoutLoad(t *testing.T) {
	c := newCeiling()
	at, tasks := time.Now(), int64(1)
	second := func(n int64) {
		at, tasks = at.Add(ceilingWindow), tasks+n*int64(ceilingWindow/time.Second)
		c.observe(tasks, 0, at)
	}
	second(0)
	require.Equal(t, 200*time.Millisecond, c.stretch(200*time.Millisecond))
	second(150)
	require.Equal(t, 300*time.Millisecond, c.stretch(200*time.Millisecond), "half more than it may: half more time")
	for range 20 {
		second(1000)
	}
	require.Equal(t, ceilingInterval, c.stretch(200*time.Millisecond), "there is a last resort")
	require.Equal(t, time.Minute, c.stretch(time.Minute), "which is no invitation")
	for range 60 {
		second(0)
	}
	require.Equal(t, 200*time.Millisecond, c.stretch(200*time.Millisecond))
	c.spare(0) // the window has begun at full speed
	c.spare(4)
	second(60)
	require.Equal(t, 200*time.Millisecond, c.stretch(200*time.Millisecond), "what was polled at full speed counts once")
	c.spare(4)
	second(60)
	require.Equal(t, 400*time.Millisecond, c.stretch(200*time.Millisecond), "all that poll may poll four times as often at once")
	for range 20 {
		second(0)
	}
	tasks = 1 // a restart
	c.observe(tasks, 0, at.Add(time.Hour))
	require.Equal(t, 200*time.Millisecond, c.stretch(200*time.Millisecond))
}

func TestNodesThatServeNothingInUseArePolledRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBusyNodes()
		ctx, cancel := context.WithCancel(t.Context())
		c := b.measuring(ctx, 4)
		search := func(d time.Duration, nodes ...int) {
			plan := &cluster.Plan{Shards: [][]int{nodes}, Names: []cluster.ShardName{{Index: "logs"}}}
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				c.Touch()
				c.Use(plan)
			}
		}
		search(5*time.Second, 0, 1)
		b.take()
		search(20*time.Second, 0, 1)
		polls := b.take()
		require.InDelta(t, 100, polls["n0"], 5)
		require.InDelta(t, 100, polls["n1"], 5)
		require.InDelta(t, 10, polls["n2"], 2, "it serves nothing that is searched")

		search(touchGrain+100*time.Millisecond, 2)
		require.Positive(t, b.take()["n2"])
		search(5*time.Second, 2)
		require.InDelta(t, 25, b.take()["n2"], 3, "now it does")
		search(20*time.Second, 2)
		b.take()
		search(20*time.Second, 2)
		require.InDelta(t, 10, b.take()["n0"], 2, "what is searched no more is forgotten")

		for range 200 { // searches that resolve to nothing: any node may coordinate
			c.Touch()
			time.Sleep(100 * time.Millisecond)
		}
		b.take()
		time.Sleep(5 * time.Second)
		require.InDelta(t, 25, b.take()["n3"], 4)
		cancel()
		c.Stop()
	})
}

func TestOneSidestepHasABudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBusyNodes()
		ctx, cancel := context.WithCancel(t.Context())
		c := b.measuring(ctx, 1000)
		for range 5 {
			c.Touch()
			time.Sleep(time.Second)
		}
		b.take()
		for range 10 {
			c.Touch()
			time.Sleep(time.Second)
		}
		total := 0
		for _, polls := range b.take() {
			total += polls
		}
		require.InDelta(t, 10*Budget, total, Budget)
		cancel()
		c.Stop()
	})
}

func TestUseAllocatesNothing(t *testing.T) {
	c := New(cluster.NewStore(cluster.StoreOptions{}), Options{Registerer: prometheus.NewRegistry()})
	plan := &cluster.Plan{Shards: [][]int{{0}}, Names: []cluster.ShardName{{Index: "logs"}}}
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Use(plan) }))
}
