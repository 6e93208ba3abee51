package poll

import (
	"cmp"
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

// statsServer answers polls of statistics in virtual time and notes when they came.
type statsServer struct {
	mu       sync.Mutex
	delay    time.Duration
	status   int         // 0: 200
	calm     atomic.Bool // nothing goes by what n1 tells
	flying   int
	polledAt []time.Time
}

func (s *statsServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.polledAt = append(s.polledAt, time.Now())
	s.flying++
	most, delay, status := s.flying, s.delay, cmp.Or(s.status, http.StatusOK)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.flying--
	}()
	if most > 1 {
		return nil, fmt.Errorf("%d polls at a time", most)
	}
	if !Sleep(r.Context(), delay) {
		return nil, r.Context().Err()
	}
	body := `{"nodes":{"n1":{"thread_pool":{"search":{"threads":4}}}}}`
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// rest waits until no poll is on its way.
func (s *statsServer) rest() {
	for {
		s.mu.Lock()
		flying := s.flying
		s.mu.Unlock()
		if flying == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// slow makes answers take this long from the next poll on.
func (s *statsServer) slow(delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = delay
}

// pauses returns the times between the polls since the last call, the first
// measured from that call.
func (s *statsServer) pauses(since time.Time) (gaps []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.polledAt {
		gaps, since = append(gaps, at.Sub(since)), at
	}
	s.polledAt = nil
	return gaps
}

// paced runs test beside a poller of one node, under both kinds of discovery.
// tell returns what the polls told since its last call.
func paced(t *testing.T, test func(t *testing.T, c *Poller, s *statsServer, tell func() []cluster.NodeStats)) {
	t.Helper()
	for name, static := range map[string]bool{"sniff": false, "static": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var told []cluster.NodeStats
				address := &url.URL{Scheme: "http", Host: "n1:9200"}
				s := &statsServer{delay: 2 * time.Millisecond}
				c := New(cluster.NewStore(cluster.StoreOptions{}), Options{
					Seeds: []*url.URL{address}, Static: static, Client: &http.Client{Transport: s}, Registerer: prometheus.NewRegistry(),
					Needed: func(node string) bool { return node == "n1" && !s.calm.Load() },
					OnStats: func(st cluster.NodeStats) {
						mu.Lock()
						defer mu.Unlock()
						told = append(told, st)
					},
				})
				discover(c, []*cluster.Node{{ID: "n1", URL: address}})
				hint(c.remeasure)
				ctx, cancel := context.WithCancel(t.Context())
				c.done.Go(func() { c.measureLoop(ctx) })
				test(t, c, s, func() []cluster.NodeStats {
					synctest.Wait()
					mu.Lock()
					defer mu.Unlock()
					now := told
					told = nil
					return now
				})
				cancel()
				c.Stop()
			})
		})
	}
}

// search decides searches for a while, more often than nodes are polled.
func search(c *Poller, during time.Duration) {
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(30 * time.Millisecond) {
		c.Touch()
	}
}

func TestPollsAreJittered(t *testing.T) {
	t.Parallel()
	paced(t, func(t *testing.T, c *Poller, s *statsServer, tell func() []cluster.NodeStats) {
		search(c, time.Minute)
		gaps := s.pauses(time.Now())[1:]
		require.InDelta(t, 300, len(gaps), 25)
		shortest, longest := time.Hour, time.Duration(0)
		for _, gap := range gaps {
			shortest, longest = min(shortest, gap), max(longest, gap)
		}
		require.GreaterOrEqual(t, shortest, 160*time.Millisecond)
		require.Less(t, shortest, 170*time.Millisecond)
		require.LessOrEqual(t, longest, 240*time.Millisecond)
		require.Greater(t, longest, 230*time.Millisecond)
		told := tell()
		require.Zero(t, told[0].Elapsed)
		for i, st := range told[1:] {
			require.Equal(t, st.At.Sub(told[i].At), st.Elapsed)
		}
	})
}

