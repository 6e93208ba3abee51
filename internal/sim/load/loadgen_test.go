package loadgen

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const whole = `{"took":1,"timed_out":false,"_shards":{"total":5,"successful":5,"skipped":0,"failed":0},"hits":{}}`

// answers is a transport without a network.
type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func reply(status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// wait answers after d.
func wait(ctx context.Context, d time.Duration) (*http.Response, error) {
	if !sleepUntil(ctx, time.Now().Add(d)) {
		return nil, ctx.Err()
	}
	return reply(200, whole)
}

func run1(t *testing.T, o Options) *Result {
	t.Helper()
	o.Targets = []string{"http://127.0.0.1:1"}
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, r.Sent, r.OK+r.Failed+r.Partial)
	return r
}

func TestOpenLoopCountsFromTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stalled := time.Now().Add(time.Second)
		r := run1(t, Options{Rate: 10, Duration: time.Second, Transport: answers(func(r *http.Request) (*http.Response, error) {
			return wait(r.Context(), time.Until(stalled))
		})})
		require.EqualValues(t, 10, r.OK)
		require.InDelta(t, 1000, r.Quantile(1).Milliseconds(), 2)
		require.InDelta(t, 500, r.Quantile(0.5).Milliseconds(), 2)
		require.InDelta(t, 100, r.Quantile(0.01).Milliseconds(), 2)
	})
}

func TestOpenLoopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run1(t, Options{Rate: 10, Duration: time.Second, MaxInFlight: 3, Transport: answers(func(r *http.Request) (*http.Response, error) {
			return wait(r.Context(), 5*time.Second)
		})})
		require.EqualValues(t, 10, r.Sent)
		require.EqualValues(t, 3, r.OK)
		require.EqualValues(t, 7, r.Failed)
		require.Equal(t, []string{"not sent: 3 requests under way"}, r.FirstErrors)
		require.Equal(t, 5*time.Second, r.Quantile(0.5).Round(10*time.Millisecond))
	})
}

func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var numbers [40]atomic.Int64
		r := run1(t, Options{
			Connections: 4, Duration: time.Second,
			Request: func(i int) *http.Request {
				numbers[i].Add(1)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/x/_search", strings.NewReader("{}"))
				require.NoError(t, err)
				return req
			},
			Transport: answers(func(r *http.Request) (*http.Response, error) {
				require.Equal(t, "http://127.0.0.1:1/x/_search", r.URL.String())
				return wait(r.Context(), 100*time.Millisecond)
			}),
		})
		require.EqualValues(t, 40, r.OK)
		require.InDelta(t, 40, r.Throughput(), 0.1)
		for i := range numbers {
			require.EqualValues(t, 1, numbers[i].Load(), "request %d", i)
		}
	})
}

func TestOutcomes(t *testing.T) {
	for name, tc := range map[string]struct {
		answer answers
		want   Result
		text   string
	}{
		"complete": {func(*http.Request) (*http.Response, error) { return reply(200, whole) }, Result{OK: 1}, ""},
		"partial": {func(*http.Request) (*http.Response, error) {
			return reply(200, strings.Replace(whole, `"failed":0`, `"failed":2`, 1))
		}, Result{Partial: 1}, `partial: {"total":5,"successful":5,"skipped":0,"failed":2}`},
		"partial, with many failures": {func(*http.Request) (*http.Response, error) {
			failures := `"failed":2,"failures":["` + strings.Repeat("x", headSize) + `"]`
			return reply(200, strings.Replace(whole, `"failed":0`, failures, 1))
		}, Result{Partial: 1}, "partial: more failures than are kept"},
		"timed out search": {func(*http.Request) (*http.Response, error) {
			return reply(200, strings.Replace(whole, `"timed_out":false`, `"timed_out":true`, 1))
		}, Result{OK: 1, TimedOut: 1}, ""},
		"not a search": {func(*http.Request) (*http.Response, error) { return reply(200, `[1]`) }, Result{OK: 1}, ""},
		"rejected":     {func(*http.Request) (*http.Response, error) { return reply(429, "no room") }, Result{Failed: 1}, "status 429 from 127.0.0.1:1: no room"},
		"refused":      {func(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }, Result{Failed: 1}, "GET 127.0.0.1:1: refused"},
		"broken": {func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(io.MultiReader(strings.NewReader(whole), brokenReader{}))}, nil
		}, Result{Failed: 1}, "read the answer of 127.0.0.1:1: cut"},
		"silent": {func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, Result{Failed: 1, TimedOut: 1}, "GET 127.0.0.1:1: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := run1(t, Options{Rate: 1, Duration: time.Second, Transport: tc.answer, Timeout: time.Minute})
				got := Result{OK: r.OK, Failed: r.Failed, Partial: r.Partial, TimedOut: r.TimedOut}
				require.Equal(t, tc.want, got)
				require.Equal(t, tc.text, strings.Join(r.FirstErrors, ";"))
			})
		})
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("cut") }

