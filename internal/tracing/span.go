package tracing

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"sidestep/internal/es"
	"sidestep/internal/record"
)

// maxNodes is how many names of nodes a span holds.
const maxNodes = 32

// carrier reads and writes the context of a trace in headers.
type carrier http.Header

// Get implements propagation.TextMapCarrier. A state may stand in several lines.
func (c carrier) Get(key string) string { return strings.Join(http.Header(c).Values(key), ",") }

// Set implements propagation.TextMapCarrier.
func (c carrier) Set(key, value string) { http.Header(c).Set(key, value) }

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}

// request is the server span of a client's request.
type request struct {
	provider *provider
	ctx      context.Context //nolint:containedctx // it holds the span, the parent of the attempts'
	span     trace.Span
}

// startRequest starts the span of a request, whose parent is in ctx; nil if the SDK's
// sampler does not want it.
func (p *provider) startRequest(ctx context.Context, r *http.Request, t *record.Trail) record.RequestSpan {
	method := knownMethod(t.Method)
	name := spanName(method)
	if t.Operation != es.Other {
		name += " " + string(t.Operation)
	}
	attributes := make([]attribute.KeyValue, 0, 8)
	attributes = append(attributes,
		keyMethod.String(method),
		keyPath.String(shown(t.Path)),
		keyScheme.String(scheme(r)),
		keyProtocolVersion.String(protocolVersion(r)),
		keyOperation.String(string(t.Operation)),
	)
	if client, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		attributes = append(attributes, keyClientAddress.String(client))
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		attributes = appendServer(attributes, local.String())
	}
	ctx, span := p.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithTimestamp(t.Began), trace.WithAttributes(attributes...))
	if !span.IsRecording() {
		return nil
	}
	return &request{provider: p, ctx: ctx, span: span}
}

// Attempt implements [record.RequestSpan].
func (r *request) Attempt(h http.Header) record.AttemptSpan { return r.provider.attempt(r.ctx, h) }

// TraceID implements [record.RequestSpan].
func (r *request) TraceID() string { return r.span.SpanContext().TraceID().String() }

// End implements [record.RequestSpan].
func (r *request) End(t *record.Trail) {
	for i := range t.Attempts {
		if span, ok := t.Attempts[i].Span.(trace.Span); ok {
			endAttempt(span, t, i)
		}
	}
	attributes := make([]attribute.KeyValue, 0, 8)
	attributes = append(attributes,
		keyOutcome.String(t.Outcome),
		keyReason.String(t.Reason),
		keyMode.String(t.Mode),
		keyAttempts.Int(len(t.Attempts)),
	)
	attributes = appendStatus(attributes, t.Status)
	attributes = appendNodes(attributes, t.Nodes())
	if coordinator := t.Coordinator(); coordinator != "" {
		attributes = append(attributes, keyCoordinator.String(coordinator))
	}
	if t.Class != "" {
		attributes = append(attributes, keyClass.String(t.Class))
	}
	if t.Waited > 0 {
		attributes = append(attributes, keyWaited.Float64(t.Waited.Seconds()))
	}
	switch {
	case t.Status >= http.StatusInternalServerError:
		r.fail(strconv.Itoa(t.Status))
	case t.Status == 0 || t.Outcome == record.CutOff:
		r.fail(t.Outcome)
	}
	r.span.SetAttributes(attributes...)
	r.span.End()
}

func (r *request) fail(why string) {
	r.span.SetStatus(codes.Error, "")
	r.span.SetAttributes(keyErrorType.String(why))
}

// probe is the span of a search of sidestep's own.
type probe struct{ trace.Span }

// End implements [record.ProbeSpan].
func (p probe) End(t *record.Trail) { endAttempt(p.Span, t, 0) }

// attempt starts the client span of an attempt and names it in headers that go upstream.
func (p *provider) attempt(ctx context.Context, h http.Header) trace.Span {
	ctx, span := p.tracer.Start(ctx, "attempt", trace.WithSpanKind(trace.SpanKindClient))
	h.Del(stateHeader) // of a parent that was not understood
	propagation.TraceContext{}.Inject(ctx, carrier(h))
	return span
}

