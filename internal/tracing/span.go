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
	"sidestep/internal/proxy"
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
func (p *provider) startRequest(ctx context.Context, r *http.Request, start proxy.RequestStart) proxy.RequestSpan {
	method := knownMethod(r.Method)
	name := spanName(method)
	if operation := string(start.Operation); start.Operation != es.Other {
		name += " " + operation
	}
	attributes := make([]attribute.KeyValue, 0, 8)
	attributes = append(attributes,
		keyMethod.String(method),
		keyPath.String(shown(start.Path)),
		keyScheme.String(scheme(r)),
		keyProtocolVersion.String(protocolVersion(r)),
		keyOperation.String(string(start.Operation)),
	)
	if client, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		attributes = append(attributes, keyClientAddress.String(client))
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		attributes = appendServer(attributes, local.String())
	}
	ctx, span := p.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithTimestamp(start.At), trace.WithAttributes(attributes...))
	if !span.IsRecording() {
		return nil
	}
	return &request{provider: p, ctx: ctx, span: span}
}

// Attempt implements [proxy.RequestSpan].
func (r *request) Attempt(start proxy.AttemptStart) proxy.AttemptSpan {
	return r.provider.attempt(r.ctx, start)
}

// TraceID implements [proxy.RequestSpan].
func (r *request) TraceID() string { return r.span.SpanContext().TraceID().String() }

// End implements [proxy.RequestSpan].
func (r *request) End(end proxy.RequestEnd) {
	attributes := make([]attribute.KeyValue, 0, 8)
	attributes = append(attributes,
		keyOutcome.String(end.Outcome),
		keyReason.String(end.Reason),
		keyMode.String(string(end.Mode)),
		keyAttempts.Int(end.Attempts),
	)
	attributes = appendStatus(attributes, end.Status)
	attributes = appendNodes(attributes, end.Nodes)
	if end.Coordinator != "" {
		attributes = append(attributes, keyCoordinator.String(end.Coordinator))
	}
	switch {
	case end.Status >= http.StatusInternalServerError:
		r.fail(strconv.Itoa(end.Status))
	case end.Status == 0:
		r.fail(end.Outcome)
	}
	r.span.SetAttributes(attributes...)
	r.span.End()
}

func (r *request) fail(why string) {
	r.span.SetStatus(codes.Error, "")
	r.span.SetAttributes(keyErrorType.String(why))
}

// attempt is the client span of an attempt.
type attempt struct {
	ctx  context.Context //nolint:containedctx // it holds the span
	span trace.Span
}

// startAttempt is attempt for a root, which the SDK's sampler may not want: then nil.
func (p *provider) startAttempt(ctx context.Context, start proxy.AttemptStart) *attempt {
	if a := p.attempt(ctx, start); a.span.IsRecording() {
		return a
	}
	return nil
}

// attempt starts the span of an attempt.
func (p *provider) attempt(ctx context.Context, start proxy.AttemptStart) *attempt {
	method, operation := knownMethod(start.Method), apiName(start.Operation, start.Method)
	attributes := make([]attribute.KeyValue, 0, 16)
	attributes = append(attributes,
		keyMethod.String(method),
		keyURL.String(start.Upstream.Scheme+"://"+start.Upstream.Host+shown(start.Path)),
		keyRole.String(start.Role),
		keyCoordinator.String(start.Node),
	)
	attributes = appendServer(attributes, hostPort(start.Upstream))
	attributes = appendNodes(attributes, start.Nodes)
	for _, optional := range []attribute.KeyValue{
		keySystem.String(start.Engine),
		keyOperationName.String(operation),
		keyCollection.String(start.Collection),
		keyPreference.String(start.Preference),
		keyReason.String(start.Reason),
	} {
		if optional.Value.AsString() != "" {
			attributes = append(attributes, optional)
		}
	}
	if start.Resend > 0 {
		attributes = append(attributes, keyResend.Int(start.Resend))
	}
	ctx, span := p.tracer.Start(ctx, attemptName(method, operation, start.Collection),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	return &attempt{ctx: ctx, span: span}
}

// Carry implements [proxy.AttemptSpan].
func (a *attempt) Carry(h http.Header) {
	h.Del(stateHeader) // of a parent that was not understood
	propagation.TraceContext{}.Inject(a.ctx, carrier(h))
}

// End implements [proxy.AttemptSpan].
func (a *attempt) End(end proxy.AttemptEnd) {
	attributes := make([]attribute.KeyValue, 0, 4)
	attributes = appendStatus(attributes, end.Status)
	if end.Status != 0 {
		attributes = append(attributes, keyResponseCode.String(strconv.Itoa(end.Status)))
	}
	if end.Cause != "" {
		attributes = append(attributes, keyCause.String(end.Cause))
	}
	why := end.Error
	if end.Status >= http.StatusBadRequest {
		why = strconv.Itoa(end.Status)
	}
	if why != "" {
		attributes = append(attributes, keyErrorType.String(why))
		a.span.SetStatus(codes.Error, "")
	}
	a.span.SetAttributes(attributes...)
	a.span.End(trace.WithTimestamp(end.At))
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
