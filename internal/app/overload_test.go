package app_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	simcluster "sidestep/internal/sim/cluster"
	loadgen "sidestep/internal/sim/load"
)

// repetitions counts what sidestep says that became of searches.
type repetitions struct {
	base http.RoundTripper

	mu               sync.Mutex
	answered, failed int
	inVain           int         // attempts after the first that failed, too
	statuses         map[int]int // of what failed
}

var attemptsTold = regexp.MustCompile(`attempts=(\d+)`)

func (r *repetitions) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("X-Sidestep-Explain", "1")
	res, err := r.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	var answer struct {
		Shards struct{ Failed int } `json:"_shards"`
	}
	complete := res.StatusCode == http.StatusOK && json.Unmarshal(body, &answer) == nil && answer.Shards.Failed == 0
	r.mu.Lock()
	defer r.mu.Unlock()
	told := attemptsTold.FindStringSubmatch(res.Header.Get("X-Sidestep-Decision"))
	if told == nil {
		return nil, errors.New("sidestep does not tell how many attempts it made")
	}
	attempts, err := strconv.Atoi(told[1])
	if err != nil {
		return nil, err
	}
	if complete {
		r.answered++
		r.inVain += max(0, attempts-2)
		return res, nil
	}
	r.failed++
	r.statuses[res.StatusCode]++
	r.inVain += attempts - 1
	return res, nil
}

// Sending again what a full queue rejected fills it even more: of a cluster that gets many
// times what it can serve, next to nothing is asked twice, whether the engine chooses the copies
// or every search has a list, so that it would be repeated. That depends on how many searches
// succeed, and not on how fast the machine is. What it means for clients is another test's
// matter, in virtual time (package lab).
func TestOverloadIsNotMadeWorse(t *testing.T) {
	for _, when := range []string{"outlier", "always"} {
		t.Run(when, func(t *testing.T) { overload(t, when) })
	}
}

func overload(t *testing.T, when string) {
	t.Helper()
	simulated, err := simcluster.Start(simcluster.Options{
		Nodes: 5, Threads: 1, QueueSize: 20, ServiceTime: 40 * time.Millisecond, Adaptive: true,
		Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 5, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(simulated.Stop)
	cfg := settings(simulated.URLs()...)
	cfg.Routing.When = when
	transport := loadgen.NewTransport(256)
	t.Cleanup(transport.CloseIdleConnections)
	seen := &repetitions{base: transport, statuses: map[int]int{}}
	result, err := loadgen.Run(t.Context(), loadgen.Options{
		Targets: []string{startReady(t, cfg, nil).dataURL("")}, Rate: 150, Duration: 4 * time.Second, Transport: seen,
		Request: func(int) *http.Request {
			return &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/logs/_search"}}
		},
	})
	require.NoError(t, err)
	t.Logf("%d sent: %d answered, %d not (%v), %d times sent again in vain", result.Sent, seen.answered, seen.failed, seen.statuses, seen.inVain)
	require.Greater(t, seen.failed, 4*seen.answered, "the cluster is not overloaded")
	require.LessOrEqual(t, seen.inVain, seen.failed/10, "sent again in vain")
	for status := range seen.statuses { // of the engine's own: part of the answer, a full queue, no shard
		require.Contains(t, []int{http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable}, status)
	}
}
