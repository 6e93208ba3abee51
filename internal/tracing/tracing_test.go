package tracing

import (
	"context"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"sidestep/internal/es"
	"sidestep/internal/record"
	"sidestep/internal/selection"
	"sidestep/internal/testkit"
	"sidestep/internal/tracing/tracingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	sampled   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

func newTracer(t *testing.T, o Options) (*Tracer, *testkit.Log) {
	t.Helper()
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	l := &testkit.Log{}
	tracer := New(slog.New(slog.NewTextHandler(l, nil)), prometheus.NewRegistry())
	require.NoError(t, tracer.Use(o))
	t.Cleanup(func() { tracer.Close(context.Background()) })
	return tracer, l
}

// ask records a search of one attempt, and returns the headers that it goes upstream
// with and whether it was recorded.
func ask(tracer *Tracer, headers ...string) (http.Header, bool) {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/products/_search?q=secret", http.NoBody)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	trail := &record.Trail{Method: http.MethodPost, Path: "/products/_search", Operation: es.Search, Engine: "opensearch", Collection: "products"}
	trail.Began, trail.Took = time.Now(), -1
	span := tracer.Request(r, trail)
	out := r.Header.Clone()
	if span == nil {
		return out, false
	}
	node := selection.NewNode(selection.NodeInfo{ID: "id-7", Name: "node-7"})
	trail.Attempts = []record.Attempt{{
		Kind: record.First, Node: node, Upstream: &url.URL{Scheme: "http", Host: "10.0.0.7:9200"},
		Listed: []*selection.Node{node}, Reason: "best", Span: span.Attempt(out), Outcome: record.Answered, Status: http.StatusOK,
	}}
	trail.Status, trail.Outcome, trail.Reason, trail.Mode = http.StatusOK, "ok", "best", "route"
	span.End(trail)
	return out, true
}

func (t *Tracer) count(result string) float64 {
	return testutil.ToFloat64(t.spans.WithLabelValues(result))
}

func both(spans []tracingtest.Span) bool { return len(spans) == 2 }

func TestSpansReachTheReceiver(t *testing.T) {
	for protocol, start := range receivers {
		t.Run(protocol, func(t *testing.T) {
			receiver := start(t)
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=other")
			tracer, _ := newTracer(t, Options{
				Endpoint: receiver.URL + "/", Protocol: protocol, SampleRatio: 1, Version: "1.2.3",
				ServiceName: "shop", Headers: map[string]string{"X-Tenant": "hunter2"},
			})
			out, recorded := ask(tracer)
			require.True(t, recorded)
			spans := receiver.Await(t, both)
			require.Equal(t, "hunter2", receiver.Headers()["x-tenant"])
			attempt, request := spans[0], spans[1]
			require.Equal(t, "POST search", request.Name)
			require.Equal(t, "server", request.Kind)
			require.Empty(t, request.Parent)
			require.Equal(t, "search products", attempt.Name)
			require.Equal(t, "client", attempt.Kind)
			require.Equal(t, request.ID, attempt.Parent)
			require.Equal(t, request.Trace, attempt.Trace)
			require.Equal(t, "00-"+attempt.Trace+"-"+attempt.ID+"-01", out.Get("traceparent"), "the node's parent is the attempt")
			require.Equal(t, "sidestep", request.InstrumentationScope)
			require.Contains(t, request.InstrumentationSchema, "opentelemetry.io/schemas/")
			require.Equal(t, "shop", request.Resource["service.name"], "the key wins over the environment")
			require.Equal(t, "1.2.3", request.Resource["service.version"])
			require.Equal(t, "test", request.Resource["deployment.environment.name"])
			require.Equal(t, map[string]any{
				"http.request.method": "POST", "http.response.status_code": 200, "db.response.status_code": "200",
				"url.full": "http://10.0.0.7:9200/products/_search", "server.address": "10.0.0.7", "server.port": 9200,
				"db.system.name": "opensearch", "db.operation.name": "search", "db.collection.name": "products",
				"sidestep.role": "first", "sidestep.preference": "only_nodes", "sidestep.reason": "best",
				"sidestep.nodes": []string{"node-7"}, "sidestep.coordinator": "node-7",
			}, attempt.Attributes)
			require.Eventually(t, func() bool { return tracer.count(resultExported) == 2 }, time.Minute, time.Millisecond)
		})
	}
}

// Class and waited time are absent while admission is off.
func TestSpansTellOfAdmission(t *testing.T) {
	receiver := tracingtest.StartHTTP(t)
	tracer, _ := newTracer(t, Options{Endpoint: receiver.URL, SampleRatio: 1})
	for _, trail := range []*record.Trail{{Class: "reports", Waited: 1500 * time.Millisecond}, {Class: "default"}, {}} {
		trail.Method, trail.Path, trail.Operation, trail.Began, trail.Took, trail.Answered = http.MethodPost, "/products/_search", es.Search, time.Now(), -1, -1
		tracer.Request(httptest.NewRequestWithContext(t.Context(), trail.Method, trail.Path, http.NoBody), trail).End(trail)
	}
	spans := receiver.Await(t, func(spans []tracingtest.Span) bool { return len(spans) == 3 })
	require.Len(t, tracingtest.Find(spans, "sidestep.admission.class", "reports", "sidestep.admission.waited", 1.5), 1)
	require.Len(t, tracingtest.Find(spans, "sidestep.admission.class", "default"), 1)
	without := 0
	for _, s := range spans {
		if _, ok := s.Attributes["sidestep.admission.waited"]; !ok {
			without++
		}
	}
	require.Equal(t, 2, without)
}

func TestTLSByTheSchemeOfTheEndpoint(t *testing.T) {
	receiver, server := tracingtest.StartHTTPS(t)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(authority, block, 0o600))
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", authority)
	tracer, _ := newTracer(t, Options{Endpoint: receiver.URL, SampleRatio: 1})
	ask(tracer)
	receiver.Await(t, both)
}

