package poll

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
)

// countedNodes answer all polls of three nodes, h0 to h2, in virtual time. Each poll
// is a task of the node that is asked, and each listing of the nodes one of all.
type countedNodes struct {
	mu    sync.Mutex
	tasks map[string]int // by host
	asked map[string]int // by kind
}

func (n *countedNodes) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	host := r.URL.Hostname()
	n.tasks[host]++
	kind, body := "", ""
	switch path := r.URL.Path; {
	case path == "/":
		kind, body = "info", `{"cluster_uuid":"u","cluster_name":"c","version":{"distribution":"opensearch","number":"3.6.0"}}`
	case path == "/_cluster/state/version":
		kind, body = "version", `{"cluster_uuid":"u","version":7}`
	case path == "/_cluster/state/version,nodes":
		kind, body = "members", `{"version":7,"nodes":{"h0":{"name":"h0"},"h1":{"name":"h1"},"h2":{"name":"h2"}}}`
	case path == "/_nodes/http,os,thread_pool":
		kind = "nodes"
		for _, other := range []string{"h0", "h1", "h2"} {
			n.tasks[other]++
			body += fmt.Sprintf(`,%q:{"name":%q,"roles":["data"],"http":{"publish_address":"%s:9200"}}`, other, other, other)
		}
		body = `{"nodes":{` + body[1:] + `}}`
	case strings.HasPrefix(path, "/_nodes/_local/stats"):
		kind = "stats"
		body = fmt.Sprintf(`{"nodes":{%q:{"thread_pool":{"search":{"threads":4},"management":{"completed":%d}}}}}`, host, n.tasks[host])
	case strings.HasPrefix(path, "/_cluster/state/version,routing_table"):
		kind, body = "table", `{"cluster_uuid":"u","version":7}`
	default:
		body = `{}`
	}
	n.asked[kind]++
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// take returns the polls since the last call, a second, by kind.
func (n *countedNodes) take(during time.Duration) map[string]float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	rates := map[string]float64{}
	for kind, count := range n.asked {
		rates[kind] = float64(count) / during.Seconds()
	}
	n.asked = map[string]int{}
	return rates
}

// A few sidesteps look at placement and nodes as often as they are told to; a fleet
// without a relay does not make that many times as many of these polls.
func TestPlacementAndDiscoveryHaveACeiling(t *testing.T) {
	for sidesteps, most := range map[int]struct{ version, nodes float64 }{
		1: {1.1, .2}, 120: {24, 4},
	} {
		t.Run(fmt.Sprint(sidesteps), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &countedNodes{tasks: map[string]int{}, asked: map[string]int{}}
				clusters := make([]*Poller, sidesteps)
				for i := range clusters {
					clusters[i] = New(cluster.NewStore(cluster.StoreOptions{}), Options{
						Seeds: []*url.URL{{Scheme: "http", Host: "h0:9200"}}, Client: &http.Client{Transport: n}, Registerer: prometheus.NewRegistry(),
					})
					clusters[i].Start(t.Context())
				}
				searched := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
						for _, c := range clusters {
							c.Touch()
						}
					}
				}
				searched(2 * time.Minute)
				n.take(time.Second)
				searched(time.Minute)
				rates := n.take(time.Minute)
				t.Logf("%d sidesteps: %v", sidesteps, rates)
				require.LessOrEqual(t, rates["version"], most.version)
				require.LessOrEqual(t, rates["nodes"], most.nodes)
				require.GreaterOrEqual(t, rates["version"], float64(sidesteps)*0.9/ceilingInterval.Seconds(), "but none is given up")
				for _, c := range clusters {
					require.NoError(t, c.Ready())
					require.Less(t, time.Since(c.Snapshot().PlacedAt), 2*ceilingInterval)
					c.Stop()
				}
			})
		})
	}
}

func TestMeanRateStretchesIntervals(t *testing.T) {
	t.Parallel()
	var c meanRate
	at := func(rates ...float64) {
		pollers := map[string]*nodePoller{}
		for i, rate := range rates {
			need := newSchedule(time.Second)
			need.rate.Store(math.Float64bits(rate))
			pollers[fmt.Sprint(i)] = &nodePoller{schedule: need}
		}
		c.update(pollers)
	}
	require.Equal(t, time.Second, c.stretch(time.Second, time.Minute), "nothing is known")
	at()
	at(1, 1)
	require.Equal(t, time.Second, c.stretch(time.Second, time.Minute))
	require.Zero(t, c.spread(time.Second, time.Minute))
	at(1, .5)
	require.Equal(t, 1333*time.Millisecond, c.stretch(time.Second, time.Minute).Truncate(time.Millisecond))
	at(.02, .02)
	require.Equal(t, 50*time.Second, c.stretch(time.Second, time.Minute))
	require.Equal(t, 10*time.Second, c.stretch(time.Second, 10*time.Second))
	require.Equal(t, time.Hour, c.stretch(time.Hour, time.Minute), "never more often than usual")
	for range 50 {
		require.Less(t, c.spread(time.Second, 10*time.Second), 9*time.Second)
	}
}
