// Package tracing records requests and their attempts as OpenTelemetry spans and sends
// these to an OTLP receiver. It wraps OpenTelemetry: nothing else of sidestep knows it.
//
// A receiver that is down, slow or refuses costs the requests nothing: spans wait in a
// queue of fixed length and are dropped, and counted, when it is full.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"sidestep/internal/record"
)

const (
	// flushWithin is how long the spans that wait may take to leave when the receiver
	// is given up.
	flushWithin = 2 * time.Second
	// complainEvery is how often at most the log says that spans cannot be sent, or what else is wrong.
	complainEvery = time.Minute
)

// Options says where spans go and which requests are recorded. What is empty is read
// from the environment, see the variables OTEL_* of OpenTelemetry's specification.
type Options struct {
	// Endpoint is the URL of the receiver, http or https; if it is empty, here and in
	// the environment, nothing is recorded.
	Endpoint string
	Protocol string // "http/protobuf", "http/json" or "grpc"
	// SampleRatio is the share of requests recorded; OTEL_TRACES_SAMPLER says instead,
	// where it is set.
	SampleRatio float64
	// TrustClient leaves the decision to the client, where it has made one.
	TrustClient bool
	Headers     map[string]string // for the receiver
	ServiceName string
	Version     string // of sidestep
}

// Tracer records requests. Nothing is recorded until [Tracer.Use] says where to.
type Tracer struct {
	logger     *slog.Logger
	spans      *prometheus.CounterVec
	complaints rate.Sometimes // of spans that are not sent
	others     rate.Sometimes
	current    atomic.Pointer[provider] // nil while nothing is recorded

	mu      sync.Mutex // serialises Use and Close
	options *Options   // in force
	flushes sync.WaitGroup
}

var _ record.Tracer = (*Tracer)(nil)

// New returns a Tracer that records nothing.
func New(logger *slog.Logger, reg prometheus.Registerer) *Tracer {
	t := &Tracer{logger: logger, spans: newSpanCounter(reg)}
	t.complaints.Interval, t.others.Interval = complainEvery, complainEvery
	// What the SDK has to complain of would go to standard error in a format of its
	// own; its handler and its log are those of the process.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(t.pass))
	otel.SetLogger(logr.New(ownLog{logger}))
	return t
}

// Use records as o says from now on. Requests under way are not recorded any more if
// o differs from what was used before. On error everything stays as it was.
func (t *Tracer) Use(o Options) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.options != nil && reflect.DeepEqual(*t.options, o) {
		return nil
	}
	next, err := t.newProvider(o)
	if err != nil {
		return fmt.Errorf("tracing: %w", err)
	}
	t.options = &o
	t.swap(context.Background(), next)
	if next != nil {
		if len(o.Headers) > 0 && exposed(next.endpoint) {
			t.logger.Warn("headers for the receiver of traces, such as its token, are sent without encryption", "endpoint", next.endpoint)
		}
		t.logger.Info("requests are traced", "endpoint", next.endpoint, "protocol", next.protocol, "sampler", next.sampling())
	}
	return nil
}

// exposed reports whether others can read what is sent to endpoint: plain HTTP that leaves the machine.
func exposed(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback())
}

// Close sends what waits, within two seconds or until ctx ends, and records nothing
// more.
func (t *Tracer) Close(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.options = nil
	t.swap(ctx, nil)
	t.flushes.Wait()
}

// swap puts next in place of the current provider, which is flushed in the background.
func (t *Tracer) swap(ctx context.Context, next *provider) {
	if old := t.current.Swap(next); old != nil {
		t.flushes.Go(func() { old.close(ctx) })
	}
}

// complain tells the operator, now and then, that spans are lost.
func (t *Tracer) complain(err error) {
	t.complaints.Do(func() {
		t.logger.Warn("spans are not sent; logged at most once a minute, counted by sidestep_trace_spans_total", "err", said(err))
	})
}

// pass tells the operator, now and then, what else the SDK complains of, such as a variable.
func (t *Tracer) pass(err error) {
	if errors.Is(err, resource.ErrPartialResource) { // it quotes the variable
		err = errors.New("OTEL_RESOURCE_ATTRIBUTES has parts that are not name=value, which are left out")
	}
	t.others.Do(func() {
		t.logger.Warn("OpenTelemetry reports an error; logged at most once a minute", "err", said(err))
	})
}

// maxSaid bounds an error in the log, in bytes.
const maxSaid = 300

var urls = regexp.MustCompile(`https?://[^\s"]+`)

// said is what the log may hold of an error: of URLs no path, and nothing of a receiver's answer, which may be long and
// quote the token.
func said(err error) string {
	text, _, _ := strings.Cut(err.Error(), "body: ")
	if before, _, found := strings.Cut(text, " desc = "); found && !strings.HasSuffix(before, "code = Unavailable") {
		text = before // of gRPC, and not that there is no connection
	}
	text = strings.TrimRight(urls.ReplaceAllStringFunc(text, origin), ":( ")
	return strings.ToValidUTF8(text[:min(len(text), maxSaid)], "")
}

// ownLog takes what the SDK logs of its own: variables that it cannot read. It drops what these
// hold, errors too, as that may be the receiver's token or password.
type ownLog struct{ logger *slog.Logger }

// Init implements logr.LogSink.
func (ownLog) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink: only errors are told.
func (ownLog) Enabled(int) bool { return false }

// Info implements logr.LogSink.
func (ownLog) Info(int, string, ...any) {}

// Error implements logr.LogSink.
func (l ownLog) Error(_ error, what string, _ ...any) {
	l.logger.Warn("a variable OTEL_* cannot be read, and is left out", "failed", what)
}

// WithValues implements logr.LogSink.
func (l ownLog) WithValues(...any) logr.LogSink { return l }

// WithName implements logr.LogSink.
func (l ownLog) WithName(string) logr.LogSink { return l }

// Headers that carry the context of a trace (W3C Trace Context).
const (
	parentHeader = "Traceparent"
	stateHeader  = "Tracestate"
)

// Request implements [record.Tracer]. A client that names several parents is left
// alone: which of them an engine refuses is to be seen.
func (t *Tracer) Request(r *http.Request, trail *record.Trail) record.RequestSpan {
	p := t.current.Load()
	if p == nil || len(r.Header[parentHeader]) > 1 {
		return nil
	}
	ctx := context.Background() // the span outlives the request's
	if r.Header[parentHeader] != nil {
		ctx = propagation.TraceContext{}.Extract(ctx, carrier(r.Header))
	}
	if !p.wants(ctx) {
		return nil
	}
	return p.startRequest(ctx, r, trail)
}

// Probe implements [record.Tracer]: a probe is a trace of its own.
func (t *Tracer) Probe(h http.Header) record.ProbeSpan {
	p := t.current.Load()
	if p == nil || !p.wants(context.Background()) {
		return nil
	}
	a := p.attempt(context.Background(), h)
	if !a.IsRecording() {
		return nil
	}
	return probe{a}
}

// wants reports whether a request whose parent is in ctx is to be recorded. It is
// asked before anything is made, as most are not.
func (p *provider) wants(ctx context.Context) bool {
	if p.sampled {
		return true // the SDK's sampler decides
	}
	parent := trace.SpanContextFromContext(ctx)
	switch {
	case !parent.IsValid():
		return rand.Float64() < p.ratio
	case p.trust:
		return parent.IsSampled()
	}
	// All who see the trace decide alike, whatever the client says of it.
	asked := sdktrace.SamplingParameters{ParentContext: ctx, TraceID: parent.TraceID()}
	return p.share.ShouldSample(asked).Decision == sdktrace.RecordAndSample
}
