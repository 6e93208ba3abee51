// Package loadgen sends searches to a cluster at a fixed rate or over a fixed
// number of connections and measures what a client gets.
package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Options describe a load. Either Rate or Connections is set.
type Options struct {
	// Targets are the addresses to send to in turn, http://HOST:PORT.
	Targets []string
	// Request makes the request number i. Its URL needs path and query alone; scheme
	// and host are filled in. Default: GET /_search.
	Request func(i int) *http.Request
	// Rate, searches per second, makes an open loop: requests start on schedule
	// however slow the answers are, and latency counts from the scheduled start.
	Rate float64
	// Connections makes a closed loop: so many clients, each sending its next
	// request when the last is answered.
	Connections int
	// MaxInFlight bounds the requests under way in an open loop, default 512. What
	// does not fit is counted as sent and failed.
	MaxInFlight int
	// Duration is how long requests are started. Those under way are then waited
	// for.
	Duration time.Duration
	// Stop, if set, ends that before when it is closed.
	Stop <-chan struct{}
	// Timeout bounds one request, default 30 s.
	Timeout time.Duration
	// Deadline, if set, is within what time of its start, in an open loop the scheduled
	// one, an answer is of use: see [Result.InTime].
	Deadline time.Duration
	// Transport carries the requests. Default: one of its own with no compression,
	// whose connections are closed at the end.
	Transport http.RoundTripper
}

func (o Options) withDefaults() (Options, error) {
	if (o.Rate > 0) == (o.Connections > 0) {
		return o, errors.New("loadgen: set either Rate or Connections")
	}
	if len(o.Targets) == 0 {
		return o, errors.New("loadgen: no targets")
	}
	if o.Duration <= 0 {
		return o, errors.New("loadgen: Duration must be positive")
	}
	if o.Request == nil {
		o.Request = func(int) *http.Request {
			return &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/_search"}}
		}
	}
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = 512
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	return o, nil
}

// NewTransport returns a transport for up to inFlight connections to each target,
// which asks for no compression. The caller closes its idle connections.
func NewTransport(inFlight int) *http.Transport {
	return &http.Transport{
		MaxIdleConnsPerHost: inFlight, IdleConnTimeout: time.Minute, DisableCompression: true,
	}
}

// Run sends a load and returns what came of it. When ctx ends it stops at once,
// and returns what there is together with the error of ctx; requests cut off by
// that count as neither sent nor failed. Several may run at the same time.
func Run(ctx context.Context, o Options) (*Result, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &run{Options: o, result: newResult(), begin: time.Now()}
	for _, target := range o.Targets {
		u, err := url.Parse(target)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("loadgen: target %q is not an address", target)
		}
		r.targets = append(r.targets, u)
	}
	if r.Transport == nil {
		own := NewTransport(max(o.MaxInFlight, o.Connections))
		defer own.CloseIdleConnections()
		r.Transport = own
	}
	starting, stop := context.WithCancel(ctx)
	go func() {
		defer stop()
		select {
		case <-o.Stop:
		case <-starting.Done():
		}
	}()
	if o.Rate > 0 {
		r.openLoop(ctx, starting)
	} else {
		r.closedLoop(ctx, starting)
	}
	stop()
	r.result.elapsed = max(time.Since(r.begin), time.Microsecond)
	return r.result, ctx.Err()
}

type run struct {
	Options
	targets []*url.URL
	begin   time.Time

	mu     sync.Mutex // guards result while the load runs
	result *Result
}

// end counts a request.
func (r *run) end(o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.add(o, r.Deadline)
}

// overflow counts a request for which there was no room.
func (r *run) overflow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Sent++
	r.result.Failed++
	r.result.note(fmt.Sprintf("not sent: %d requests under way", r.MaxInFlight))
}

// openLoop starts requests on schedule, until starting ends.
func (r *run) openLoop(ctx, starting context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, r.MaxInFlight)
	gap := float64(time.Second) / r.Rate
	for i := 0; ; i++ {
		after := time.Duration(float64(i) * gap)
		if after >= r.Duration || !sleepUntil(starting, r.begin.Add(after)) {
			return
		}
		select {
		case slots <- struct{}{}:
			wg.Go(func() {
				r.send(ctx, i, r.begin.Add(after))
				<-slots
			})
		default:
			r.overflow()
		}
	}
}

// closedLoop keeps every connection busy, until starting ends.
func (r *run) closedLoop(ctx, starting context.Context) {
	var wg sync.WaitGroup
	for c := range r.Connections {
		wg.Go(func() {
			for i := c; time.Since(r.begin) < r.Duration && starting.Err() == nil; i += r.Connections {
				r.send(ctx, i, time.Now())
			}
		})
	}
	wg.Wait()
}

// sleepUntil reports whether the time came before the end of ctx.
func sleepUntil(ctx context.Context, at time.Time) bool {
	d := time.Until(at)
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