func TestIdleBacksOffAndASearchWakes(t *testing.T) {
	t.Parallel()
	paced(t, func(t *testing.T, c *Poller, s *statsServer, _ func() []cluster.NodeStats) {
		search(c, 5*time.Second)
		s.pauses(time.Now())
		time.Sleep(idleAfter - 2*touchGrain)
		for _, gap := range s.pauses(time.Now())[1:] {
			require.LessOrEqual(t, gap, 240*time.Millisecond, "not idle yet")
		}
		time.Sleep(20 * time.Second)
		gaps := s.pauses(time.Now())[1:]
		require.InDelta(t, 18, len(gaps), 14, "a few at the usual interval, then one every two seconds")
		for _, gap := range gaps[len(gaps)-4:] {
			require.InDelta(t, 2*time.Second, gap, float64(400*time.Millisecond))
		}
		for i, gap := range gaps[1:] {
			require.LessOrEqual(t, gap, 2*gaps[i]*3/2, "doubled at most, up to the jitter")
		}

		time.Sleep(300 * time.Millisecond) // somewhere between two polls
		s.rest()
		s.pauses(time.Now())
		woken := time.Now()
		c.Touch()
		time.Sleep(time.Millisecond)
		require.Equal(t, []time.Duration{0}, s.pauses(woken), "measured at once")
		time.Sleep(8 * time.Second)
		require.InDelta(t, 40, len(s.pauses(woken)), 8, "and often again")
	})
}

func TestTimeoutIsFollowedByAPoll(t *testing.T) {
	t.Parallel()
	paced(t, func(t *testing.T, c *Poller, s *statsServer, tell func() []cluster.NodeStats) {
		search(c, time.Second)
		s.slow(time.Hour)
		search(c, 10*time.Second)
		s.pauses(time.Now())
		search(c, 10*time.Second)
		deadline := c.o.StatsTimeout
		if c.o.Static {
			deadline += staticSlack
		}
		for _, gap := range s.pauses(time.Now())[1:] {
			require.Equal(t, deadline+retryPause, gap)
		}
		last := tell() // under static discovery nothing: no seed answered
		require.Equal(t, c.o.Static, last[len(last)-1].State == cluster.PollOK)
		s.slow(0)
		search(c, 2*deadline)
		told := tell()
		require.Equal(t, cluster.PollOK, told[len(told)-1].State)
	})
}

// answer makes answers have this status from the next poll on.
func (s *statsServer) answer(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// A refusal costs the engine the check of a password, and some shut out the address that it comes from.
func TestARefusedAccountIsTriedRarely(t *testing.T) {
	t.Parallel()
	paced(t, func(t *testing.T, c *Poller, s *statsServer, tell func() []cluster.NodeStats) {
		search(c, time.Second)
		s.answer(http.StatusUnauthorized)
		search(c, time.Minute)
		gaps := s.pauses(time.Now())
		for _, gap := range gaps[len(gaps)-2:] {
			require.InDelta(t, ceilingInterval, gap, float64(ceilingInterval)/4)
		}
		tell()
		s.answer(http.StatusOK)
		search(c, 2*ceilingInterval)
		told := tell()
		require.Equal(t, cluster.PollOK, told[len(told)-1].State)
		gaps = s.pauses(time.Now())
		require.Less(t, gaps[len(gaps)-1], 250*time.Millisecond, "often again")
	})
}

func TestLatePollsKeepAPause(t *testing.T) {
	t.Parallel()
	paced(t, func(t *testing.T, c *Poller, s *statsServer, _ func() []cluster.NodeStats) {
		s.slow(700 * time.Millisecond)
		search(c, 5*time.Second)
		for _, gap := range s.pauses(time.Now())[3:] {
			require.Equal(t, 740*time.Millisecond, gap)
		}
	})
}

func TestTouchAllocatesNothing(t *testing.T) {
	c := New(cluster.NewStore(cluster.StoreOptions{}), Options{Registerer: prometheus.NewRegistry()})
	c.Touch()
	require.Zero(t, testing.AllocsPerRun(100, c.Touch))
}

// While nothing goes by what the node tells it is left alone four times as long. Others that read what is polled may go by it.
func TestPollsThatNothingGoesByAreRarer(t *testing.T) {
	t.Parallel()
	paced(t, func(t *testing.T, c *Poller, s *statsServer, _ func() []cluster.NodeStats) {
		s.calm.Store(true)
		polls := func() int {
			search(c, time.Second)
			s.pauses(time.Now())
			search(c, time.Minute)
			return len(s.pauses(time.Now()))
		}
		require.InDelta(t, 75, polls(), 7)
		s.calm.Store(false)
		require.InDelta(t, 300, polls(), 25)
		s.calm.Store(true)
		require.InDelta(t, 75, polls(), 7)
		c.TouchAll()
		require.InDelta(t, 75+9*3.75, polls(), 12)
	})
}
