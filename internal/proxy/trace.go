package proxy

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"sidestep/internal/cluster"
	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// Tracer records requests as spans. It is called on the way of each request, so it
// must neither block nor fail.
type Tracer interface {
	// Request starts the span of a client's request; nil if it is not recorded.
	Request(r *http.Request, start RequestStart) RequestSpan
	// Probe starts the span of a search of sidestep's own; nil if it is not recorded.
	Probe(start AttemptStart) AttemptSpan
}

// RequestSpan records one request of a client.
type RequestSpan interface {
	// Attempt starts the span of an attempt. It is safe for concurrent use.
	Attempt(start AttemptStart) AttemptSpan
	// TraceID returns the id of the trace in hexadecimal digits.
	TraceID() string
	// End is called once, when the client has its answer or has left.
	End(end RequestEnd)
}

// AttemptSpan records one attempt: what was sent to a node and what came back.
type AttemptSpan interface {
	// Carry names the span in the headers that go upstream, in place of the one that
	// the client named.
	Carry(h http.Header)
	// End is called once.
	End(end AttemptEnd)
}

// RequestStart is what is known of a request when it comes.
type RequestStart struct {
	At        time.Time
	Operation es.Operation
	Path      string // as on the request line, without the query string; it may hold ids
}

// RequestEnd is what became of a request.
type RequestEnd struct {
	Status   int // 0 if no answer began
	Outcome  string
	Reason   string
	Mode     Mode
	Attempts int
	// Nodes are the names of the nodes listed by the attempt that was answered,
	// Coordinator is the one that the answer came through.
	Nodes       []string
	Coordinator string
}

// AttemptStart is what is known of an attempt when it is sent.
type AttemptStart struct {
	Role      string // one of [Roles]
	Resend    int    // how many attempts were sent before
	Operation es.Operation
	Method    string
	Path      string   // as of the request
	Upstream  *url.URL // of the node it goes to
	Node      string   // the name of that
	// Engine is "elasticsearch" or "opensearch", empty while it is not known.
	Engine string
	// Collection is the index, alias or data stream that is read, empty if it is
	// none that the cluster knows, or several.
	Collection string
	// Preference is "only_nodes" or "prefer_nodes", and Nodes are the names of the
	// nodes listed with it. Both are empty for what goes out as the client wrote it.
	Preference string
	Nodes      []string
	Reason     string // of the decision; empty if none was made
}

// AttemptEnd is what became of an attempt.
type AttemptEnd struct {
	At     time.Time
	Status int // 0 if there was no answer
	// Error is why there was no answer, one of [Errors].
	Error string
	// Cause is why the answer was not the last word, empty if it was: a cause of a
	// failover, or "abandoned" if another attempt was sooner.
	Cause string
}

// Roles of attempts, beside the kinds of steered ones.
const (
	roleAsWritten = "as_written" // the client's own request, after steered attempts
	rolePass      = "pass"       // a request that is not steered
	roleProbe     = "probe"      // a search of sidestep's own
)

// Roles returns the closed set of [AttemptStart.Role].
func Roles() []string {
	return []string{string(kindFirst), string(kindFailover), string(kindHedge), roleAsWritten, rolePass, roleProbe}
}

// Errors of attempts.
const (
	errorCanceled  = "canceled"  // the client left, or another attempt was sooner
	errorTimeout   = "timeout"   // the node said nothing for too long
	errorConnect   = "connect"   // nothing was sent
	errorTransport = "transport" // the connection broke
)

// Errors returns the closed set of [AttemptEnd.Error].
func Errors() []string {
	return []string{errorCanceled, errorTimeout, errorConnect, errorTransport}
}

// traceRequest starts the record of a request, if it is to be recorded.
func (p *Proxy) traceRequest(x *exchange, r *http.Request) {
	if p.o.Tracer != nil {
		x.span = p.o.Tracer.Request(r, RequestStart{At: x.began, Operation: x.request.Operation, Path: x.path})
	}
}

// endTrace ends the record of a request.
func (x *exchange) endTrace(status int) {
	if x.span == nil {
		return
	}
	nodes := x.nodes
	if x.reason == string(selection.NoOutlier) {
		nodes = nil // none were listed
	}
	x.span.End(RequestEnd{
		Status: status, Outcome: string(x.outcome), Reason: x.reason, Mode: x.mode,
		Attempts: x.attempts, Nodes: nodes, Coordinator: x.coordinator,
	})
}

// attemptTrace is the record of one attempt. It is nil where nothing is recorded: all
// its methods take that.
type attemptTrace struct {
	start AttemptStart
	// begin makes the span; it is called when the attempt is sent.
	begin     func(AttemptStart) AttemptSpan
	span      AttemptSpan
	cause     string
	abandoned atomic.Bool // another attempt was sooner
	ended     atomic.Bool
}

// traceAttempt prepares the record of an attempt through u that lists the nodes of d;
// a d of nil is none. The attempt has been counted.
func (x *exchange) traceAttempt(role string, u *upstream, d *selection.Decision) *attemptTrace {
	if x.span == nil {
		return nil
	}
	t := &attemptTrace{begin: x.span.Attempt, start: AttemptStart{
		Role: role, Resend: x.attempts - 1, Operation: x.request.Operation, Method: x.method, Path: x.path,
		Upstream: u.url, Node: u.node.Name, Engine: x.view.engine(), Collection: collection(x.request.Target, x.plan),
	}}
	if d == nil {
		return t
	}
	t.start.Reason = string(d.Reason)
	if d.Reason.Lists() {
		t.lists(names(d.Nodes), x.soft)
	}
	return t
}