func TestTheEnvironmentSaysWhatNoKeySays(t *testing.T) {
	receiver := tracingtest.StartGRPC(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=shop")
	t.Setenv("OTEL_SERVICE_NAME", "named")
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	tracer, _ := newTracer(t, Options{SampleRatio: 0})
	_, recorded := ask(tracer, "traceparent", unsampled)
	require.True(t, recorded, "always_on asks no parent")
	spans := receiver.Await(t, both)
	require.Equal(t, "named", spans[0].Resource["service.name"])
	require.Equal(t, "shop", receiver.Headers()["x-tenant"])

	for name, value := range map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "none"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			off, _ := newTracer(t, Options{SampleRatio: 1})
			_, recorded := ask(off)
			require.False(t, recorded)
		})
	}
	t.Run("OTEL_TRACES_SAMPLER", func(t *testing.T) {
		t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
		off, _ := newTracer(t, Options{SampleRatio: 1})
		_, recorded := ask(off, "traceparent", sampled)
		require.False(t, recorded)
		require.Nil(t, off.Probe(http.Header{}))
	})
}

func TestUnknownProtocol(t *testing.T) {
	tracer, _ := newTracer(t, Options{})
	err := tracer.Use(Options{Endpoint: "http://127.0.0.1:1", Protocol: "thrift"})
	require.EqualError(t, err, `tracing: protocol "thrift" is not one of http/protobuf, http/json, grpc`)
}

// Operators set variables for everything that runs beside sidestep. None keeps it from starting.
func TestVariablesOfNoUseAreLeftOut(t *testing.T) {
	for variable, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_PROTOCOL": "http/thrift", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/thrift",
		"OTEL_BSP_MAX_QUEUE_SIZE": "-5", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "-1",
	} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, value)
			_, log := newTracer(t, Options{Endpoint: "http://127.0.0.1:1", SampleRatio: 1})
			require.Contains(t, log.String(), "protocol=http/protobuf")
			require.Equal(t, value == "http/thrift", strings.Contains(log.String(), variable+" names none of http/protobuf, http/json, grpc"))
		})
	}
}

