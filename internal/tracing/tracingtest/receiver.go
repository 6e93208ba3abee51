// Package tracingtest is an OTLP receiver for tests: it speaks both protocols on
// loopback and keeps what it gets.
package tracingtest

import (
	"context"
	"encoding/hex"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// patience is how long spans are waited for.
const patience = time.Minute

// Span is a span as it was received.
type Span struct {
	Name, Kind            string // "server" or "client"
	Trace, ID, Parent     string // hexadecimal; Parent is empty of a root
	State                 string // tracestate
	Failed                bool
	Began, Ended          time.Time
	Attributes, Resource  map[string]any
	InstrumentationScope  string
	InstrumentationSchema string
}

// Receiver keeps the spans that it is sent.
type Receiver struct {
	// URL is the endpoint.
	URL string

	mu      sync.Mutex
	spans   []Span
	headers []map[string]string
	refuse  int // the HTTP status to answer with instead
	why     string
	partial *collector.ExportTracePartialSuccess
	waiting chan struct{}
}

// StartHTTP starts a receiver that speaks http/protobuf, until the test ends.
func StartHTTP(t testing.TB) *Receiver {
	t.Helper()
	return startHTTP(t, (*httptest.Server).Start)
}

// StartHTTPS is [StartHTTP] with TLS. The certificate is that of server, which the
// client must be told to trust.
func StartHTTPS(t *testing.T) (r *Receiver, server *httptest.Server) {
	t.Helper()
	r = startHTTP(t, func(s *httptest.Server) {
		s.StartTLS()
		server = s
	})
	return r, server
}

func startHTTP(t testing.TB, start func(*httptest.Server)) *Receiver {
	t.Helper()
	r := &Receiver{}
	server := httptest.NewUnstartedServer(r)
	start(server)
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

// StartGRPC starts a receiver that speaks gRPC, until the test ends.
func StartGRPC(t testing.TB) *Receiver {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &Receiver{URL: "http://" + listener.Addr().String()}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, &service{receiver: r})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	return r
}

// Refuse answers everything over HTTP with status and a text from now on; 0 takes it again.
func (r *Receiver) Refuse(status int, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse, r.why = status, why
}

// Reject answers from now on that so many of the spans were rejected, and why: of none that is a warning.
func (r *Receiver) Reject(spans int64, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partial = &collector.ExportTracePartialSuccess{RejectedSpans: spans, ErrorMessage: why}
}

// Hold keeps all exports over HTTP waiting until the function returned is called, or
// their client gives up.
func (r *Receiver) Hold() (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := make(chan struct{})
	r.waiting = waiting
	return sync.OnceFunc(func() { close(waiting) })
}

// ServeHTTP implements http.Handler.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	refuse, why, waiting, partial := r.refuse, r.why, r.waiting, r.partial
	r.mu.Unlock()
	if waiting != nil {
		select {
		case <-waiting:
		case <-q.Context().Done():
			return
		}
	}
	var request collector.ExportTraceServiceRequest
	switch {
	case refuse != 0:
		w.WriteHeader(refuse)
		_, _ = io.WriteString(w, why)
		return
	case q.URL.Path != "/v1/traces" || q.Header.Get("Content-Type") != "application/x-protobuf":
		w.WriteHeader(http.StatusNotFound)
		return
	case proto.Unmarshal(body, &request) != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	headers := map[string]string{}
	for name, values := range q.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	r.take(&request, headers)
	w.Header().Set("Content-Type", "application/x-protobuf")
	if answer, err := proto.Marshal(&collector.ExportTraceServiceResponse{PartialSuccess: partial}); err == nil {
		_, _ = w.Write(answer)
	}
}

// service is the gRPC side of a receiver.
type service struct {
	collector.UnimplementedTraceServiceServer
	receiver *Receiver
}

// Export implements collector.TraceServiceServer.
func (s *service) Export(ctx context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	headers := map[string]string{}
	if sent, ok := metadata.FromIncomingContext(ctx); ok {
		for name, values := range sent {
			headers[name] = strings.Join(values, ",")
		}
	}
	s.receiver.take(request, headers)
	s.receiver.mu.Lock()
	defer s.receiver.mu.Unlock()
	return &collector.ExportTraceServiceResponse{PartialSuccess: s.receiver.partial}, nil
}

func (r *Receiver) take(request *collector.ExportTraceServiceRequest, headers map[string]string) {
	var spans []Span
	for _, resource := range request.GetResourceSpans() {
		about := values(resource.GetResource().GetAttributes())
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				spans = append(spans, Span{
					Name:  s.GetName(),
					Kind:  strings.ToLower(strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_")),
					Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
					Parent: hex.EncodeToString(s.GetParentSpanId()), State: s.GetTraceState(),
					Failed:     s.GetStatus().GetCode().String() == "STATUS_CODE_ERROR",
					Began:      time.Unix(0, int64(s.GetStartTimeUnixNano())), //nolint:gosec // of this century
					Ended:      time.Unix(0, int64(s.GetEndTimeUnixNano())),   //nolint:gosec // of this century
					Attributes: values(s.GetAttributes()), Resource: about,
					InstrumentationScope: scope.GetScope().GetName(), InstrumentationSchema: scope.GetSchemaUrl(),
				})
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans, r.headers = append(r.spans, spans...), append(r.headers, headers)
}

func values(attributes []*common.KeyValue) map[string]any {
	all := map[string]any{}
	for _, a := range attributes {
		all[a.GetKey()] = value(a.GetValue())
	}
	return all
}

// value returns a string, int, float64, or []string.
func value(v *common.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return int(v.IntValue)
	case *common.AnyValue_DoubleValue:
		return v.DoubleValue
	case *common.AnyValue_ArrayValue:
		var all []string
		for _, one := range v.ArrayValue.GetValues() {
			all = append(all, one.GetStringValue())
		}
		return all
	}
	return v
}

// Spans returns what was received so far.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// Headers returns those of the last export, by their names in lower case.
func (r *Receiver) Headers() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.headers) == 0 {
		return nil
	}
	return maps.Clone(r.headers[len(r.headers)-1])
}

// Await waits until what was received is enough, and returns it.
func (r *Receiver) Await(t *testing.T, enough func([]Span) bool) []Span {
	t.Helper()
	require.Eventually(t, func() bool { return enough(r.Spans()) }, patience, 5*time.Millisecond, "the spans expected have not come")
	return r.Spans()
}

// Find returns the spans for which all pairs of key and value hold.
func Find(spans []Span, pairs ...any) []Span {
	var found []Span
	for _, s := range spans {
		fits := true
		for i := 0; i+1 < len(pairs); i += 2 {
			fits = fits && s.Attributes[pairs[i].(string)] == pairs[i+1]
		}
		if fits {
			found = append(found, s)
		}
	}
	return found
}