// endAttempt tells what attempt i of a trail was and what became of it.
func endAttempt(span trace.Span, t *record.Trail, i int) {
	a := &t.Attempts[i]
	method, operation := knownMethod(t.Method), apiName(t.Operation, t.Method)
	span.SetName(attemptName(method, operation, t.Collection))
	attributes := make([]attribute.KeyValue, 0, 20)
	attributes = append(attributes,
		keyMethod.String(method),
		keyURL.String(a.Upstream.Scheme+"://"+a.Upstream.Host+shown(t.Path)),
		keyRole.String(t.Role(i)),
		keyCoordinator.String(a.Node.Name),
	)
	attributes = appendServer(attributes, hostPort(a.Upstream))
	attributes = appendNodes(attributes, record.Names(a.Listed))
	attributes = appendStatus(attributes, a.Status)
	why := a.Error()
	if a.Status != 0 {
		attributes = append(attributes, keyResponseCode.String(strconv.Itoa(a.Status)))
	}
	if a.Status >= http.StatusBadRequest {
		why = strconv.Itoa(a.Status)
	}
	if why != "" {
		span.SetStatus(codes.Error, "")
	}
	for _, optional := range []attribute.KeyValue{
		keySystem.String(t.Engine),
		keyOperationName.String(operation),
		keyCollection.String(t.Collection),
		keyPreference.String(a.Preference()),
		keyReason.String(a.Reason),
		keyCause.String(a.Cause()),
		keyErrorType.String(why),
	} {
		if optional.Value.AsString() != "" {
			attributes = append(attributes, optional)
		}
	}
	if i > 0 {
		attributes = append(attributes, keyResend.Int(i))
	}
	span.SetAttributes(attributes...)
	span.End(trace.WithTimestamp(t.Began.Add(a.End)))
}

func appendStatus(to []attribute.KeyValue, status int) []attribute.KeyValue {
	if status == 0 {
		return to
	}
	return append(to, keyStatus.Int(status))
}

func appendNodes(to []attribute.KeyValue, nodes []string) []attribute.KeyValue {
	if len(nodes) == 0 {
		return to
	}
	return append(to, keyNodes.StringSlice(nodes[:min(len(nodes), maxNodes)]))
}

// maxPath is how many bytes of a path a span holds.
const maxPath = 256

// shown returns of a path what a span may hold: no id, and an end.
func shown(path string) string {
	path = es.HideIDs(path)
	return strings.ToValidUTF8(path[:min(len(path), maxPath)], "")
}

// appendServer appends the two halves of an address.
func appendServer(to []attribute.KeyValue, address string) []attribute.KeyValue {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return append(to, keyServerAddress.String(address))
	}
	to = append(to, keyServerAddress.String(host))
	if n, err := strconv.Atoi(port); err == nil {
		to = append(to, keyServerPort.Int(n))
	}
	return to
}

// hostPort is the address of u with the port that its scheme stands for.
func hostPort(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// otherMethod stands for methods that are not known, of which clients could make up
// any number.
const otherMethod = "_OTHER"

func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return otherMethod
}

// spanName is the name of a span of which nothing but the method is known.
func spanName(method string) string {
	if method == otherMethod {
		return "HTTP"
	}
	return method
}

func attemptName(method, operation, collection string) string {
	switch {
	case operation == "":
		return spanName(method)
	case collection == "":
		return operation
	}
	return operation + " " + collection
}

// apiName is what the engines' own specification of their API calls an operation;
// empty for what sidestep does not tell apart.
func apiName(operation es.Operation, method string) string {
	switch operation {
	case es.Other, es.Write:
		return ""
	case es.AsyncSearch:
		return "async_search.submit"
	case es.AsyncResult:
		if method == http.MethodDelete {
			return "async_search.delete"
		}
		return "async_search.get"
	case es.PIT:
		return "open_point_in_time"
	case es.ClosePIT:
		return "close_point_in_time"
	}
	return string(operation)
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

func protocolVersion(r *http.Request) string {
	if r.ProtoMajor >= 2 {
		return strconv.Itoa(r.ProtoMajor)
	}
	return strconv.Itoa(r.ProtoMajor) + "." + strconv.Itoa(r.ProtoMinor)
}