func TestNumbersOfVariables(t *testing.T) {
	for value, want := range map[string]int64{"": 7, "3": 3, "0": 7, "-1": 7, "x": 7, "99999999999": 7} {
		t.Setenv("OTEL_BSP_SCHEDULE_DELAY", value)
		require.Equal(t, want, numberOf("OTEL_BSP_SCHEDULE_DELAY", 7), value)
	}
}

// parentOf is a traceparent of a trace whose random half begins so.
func parentOf(beginning, flags string) string {
	return "00-0af7651916cd43dd" + beginning + strings.Repeat("0", 16-len(beginning)) + "-b7ad6b7169203331-" + flags
}

func TestTheClientDoesNotDecideUnlessTrusted(t *testing.T) {
	receiver := tracingtest.StartHTTP(t)
	tracer, _ := newTracer(t, Options{Endpoint: receiver.URL, SampleRatio: 0.25})
	for _, flags := range []string{"00", "01"} {
		for beginning, want := range map[string]bool{"0": true, "3f": true, "4": false, "80": false, "ff": false} {
			parent := parentOf(beginning, flags)
			for range 3 {
				out, recorded := ask(tracer, "traceparent", parent, "tracestate", "a=1")
				require.Equal(t, want, recorded, parent)
				require.Equal(t, parent[:36], out.Get("traceparent")[:36], "the trace goes on")
				require.Equal(t, "a=1", out.Get("tracestate"))
				if !recorded {
					require.Equal(t, parent, out.Get("traceparent"), "as it came")
				}
			}
		}
	}
	for _, s := range receiver.Await(t, func(spans []tracingtest.Span) bool { return len(spans) == 2*2*3*2 }) {
		if s.Kind == "server" {
			require.Equal(t, "b7ad6b7169203331", s.Parent)
		}
	}

	none, _ := newTracer(t, Options{Endpoint: receiver.URL, SampleRatio: 0})
	_, recorded := ask(none, "traceparent", sampled)
	require.False(t, recorded)
	all, _ := newTracer(t, Options{Endpoint: receiver.URL, SampleRatio: 1})
	_, recorded = ask(all, "traceparent", unsampled)
	require.True(t, recorded)
}

func TestShareOfTracesOfClients(t *testing.T) {
	receiver := tracingtest.StartHTTP(t)
	tracer, _ := newTracer(t, Options{Endpoint: receiver.URL, SampleRatio: 0.1})
	const requests = 20_000
	recorded := 0
	for range requests {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("Traceparent", fmt.Sprintf("00-%016x%016x-b7ad6b7169203331-01", rand.Uint64()|1, rand.Uint64()))
		if span := tracer.Request(r, &record.Trail{}); span != nil {
			recorded++
		}
	}
	require.InDelta(t, requests/10, recorded, 300, "seven standard deviations")
}

func TestTheClientDecides(t *testing.T) {
	receiver := tracingtest.StartHTTP(t)
	all, _ := newTracer(t, Options{Endpoint: receiver.URL, SampleRatio: 1, TrustClient: true})
	none, _ := newTracer(t, Options{Endpoint: receiver.URL, SampleRatio: 0, TrustClient: true})

	_, recorded := ask(none)
	require.False(t, recorded)
	out, recorded := ask(all, "traceparent", unsampled, "tracestate", "a=1")
	require.False(t, recorded)
	require.Equal(t, http.Header{"Traceparent": {unsampled}, "Tracestate": {"a=1"}}, out, "its context goes on as it came")
	out, recorded = ask(all, "traceparent", sampled, "traceparent", sampled)
	require.False(t, recorded, "what the engine refuses it must see")
	require.Len(t, out["Traceparent"], 2)

	out, recorded = ask(none, "traceparent", sampled, "tracestate", "a=1", "tracestate", "b=2", "baggage", "user=1")
	require.True(t, recorded)
	spans := receiver.Await(t, both)
	require.Equal(t, "b7ad6b7169203331", spans[1].Parent)
	for _, s := range spans {
		require.Equal(t, "0af7651916cd43dd8448eb211c80319c", s.Trace)
		require.Equal(t, "a=1,b=2", s.State)
	}
	require.Equal(t, http.Header{
		"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-" + spans[0].ID + "-01"},
		"Tracestate":  {"a=1,b=2"}, "Baggage": {"user=1"},
	}, out)
}

