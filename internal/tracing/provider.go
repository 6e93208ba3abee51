package tracing

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/credentials/insecure"
)

// Protocols of a receiver, as OTEL_EXPORTER_OTLP_PROTOCOL calls them.
const (
	protocolHTTP = "http/protobuf"
	protocolJSON = "http/json"
	protocolGRPC = "grpc"
)

// provider records spans for one receiver, until it is closed.
type provider struct {
	sdk      *sdktrace.TracerProvider
	tracer   trace.Tracer
	exporter sdktrace.SpanExporter
	endpoint string // without path
	protocol string
	ratio    float64
	share    sdktrace.Sampler // of traces, by their ids: ratio
	trust    bool             // the client's decision
	sampled  bool             // by the sampler that the environment names
}

// newProvider returns what o asks for, nil if nothing is to be recorded.
func (t *Tracer) newProvider(o Options) (*provider, error) {
	endpoint := cmp.Or(o.Endpoint, os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	if endpoint == "" || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil //nolint:nilnil // nothing to record is not an error
	}
	p := &provider{
		endpoint: origin(endpoint),
		protocol: cmp.Or(o.Protocol, t.protocolOf("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), t.protocolOf("OTEL_EXPORTER_OTLP_PROTOCOL"), protocolHTTP),
		ratio:    o.SampleRatio,
		share:    sdktrace.TraceIDRatioBased(o.SampleRatio),
		trust:    o.TrustClient,
		sampled:  samplerNamed(),
	}
	ctx := context.Background()
	described, err := describe(ctx, o)
	if err != nil {
		t.pass(err) // of a variable that cannot be read; the rest is there
	}
	if p.exporter, err = newExporter(ctx, p.protocol, o); err != nil {
		return nil, err
	}
	q := newQueue(t)
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(described),
		sdktrace.WithSpanProcessor(q.before(p.exporter)),
	}
	if !p.sampled {
		options = append(options, sdktrace.WithSampler(sdktrace.AlwaysSample())) // wants has decided
	}
	p.sdk = sdktrace.NewTracerProvider(options...)
	p.tracer = p.sdk.Tracer("sidestep", trace.WithInstrumentationVersion(o.Version), trace.WithSchemaURL(semconv.SchemaURL))
	return p, nil
}

// protocolOf returns the protocol that a variable names, empty if it names none of ours: operators set the
// variable for everything that runs beside sidestep.
func (t *Tracer) protocolOf(variable string) string {
	protocol := os.Getenv(variable)
	if protocol == "" || protocol == protocolHTTP || protocol == protocolJSON || protocol == protocolGRPC {
		return protocol
	}
	t.logger.Warn("a variable OTEL_* cannot be read, and is left out", "failed", variable+" names none of "+protocols)
	return ""
}

// protocols are those there are.
const protocols = protocolHTTP + ", " + protocolJSON + ", " + protocolGRPC

// samplerNamed reports whether the environment names a sampler that the SDK has. For the name of another one, such
// as jaeger_remote, the SDK would record all requests.
func samplerNamed() bool {
	switch strings.ToLower(strings.TrimSpace(os.Getenv("OTEL_TRACES_SAMPLER"))) {
	case "always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio":
		return true
	}
	return false
}

// newExporter returns what sends spans. It does not connect yet.
func newExporter(ctx context.Context, protocol string, o Options) (sdktrace.SpanExporter, error) {
	endpoint := strings.TrimSuffix(o.Endpoint, "/")
	switch protocol {
	case protocolHTTP, protocolJSON:
		encoding := otlptracehttp.EncodingProtobuf
		if protocol == protocolJSON {
			encoding = otlptracehttp.EncodingJSON
		}
		options := []otlptracehttp.Option{otlptracehttp.WithEncoding(encoding)} // else a variable would decide
		if endpoint != "" {
			options = append(options, otlptracehttp.WithEndpointURL(withPath(endpoint)))
		}
		if len(o.Headers) > 0 {
			options = append(options, otlptracehttp.WithHeaders(o.Headers))
		}
		exporter, err := otlptracehttp.New(ctx, options...)
		if err != nil { // the environment names a certificate, and the receiver has no TLS
			return otlptracehttp.New(ctx, append(options, otlptracehttp.WithTLSClientConfig(nil))...)
		}
		return exporter, nil
	case protocolGRPC:
		var options []otlptracegrpc.Option
		if endpoint != "" {
			options = append(options, otlptracegrpc.WithEndpointURL(endpoint))
		}
		if strings.HasPrefix(endpoint, "http://") { // else a certificate that the environment names has it speak TLS
			options = append(options, otlptracegrpc.WithTLSCredentials(insecure.NewCredentials()))
		}
		if len(o.Headers) > 0 {
			options = append(options, otlptracegrpc.WithHeaders(o.Headers))
		}
		return otlptracegrpc.New(ctx, options...)
	}
	return nil, fmt.Errorf("protocol %q is not one of %s", protocol, protocols)
}

// withPath adds the usual path to a URL that has none.
func withPath(endpoint string) string {
	if parsed, err := url.Parse(endpoint); err == nil && parsed.Path == "" {
		return endpoint + "/v1/traces"
	}
	return endpoint
}

// describe says who records. What the environment says of it wins, but for a name
// that was given.
func describe(ctx context.Context, o Options) (*resource.Resource, error) {
	detectors := []resource.Option{
		resource.WithAttributes(semconv.ServiceName("sidestep"), semconv.ServiceVersion(o.Version)),
		resource.WithTelemetrySDK(),
		resource.WithHost(),
		resource.WithFromEnv(),
	}
	if o.ServiceName != "" {
		detectors = append(detectors, resource.WithAttributes(semconv.ServiceName(o.ServiceName)))
	}
	return resource.New(ctx, detectors...)
}

// origin is what may be logged of a receiver's URL.
func origin(endpoint string) string {
	if parsed, err := url.Parse(endpoint); err == nil && parsed.Host != "" {
		return parsed.Scheme + "://" + parsed.Host
	}
	return "(not a URL)"
}

// sampling says what decides which requests are recorded.
func (p *provider) sampling() string {
	if p.sampled {
		return os.Getenv("OTEL_TRACES_SAMPLER")
	}
	ratio := "ratio " + strconv.FormatFloat(p.ratio, 'g', -1, 64)
	if p.trust {
		return "parentbased, " + ratio
	}
	return ratio
}

// close sends what waits and ends what runs in the background.
func (p *provider) close(ctx context.Context) {
	soon, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	if p.sdk.Shutdown(soon) != nil {
		// The SDK goes on sending what waits for as long as that may take.
		_ = p.exporter.Shutdown(soon)
	}
}

// queue bounds the spans that wait to be sent, those that are being sent included. The
// SDK's own queue drops as well, but does not say how many.
type queue struct {
	sdktrace.SpanProcessor
	tracer  *Tracer
	limit   int64
	waiting atomic.Int64
}

func newQueue(t *Tracer) *queue {
	return &queue{tracer: t, limit: numberOf("OTEL_BSP_MAX_QUEUE_SIZE", sdktrace.DefaultMaxQueueSize)}
}

// before puts the queue, and the SDK's batches, before exporter.
func (q *queue) before(exporter sdktrace.SpanExporter) *queue {
	batch := min(q.limit, numberOf("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", sdktrace.DefaultMaxExportBatchSize))
	delay := time.Duration(numberOf("OTEL_BSP_SCHEDULE_DELAY", sdktrace.DefaultScheduleDelay)) * time.Millisecond
	q.SpanProcessor = sdktrace.NewBatchSpanProcessor(counted{exporter, q},
		sdktrace.WithMaxQueueSize(int(q.limit)), sdktrace.WithMaxExportBatchSize(int(batch)), sdktrace.WithBatchTimeout(delay))
	return q
}

// numberOf returns the number in a variable, or another where it holds none above 0: then the SDK would end
// the process, or, without a delay, use up a processor.
func numberOf(variable string, another int64) int64 {
	if n, err := strconv.ParseInt(os.Getenv(variable), 10, 32); err == nil && n > 0 {
		return n
	}
	return another
}

// OnEnd implements sdktrace.SpanProcessor.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	if q.waiting.Add(1) > q.limit {
		q.waiting.Add(-1)
		q.tracer.spans.WithLabelValues(resultDropped).Inc()
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// counted counts the spans that an exporter takes, or not.
type counted struct {
	sdktrace.SpanExporter
	queue *queue
}

// ExportSpans implements sdktrace.SpanExporter. Errors end here: the SDK could do
// nothing but log them.
func (c counted) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := c.SpanExporter.ExportSpans(ctx, spans)
	c.queue.waiting.Add(-int64(len(spans)))
	lost := len(spans)
	if rejected := partly.FindStringSubmatch(fmt.Sprint(err)); rejected != nil {
		n, _ := strconv.Atoi(rejected[1]) // 0 if it is no number of spans
		lost = min(n, lost)
	}
	switch {
	case err == nil:
		lost = 0
	case lost == 0: // a warning
		c.queue.tracer.pass(err)
	default:
		c.queue.tracer.complain(err)
	}
	c.queue.tracer.spans.WithLabelValues(resultFailed).Add(float64(lost))
	c.queue.tracer.spans.WithLabelValues(resultExported).Add(float64(len(spans) - lost))
	return nil
}

// partly is the error for a receiver that rejected some of the spans, or none and warns of something. Its type is
// not exported.
var partly = regexp.MustCompile(`(?s)OTLP partial success: .*\((\d+) spans rejected\)$`)

// Results of a span. The set is closed: it is a metric label.
const (
	resultExported = "exported"
	resultFailed   = "failed"
	resultDropped  = "dropped"
)

func newSpanCounter(reg prometheus.Registerer) *prometheus.CounterVec {
	spans := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "sidestep_trace_spans_total",
		Help: "Spans of traced requests by result: exported; failed, the receiver did not take them; dropped, too many were waiting.",
	}, []string{"result"})
	for _, result := range []string{resultExported, resultFailed, resultDropped} {
		spans.WithLabelValues(result)
	}
	return spans
}
