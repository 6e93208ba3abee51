package tracing

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/tracing/tracingtest"
)

// What a receiver answers may be long, and quote the token; its path may be one.
func TestWhatTheReceiverAnswersIsNotLogged(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusServiceUnavailable} {
		t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "100") // else a 503 is tried again for a minute
		receiver := tracingtest.StartHTTP(t)
		receiver.Refuse(status, "no account has the token hunter2"+strings.Repeat("!", 1<<20))
		tracer, l := newTracer(t, Options{Endpoint: receiver.URL + "/hunter2/v1/traces", SampleRatio: 1})
		ask(tracer)
		require.Eventually(t, func() bool { return tracer.count(resultFailed) == 2 }, time.Minute, time.Millisecond)
		require.Contains(t, l.String(), "spans are not sent")
		require.NotContains(t, l.String(), "hunter2")
		require.Less(t, len(l.String()), 2000)
	}
}

// receivers start a receiver by its protocol.
var receivers = map[string]func(testing.TB) *tracingtest.Receiver{protocolHTTP: tracingtest.StartHTTP, protocolGRPC: tracingtest.StartGRPC}

// A receiver may take all spans and warn of something, or reject some of them.
func TestSpansThatAReceiverTakesInPart(t *testing.T) {
	for protocol, start := range receivers {
		t.Run(protocol, func(t *testing.T) {
			receiver := start(t)
			receiver.Reject(0, "use another endpoint soon (9 spans rejected)")
			tracer, l := newTracer(t, Options{Endpoint: receiver.URL, Protocol: protocol, SampleRatio: 1})
			ask(tracer)
			require.Eventually(t, func() bool { return tracer.count(resultExported) == 2 }, time.Minute, time.Millisecond)
			require.Contains(t, l.String(), "use another endpoint soon")
			require.NotContains(t, l.String(), "spans are not sent")
			receiver.Reject(1, "too old")
			ask(tracer)
			require.Eventually(t, func() bool { return tracer.count(resultExported) == 3 && tracer.count(resultFailed) == 1 }, time.Minute, time.Millisecond)
			require.Contains(t, l.String(), "too old")
		})
	}
}

// A certificate for receivers with TLS is of no use without, and http/json is none of what the file says.
func TestVariablesThatDoNotFitTheFile(t *testing.T) {
	_, server := tracingtest.StartHTTPS(t)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	for _, c := range []struct{ variable, value, protocol string }{
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", authority, protocolHTTP}, {"OTEL_EXPORTER_OTLP_CERTIFICATE", authority, protocolGRPC},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", protocolHTTP}, {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", protocolHTTP},
	} {
		t.Run(c.variable+" "+c.protocol, func(t *testing.T) {
			t.Setenv(c.variable, c.value)
			receiver := receivers[c.protocol](t)
			tracer, _ := newTracer(t, Options{Endpoint: receiver.URL, Protocol: c.protocol, SampleRatio: 1})
			ask(tracer)
			require.Eventually(t, func() bool { return tracer.count(resultExported)+tracer.count(resultFailed) == 2 }, time.Minute, time.Millisecond)
			require.Len(t, receiver.Spans(), 2)
		})
	}
}

func TestJSON(t *testing.T) {
	kinds := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { kinds <- r.Header.Get("Content-Type") }))
	t.Cleanup(receiver.Close)
	tracer, _ := newTracer(t, Options{Endpoint: receiver.URL, Protocol: protocolJSON, SampleRatio: 1})
	ask(tracer)
	require.Equal(t, "application/json", <-kinds)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocolJSON)
	_, l := newTracer(t, Options{Endpoint: receiver.URL})
	require.Contains(t, l.String(), "protocol=http/json")
}

// There are samplers that OpenTelemetry's SDK for Go does not have.
func TestASamplerThatIsNotKnownIsLeftOut(t *testing.T) {
	for _, name := range []string{"jaeger_remote", "xray", " "} {
		t.Setenv("OTEL_TRACES_SAMPLER", name)
		tracer, l := newTracer(t, Options{Endpoint: "http://127.0.0.1:1", SampleRatio: 0})
		_, recorded := ask(tracer)
		require.False(t, recorded, name)
		require.Contains(t, l.String(), `sampler="ratio 0"`, name)
	}
	t.Setenv("OTEL_TRACES_SAMPLER", " Always_On ")
	tracer, _ := newTracer(t, Options{Endpoint: "http://127.0.0.1:1", SampleRatio: 0})
	_, recorded := ask(tracer)
	require.True(t, recorded)
}