func TestTheTraceIsTheClients(t *testing.T) {
	receiver := tracingtest.StartHTTP(t)
	tracer, _ := newTracer(t, Options{Endpoint: receiver.URL, Protocol: protocolHTTP, SampleRatio: 1})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/products/_search", http.NoBody)
	r.Header.Set("Traceparent", sampled)
	span := tracer.Request(r, &record.Trail{Began: time.Now(), Operation: es.Search, Path: "/products/_search", Answered: -1})
	require.NotNil(t, span)
	require.Equal(t, strings.Split(sampled, "-")[1], span.TraceID())
	span.End(&record.Trail{Status: http.StatusOK, Outcome: "ok", Answered: -1})
	receiver.Await(t, func(spans []tracingtest.Span) bool { return len(spans) == 1 })
}

func TestAParentThatIsNotUnderstood(t *testing.T) {
	receiver := tracingtest.StartHTTP(t)
	tracer, _ := newTracer(t, Options{Endpoint: receiver.URL, SampleRatio: 1})
	out, recorded := ask(tracer, "traceparent", "00-0-0-01", "tracestate", "a=1")
	require.True(t, recorded)
	require.Empty(t, receiver.Await(t, both)[1].Parent)
	require.NotContains(t, out, "Tracestate", "it belongs to the parent")
}

func TestSampleRatio(t *testing.T) {
	receiver := tracingtest.StartHTTP(t)
	tracer, _ := newTracer(t, Options{Endpoint: receiver.URL, SampleRatio: 0.1})
	const requests = 20_000
	recorded := 0
	for range requests {
		if span := tracer.Request(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), &record.Trail{}); span != nil {
			recorded++
		}
	}
	require.InDelta(t, requests/10, recorded, 300, "seven standard deviations")
}

func TestReceiverDown(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
	receiver := tracingtest.StartHTTP(t)
	tracer, l := newTracer(t, Options{Endpoint: receiver.URL, SampleRatio: 1})
	receiver.Refuse(http.StatusForbidden, "")
	for range 3 {
		ask(tracer)
	}
	require.Eventually(t, func() bool { return tracer.count(resultFailed) == 6 }, time.Minute, time.Millisecond)
	require.Equal(t, 1, strings.Count(l.String(), "spans are not sent"), l.String())

	// While one export hangs the queue fills up, and requests go on.
	receiver.Refuse(0, "")
	release := receiver.Hold()
	for range 50 {
		ask(tracer)
	}
	require.InDelta(t, 90, tracer.count(resultDropped), 0)
	release()
	require.Eventually(t, func() bool { return tracer.count(resultExported) == 10 }, time.Minute, time.Millisecond)
	ask(tracer)
	require.Eventually(t, func() bool { return tracer.count(resultExported) == 12 }, time.Minute, time.Millisecond, "there is room again")
}

func TestCloseFlushesWithinABound(t *testing.T) {
	t.Run("flushes", func(t *testing.T) {
		receiver := tracingtest.StartHTTP(t)
		tracer, _ := newTracer(t, Options{Endpoint: receiver.URL, SampleRatio: 1})
		t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
		require.NoError(t, tracer.Use(Options{Endpoint: receiver.URL, SampleRatio: 1, ServiceName: "patient"}))
		ask(tracer)
		tracer.Close(context.Background())
		require.Len(t, receiver.Spans(), 2)
		_, recorded := ask(tracer)
		require.False(t, recorded)
	})
	for protocol, start := range map[string]func(*testing.T) string{
		protocolHTTP: func(t *testing.T) string {
			receiver := tracingtest.StartHTTP(t)
			t.Cleanup(receiver.Hold())
			return receiver.URL
		},
		protocolGRPC: func(*testing.T) string { return "http://127.0.0.1:1" }, // it retries for a minute
	} {
		t.Run(protocol, func(t *testing.T) {
			tracer, _ := newTracer(t, Options{Endpoint: start(t), Protocol: protocol, SampleRatio: 1})
			ask(tracer)
			began := time.Now()
			tracer.Close(context.Background())
			require.Less(t, time.Since(began), 30*time.Second, "two seconds, and what a slow machine adds")
		})
	}
}