func TestErrorsAreBounded(t *testing.T) {
	r := newResult()
	for range 2 {
		for _, text := range strings.Fields("a b c d e f g") {
			r.add(outcome{failed: errors.New(text)}, 0)
		}
	}
	require.Equal(t, strings.Fields("a b c d e"), r.FirstErrors)
}

func TestCancelEndsAtOnceAndBlamesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		for _, o := range []Options{{Rate: 1}, {Connections: 2}} {
			o.Targets, o.Duration = []string{"http://127.0.0.1:1"}, time.Hour
			o.Transport = answers(func(r *http.Request) (*http.Response, error) { return wait(r.Context(), time.Minute) })
			r, err := Run(ctx, o)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Zero(t, r.Failed)
		}
	})
}

func TestStopWaitsForWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, o := range []Options{{Rate: 1}, {Connections: 3}} {
			stop := make(chan struct{})
			time.AfterFunc(2500*time.Millisecond, func() { close(stop) })
			o.Duration, o.Timeout, o.Stop = time.Hour, time.Minute, stop
			o.Request = func(i int) *http.Request { return &http.Request{URL: &url.URL{Path: "/" + strconv.Itoa(i)}} }
			o.Transport = answers(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/2" { // it hangs
					return wait(r.Context(), time.Hour)
				}
				return wait(r.Context(), 5*time.Second)
			})
			r := run1(t, o)
			require.EqualValues(t, 2, r.OK)
			require.EqualValues(t, 1, r.Failed)
			require.EqualValues(t, 1, r.TimedOut)
		}
	})
}

func TestMerge(t *testing.T) {
	var sum Result
	require.Zero(t, sum.Quantile(0.5))
	for i := range 4 {
		r := newResult()
		r.add(outcome{latency: time.Duration(i+1) * 100 * time.Millisecond}, 250*time.Millisecond)
		r.elapsed = time.Second
		sum.Merge(r)
	}
	failed := newResult()
	failed.add(outcome{latency: time.Minute, status: http.StatusTooManyRequests, failed: errors.New("full")}, time.Hour)
	sum.Merge(failed)
	require.EqualValues(t, 1, sum.Refused)
	require.EqualValues(t, 2, sum.InTime)
	require.InDelta(t, 400, sum.Accepted(1).Milliseconds(), 1, "what failed is not accepted")
	require.EqualValues(t, 4, sum.OK)
	require.InDelta(t, 1, sum.Throughput(), 1e-9)
	require.InDelta(t, 200, sum.Accepted(0.5).Milliseconds(), 1)
	require.InDelta(t, 250, sum.MeanAccepted().Milliseconds(), 1)
	require.Zero(t, new(Result).MeanAccepted())
	require.InDelta(t, 60_000, sum.Quantile(1).Milliseconds(), 60)
}

func TestTargetsTakeTurnsOverTheNetwork(t *testing.T) {
	var hits [3]atomic.Int64
	var targets []string
	for i := range hits {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			hits[i].Add(1)
			_, _ = io.WriteString(w, whole)
		}))
		t.Cleanup(s.Close)
		targets = append(targets, s.URL)
	}
	r, err := Run(t.Context(), Options{Targets: targets, Rate: 300, Duration: 200 * time.Millisecond})
	require.NoError(t, err)
	require.EqualValues(t, 60, r.OK)
	for i := range hits {
		require.EqualValues(t, 20, hits[i].Load())
	}
}

func TestBadOptions(t *testing.T) {
	ok := Options{Targets: []string{"http://127.0.0.1:1"}, Rate: 1, Duration: time.Second}
	for name, corrupt := range map[string]func(*Options){
		"both loops":  func(o *Options) { o.Connections = 1 },
		"no loop":     func(o *Options) { o.Rate = 0 },
		"no targets":  func(o *Options) { o.Targets = nil },
		"bad target":  func(o *Options) { o.Targets = []string{"nine"} },
		"no duration": func(o *Options) { o.Duration = 0 },
	} {
		o := ok
		corrupt(&o)
		_, err := Run(t.Context(), o)
		require.Error(t, err, name)
	}
}