// traceSteered prepares the record of a steered attempt.
func (x *exchange) traceSteered(kind attemptKind, u *upstream, d *selection.Decision) *attemptTrace {
	if x.attempts == 1 {
		kind = kindFirst
	}
	return x.traceAttempt(string(kind), u, d)
}

// tracePass prepares the record of an attempt that goes out as the client wrote it.
func (x *exchange) tracePass(u *upstream) *attemptTrace {
	if len(x.tried) > 0 {
		return x.traceAttempt(roleAsWritten, u, nil)
	}
	return x.traceAttempt(rolePass, u, nil)
}

// traceItems prepares the record of a steered multi-search.
func (x *exchange) traceItems(u *upstream, m *multiSearch) *attemptTrace {
	t := x.traceAttempt(string(kindFirst), u, nil)
	if t != nil {
		t.start.Reason = x.reason
		t.lists(m.nodes(), true)
	}
	return t
}

// traceProbe starts the record of a search that finds out about n. It names itself in
// the headers of r.
func (p *Proxy) traceProbe(r *http.Request, via *upstream, n *selection.Node) *attemptTrace {
	if p.o.Tracer == nil {
		return nil
	}
	span := p.o.Tracer.Probe(AttemptStart{
		Role: roleProbe, Operation: es.Search, Method: r.Method, Path: r.URL.EscapedPath(),
		Upstream: via.url, Node: via.node.Name, Engine: p.view.Load().engine(),
		Preference: "only_nodes", Nodes: []string{n.Name},
	})
	if span == nil {
		return nil
	}
	span.Carry(r.Header)
	return &attemptTrace{span: span}
}

// lists notes the nodes listed.
func (t *attemptTrace) lists(nodes []string, soft bool) {
	t.start.Nodes, t.start.Preference = nodes, "only_nodes"
	if soft {
		t.start.Preference = "prefer_nodes"
	}
}

// send starts the span of an attempt that is about to be sent, and names it in the
// headers of out, which are the attempt's own from then on.
func (t *attemptTrace) send(out *http.Request) {
	if t == nil {
		return
	}
	t.span = t.begin(t.start)
	out.Header = maps.Clone(out.Header)
	t.span.Carry(out.Header)
}

// answered notes what came back. An answer ends the span when it is closed.
func (t *attemptTrace) answered(resp *http.Response, err error) {
	switch {
	case t == nil:
	case err != nil:
		t.end(AttemptEnd{At: time.Now(), Error: errorOf(err)})
	case resp.StatusCode == http.StatusSwitchingProtocols: // its body is a connection
		t.end(AttemptEnd{At: time.Now(), Status: resp.StatusCode})
	default:
		resp.Body = &tracedBody{ReadCloser: resp.Body, trace: t, status: resp.StatusCode}
	}
}

// judged notes why the answer is not the last word; empty if it is.
func (t *attemptTrace) judged(cause string) {
	if t != nil {
		t.cause = cause
	}
}

// abandon notes that another attempt was sooner. It may be called while the attempt
// is being sent.
func (t *attemptTrace) abandon() {
	if t != nil {
		t.abandoned.Store(true)
	}
}

// probed ends the span of a probe.
func (t *attemptTrace) probed(status int, err error) {
	switch {
	case t == nil:
	case err != nil:
		t.end(AttemptEnd{At: time.Now(), Error: errorOf(err)})
	default:
		t.end(AttemptEnd{At: time.Now(), Status: status})
	}
}

func (t *attemptTrace) end(end AttemptEnd) {
	if !t.ended.CompareAndSwap(false, true) {
		return
	}
	if end.Cause = t.cause; t.abandoned.Load() {
		end.Cause = endAbandoned
	}
	t.span.End(end)
}

// tracedBody ends the span of an attempt when its answer is closed, which is when it
// is known what became of it; the span's time is that of the last byte read.
type tracedBody struct {
	io.ReadCloser
	trace  *attemptTrace
	status int
	readAt time.Time
}

// Read implements io.Reader.
func (b *tracedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && b.readAt.IsZero() {
		b.readAt = time.Now()
	}
	return n, err
}

// Close implements io.Closer.
func (b *tracedBody) Close() error {
	end := AttemptEnd{At: b.readAt, Status: b.status}
	if end.At.IsZero() {
		end.At = time.Now()
	}
	b.trace.end(end)
	return b.ReadCloser.Close()
}

// errorOf says why an attempt had no answer.
func errorOf(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return errorCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return errorTimeout
	case notSent(err):
		return errorConnect
	}
	return errorTransport
}

// engine is the distribution of the cluster, empty while it is not known.
func (v *view) engine() string {
	if v.snapshot == nil {
		return ""
	}
	return v.snapshot.Engine.Distribution
}

// collection returns target if it is one name that was resolved: clients choose what
// they ask for, but not what the cluster has.
func collection(target string, plan *cluster.Plan) string {
	if plan == nil || target == "_all" || strings.ContainsAny(target, "*,<") {
		return ""
	}
	return target
}
