package loadgen

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	maxErrors  = 5
	maxLatency = 10 * time.Minute
)

// Result is what came of a load.
type Result struct {
	Sent    int64 // the sum of the following three
	OK      int64 // complete answers
	Failed  int64 // transport errors, timeouts, status ≥ 400, or no room in flight
	Partial int64 // status 200 with failed shards
	// TimedOut counts requests without an answer in time, which are also Failed,
	// and answers that say timed_out.
	TimedOut int64
	// FirstErrors holds the first different errors, at most five.
	FirstErrors []string

	latency *hdrhistogram.Histogram // µs
	elapsed time.Duration
}

func newResult() *Result {
	return &Result{latency: hdrhistogram.New(1, maxLatency.Microseconds(), 3)}
}

// Throughput is the number of complete answers per second.
func (r *Result) Throughput() float64 {
	if r.elapsed <= 0 {
		return 0
	}
	return float64(r.OK) / r.elapsed.Seconds()
}

// Quantile returns the latency that a share q of the requests did not exceed, with
// three digits. Failed requests count with the time they took, so look at Failed
// too; those that did not fit in flight do not count.
func (r *Result) Quantile(q float64) time.Duration {
	if r.latency == nil {
		return 0
	}
	return time.Duration(r.latency.ValueAtQuantile(q*100)) * time.Microsecond
}

// Elapsed is how long the load took, with the wait for the last answers.
func (r *Result) Elapsed() time.Duration { return r.elapsed }

// Merge adds a load that ran after this one to it.
func (r *Result) Merge(other *Result) {
	r.Sent += other.Sent
	r.OK += other.OK
	r.Failed += other.Failed
	r.Partial += other.Partial
	r.TimedOut += other.TimedOut
	r.elapsed += other.elapsed
	if r.latency == nil {
		r.latency = newResult().latency
	}
	if other.latency != nil {
		r.latency.Merge(other.latency)
	}
	for _, e := range other.FirstErrors {
		r.note(e)
	}
}

func (r *Result) note(text string) {
	if len(r.FirstErrors) < maxErrors && !slices.Contains(r.FirstErrors, text) {
		r.FirstErrors = append(r.FirstErrors, text)
	}
}

// recorder collects a result while the load runs.
type recorder struct {
	mu       sync.Mutex
	inFlight int64
	result   *Result
}

func (r *recorder) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight++
}

// dropped takes back a request that the end of the load cut off.
func (r *recorder) dropped() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight--
}

func (r *recorder) end(o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight--
	r.result.add(o)
}

func (r *recorder) overflow(bound int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Sent++
	r.result.Failed++
	r.result.note(fmt.Sprintf("not sent: %d requests under way", bound))
}

func (r *recorder) progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Progress{Sent: r.result.Sent, Failed: r.result.Failed, InFlight: r.inFlight}
}

func (r *Result) add(o outcome) {
	r.Sent++
	// The only error is a value out of range, which min and max rule out.
	_ = r.latency.RecordValue(min(max(o.latency, time.Microsecond), maxLatency).Microseconds())
	if o.timeout {
		r.TimedOut++
	}
	switch {
	case o.failed != nil:
		r.Failed++
		r.note(o.failed.Error())
	case o.partial:
		r.Partial++
	default:
		r.OK++
	}
}