func TestUse(t *testing.T) {
	first, second := tracingtest.StartHTTP(t), tracingtest.StartHTTP(t)
	o := Options{Endpoint: first.URL, SampleRatio: 1}
	tracer, _ := newTracer(t, o)
	same := tracer.current.Load()
	require.NoError(t, tracer.Use(o))
	require.Same(t, same, tracer.current.Load(), "nothing changed")
	ask(tracer)
	o.Endpoint = second.URL
	require.NoError(t, tracer.Use(o))
	first.Await(t, both)
	ask(tracer)
	second.Await(t, both)
	require.NoError(t, tracer.Use(Options{}))
	_, recorded := ask(tracer)
	require.False(t, recorded)
}

func TestOffAllocatesNothing(t *testing.T) {
	tracer, _ := newTracer(t, Options{})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if tracer.Request(r, &record.Trail{Path: "/"}) != nil {
			t.Fatal("it is off")
		}
	}))
}

func BenchmarkRequest(b *testing.B) {
	for name, headers := range map[string]http.Header{"parent=none": {}, "parent=unsampled": {"Traceparent": {unsampled}}} {
		b.Run(name, func(b *testing.B) {
			tracer := New(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			require.NoError(b, tracer.Use(Options{Endpoint: "http://127.0.0.1:1"}))
			defer tracer.Close(context.Background())
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", http.NoBody)
			r.Header = headers
			b.ReportAllocs()
			for b.Loop() {
				if tracer.Request(r, &record.Trail{Path: "/"}) != nil {
					b.Fatal("it is not sampled")
				}
			}
		})
	}
}

func TestHeadersWithoutEncryptionAreWarnedAbout(t *testing.T) {
	token := map[string]string{"Authorization": "Bearer secret"}
	for endpoint, c := range map[string]struct {
		headers map[string]string
		warned  bool
	}{
		"http://192.0.2.1:4318":  {token, true},
		"http://collector:4318":  {token, true},
		"http://192.0.2.2:4318":  {nil, false},
		"https://192.0.2.1:4318": {token, false},
		"http://127.0.0.1:4318":  {token, false},
		"http://[::1]:4318":      {token, false},
		"http://localhost:4318":  {token, false},
	} {
		_, log := newTracer(t, Options{Endpoint: endpoint, Headers: c.headers})
		require.Equal(t, c.warned, strings.Contains(log.String(), "sent without encryption"), endpoint)
		require.NotContains(t, log.String(), "Bearer secret")
	}
}

// What OpenTelemetry cannot read of these it would write to standard error, token and all.
func TestVariablesThatCannotBeReadAreNotQuoted(t *testing.T) {
	for name, c := range map[string]struct{ variable, value, told string }{
		"a colon in place of =": {"OTEL_EXPORTER_OTLP_HEADERS", "Authorization: Bearer SECRET", "parse headers"},
		"not escaped":           {"OTEL_EXPORTER_OTLP_HEADERS", "authorization=SECRET%zz", "escape header value"},
		"no URL":                {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:SECRET%4@127.0.0.1:1", "parse url"},
		"of the sidestep":       {"OTEL_RESOURCE_ATTRIBUTES", "a=%zz", "OpenTelemetry reports an error"},
		"no attributes":         {"OTEL_RESOURCE_ATTRIBUTES", "authorization: Bearer SECRET", "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(c.variable, c.value)
			_, l := newTracer(t, Options{Endpoint: "http://127.0.0.1:1", SampleRatio: 1})
			require.Contains(t, l.String(), c.told)
			require.NotContains(t, l.String(), "SECRET")
			require.NotContains(t, l.String(), "spans are not sent")
		})
	}
}
