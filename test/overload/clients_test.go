// Package overload sends more searches than a simulated cluster can answer, through real
// client libraries at their default retries.
package overload

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	simcluster "sidestep/internal/sim/cluster"
	"sidestep/test/harness"
)

const (
	// A node answers ten shard queries a second, and each search takes one of every node.
	nodes       = 5
	serviceTime = 100 * time.Millisecond
	capacity    = 10.0 // searches a second
	load        = 1.5
	// queue is how many shard queries a node has wait; as many wait in sidestep.
	queue = 4
	// searches are sent of each library: at this load more than can wait.
	searches = 120
	// most is how many searches may reach the cluster for one of an application.
	most = 1.1
	// tools is where `make clients` installs the libraries.
	tools = "../../.cache/clients"
)

// built builds sidestep once for all tests.
var built = sync.OnceValues(func() (string, error) { return harness.Build(context.Background()) })

// counted is a cluster that counts what comes to it for applications.
type counted struct {
	urls    []string
	reached atomic.Int64
}

func startCluster(t *testing.T, engine string) *counted {
	t.Helper()
	simulated, err := simcluster.Start(simcluster.Options{
		Engine: engine, Nodes: nodes, Threads: 1, QueueSize: queue, ServiceTime: serviceTime, Adaptive: true,
		Indices: []simcluster.IndexSpec{{Name: "products", Shards: nodes, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(simulated.Stop)
	c := &counted{}
	for _, node := range simulated.Nodes() {
		handler := node.Handler()
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get("X-Opaque-Id"), "flood-") {
				c.reached.Add(1)
			}
			handler.ServeHTTP(w, r)
		}))
		t.Cleanup(front.Close)
		node.SetPublishAddress(strings.TrimPrefix(front.URL, "http://"))
		c.urls = append(c.urls, front.URL)
	}
	return c
}

// startFront starts a sidestep before the cluster, with admission in this mode.
func (c *counted) startFront(t *testing.T, mode string) *harness.Front {
	t.Helper()
	binary, err := built()
	require.NoError(t, err)
	s := harness.Stage{Binary: binary}
	f, err := s.StartSidestep(t.Context(), harness.Sidestep{Config: "admission: {mode: " + strconv.Quote(mode) + "}\n", Upstreams: c.urls})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, harness.Close(f, nil, t.Failed())) })
	require.NoError(t, f.AwaitReady(t.Context()))
	return f
}

// flooded is what applications got: searches by status, 0 for none, 206 if a part of the
// answer is missing.
type flooded struct {
	Statuses map[string]int
	Longest  float64 `json:"longest_s"`
}

func (f flooded) all() (sum int) {
	for _, n := range f.Statuses {
		sum += n
	}
	return sum
}

// flood runs a program that sends searches at a rate that the cluster cannot answer.
func flood(t *testing.T, command []string, engine, url string) (got flooded) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args := slices.Concat(command[1:], []string{engine, url, strconv.FormatFloat(load*capacity, 'f', -1, 64), strconv.Itoa(searches)})
	cmd := exec.CommandContext(ctx, command[0], args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	require.NoError(t, err, "%s: run `make clients`, which installs the client libraries", cmd)
	require.NoError(t, json.Unmarshal(out, &got), "%s", out)
	return got
}

// Client libraries send a search again that is refused, some at once. What they send does
// not multiply what the cluster has to do, and each of their searches comes to an end.
func TestRetriesOfClientsDoNotReachTheCluster(t *testing.T) {
	for _, engine := range []string{simcluster.OpenSearch, simcluster.Elasticsearch} {
		for library, command := range map[string][]string{
			"python": {filepath.Join(tools, "python", "bin", "python"), "../clients/python/flood.py"},
			"go":     {filepath.Join(tools, "bin", "flood")},
		} {
			t.Run(engine+"/"+library, func(t *testing.T) {
				t.Parallel()
				c := startCluster(t, engine)
				f := c.startFront(t, "auto")
				got := flood(t, command, engine, f.URL)
				refused, err := f.Sum(t.Context(), "sidestep_admission_refusals_total", nil)
				require.NoError(t, err)
				t.Logf("%d searches, %v, the longest took %.1f s; %.0f refusals, %d searches reached the cluster", searches, got.Statuses, got.Longest, refused, c.reached.Load())
				require.Equal(t, searches, got.all(), "every search ends")
				require.Zero(t, got.Statuses["0"], "each has an answer")
				require.Positive(t, refused, "the cluster is not overloaded")
				require.LessOrEqual(t, float64(c.reached.Load()), most*searches)
				// Limits follow the nodes' first polls: until then a queue may be full. Without
				// admission nine of ten searches fare so.
				require.LessOrEqual(t, got.Statuses["206"], searches/20, "hardly an answer lacks what a full queue rejected")
				require.Positive(t, got.Statuses["200"])
			})
		}
	}
}
