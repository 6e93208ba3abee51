package loadgen

import (
	"net/http"
	"slices"
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
	Partial int64 // status 200 without some shards
	// TimedOut counts requests without an answer in time, which are also Failed,
	// and answers that say timed_out.
	TimedOut int64
	// InTime are those of OK that came within Options.Deadline.
	InTime int64
	// Refused are those of Failed that were answered 429.
	Refused int64
	// FirstErrors holds the first different errors, and _shards of partial answers, at most five.
	FirstErrors []string

	latency  *hdrhistogram.Histogram // µs
	accepted *hdrhistogram.Histogram // those of OK
	elapsed  time.Duration
}

func newResult() *Result {
	histogram := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxLatency.Microseconds(), 3) }
	return &Result{latency: histogram(), accepted: histogram()}
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
func (r *Result) Quantile(q float64) time.Duration { return quantile(r.latency, q) }

// Accepted is Quantile of the complete answers alone.
func (r *Result) Accepted(q float64) time.Duration { return quantile(r.accepted, q) }

// quantile is 0 of a Result to which nothing was added.
func quantile(of *hdrhistogram.Histogram, q float64) time.Duration {
	if of == nil {
		return 0
	}
	return time.Duration(of.ValueAtQuantile(q*100)) * time.Microsecond
}

// MeanAccepted is the mean latency of the complete answers.
func (r *Result) MeanAccepted() time.Duration {
	if r.accepted == nil {
		return 0
	}
	return time.Duration(r.accepted.Mean() * float64(time.Microsecond))
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
	r.InTime += other.InTime
	r.Refused += other.Refused
	if r.latency == nil {
		empty := newResult()
		r.latency, r.accepted = empty.latency, empty.accepted
	}
	if other.latency != nil {
		r.latency.Merge(other.latency)
		r.accepted.Merge(other.accepted)
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

func (r *Result) add(o outcome, deadline time.Duration) {
	r.Sent++
	took := min(max(o.latency, time.Microsecond), maxLatency).Microseconds()
	// The only error is a value out of range, which min and max rule out.
	_ = r.latency.RecordValue(took)
	if o.status == http.StatusTooManyRequests {
		r.Refused++
	}
	if o.timeout {
		r.TimedOut++
	}
	switch {
	case o.failed != nil:
		r.Failed++
		r.note(o.failed.Error())
	case o.partial != "":
		r.Partial++
		r.note("partial: " + o.partial)
	default:
		r.OK++
		_ = r.accepted.RecordValue(took)
		if o.latency <= deadline {
			r.InTime++
		}
	}
}
