// Package record describes requests: the [Trail] that the data plane fills while it
// serves a request. When the request has ended, log lines, kept records and spans are
// made from it.
package record

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"sidestep/internal/attempt"
	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// Trail describes one request in progress. One goroutine at a time uses it.
type Trail struct {
	Began     time.Time // when the request's head had arrived
	Method    string
	Path      string // as on the request line; it may hold ids
	Operation es.Operation
	Target    string // index expression of operations that are steered
	Routed    bool   // it has a routing
	Mode      string
	Reason    string
	Outcome   string
	Status    int           // of the answer, 0 before it begins
	Upstream  time.Duration // waiting for upstreams until the head of the answer
	Took      time.Duration // the engine's own, -1 if the answer has none that is read
	// RequestBytes and ResponseBytes are of the bodies.
	RequestBytes, ResponseBytes int64
	// Failed: the client got no complete answer of a node, but sidestep's own error or a
	// part of one.
	Failed bool
	// Answered is the number of the attempt whose answer the client got, -1 if none.
	Answered int
	Attempts []Attempt
	// Engine is "elasticsearch" or "opensearch", empty while it is unknown. Collection is
	// what is read: the index, alias or data stream, empty if the cluster has none of
	// that name, or if there are several. Both are for spans alone.
	Engine, Collection string
	Span               RequestSpan // nil if the request is not traced
	// Class is the class of admission, empty while that is off, and Waited how long the
	// request waited for it.
	Class  string
	Waited time.Duration
	Bulk   *Bulk // nil if the request is no bulk, or a bulk that sidestep does not read

	room [usualAttempts]Attempt
}

// usualAttempts is how many attempts are recorded without an allocation.
const usualAttempts = 2

// Reset makes t the trail of a new request.
func (t *Trail) Reset(began time.Time) {
	*t = Trail{Began: began, Took: -1, Answered: -1}
	t.Attempts = t.room[:0]
}

// Kind says why an attempt was made. The set is closed: it is logged.
type Kind string

// Kinds of attempts.
const (
	First    Kind = "first"
	Failover Kind = "failover" // an attempt before it failed
	Hedge    Kind = "hedge"    // an attempt in flight was overdue
)

// Roles of attempts in spans, beside the kinds.
const (
	roleAsWritten = "as_written" // the request as the client wrote it, after steered attempts
	rolePass      = "pass"       // a request that is not steered
	roleProbe     = "probe"      // a search of sidestep's own
)

// Roles returns all values of [Attempt.Role].
func Roles() []string {
	return []string{string(First), string(Failover), string(Hedge), roleAsWritten, rolePass, roleProbe}
}

// Outcomes of an attempt beside the causes of failovers. The set is closed: it is logged.
const (
	Answered  = "answered"
	Abandoned = "abandoned" // another attempt answered first, or told that this one would be refused
	Canceled  = "canceled"  // the client left
	CutOff    = "cut_off"   // the answer broke off
)

// Attempt is one attempt: what was sent to a node and what came back.
type Attempt struct {
	Kind     Kind
	Own      bool            // as the client wrote it, after a decision or without one
	Node     *selection.Node // that it was sent to
	Upstream *url.URL        // of that node
	// Listed are the nodes of its list; empty if it has none. Soft says that the
	// preference leaves the engine its own fallback.
	Listed []*selection.Node
	Soft   bool
	Reason string // of the decision; empty if none was made
	// Start and Head are since the request's beginning: when it was sent, and when the
	// head of its answer had arrived or it ended. End is when its answer ended.
	Start, Head, End time.Duration
	Outcome          string // empty while it is in flight
	Status           int
	Err              error
	Span             AttemptSpan // nil if the request is not traced
}

// Sent records that an attempt is sent now, and returns its number.
func (t *Trail) Sent(a Attempt, now time.Time) int {
	if len(t.Attempts) == 0 {
		a.Kind = First
	}
	a.Start = now.Sub(t.Began)
	t.Attempts = append(t.Attempts, a)
	return len(t.Attempts) - 1
}

// Ended records how attempt i ended, or that the head of its answer has arrived.
func (t *Trail) Ended(i int, outcome string, status int, err error, now time.Time) {
	a := &t.Attempts[i]
	a.Outcome, a.Status, a.Err, a.Head = outcome, status, err, now.Sub(t.Began)
	a.End = a.Head
}

// Finished records that the answer of the client's attempt has been read.
func (t *Trail) Finished(now time.Time) {
	if a := t.answered(); a != nil {
		a.End = now.Sub(t.Began)
	}
}

// CutOff records that the answer of the client's attempt broke off.
func (t *Trail) CutOff(err error) {
	if a := t.answered(); a != nil {
		a.Outcome, a.Err = CutOff, err
	}
}

// Role returns the role of attempt i, one of [Roles].
func (t *Trail) Role(i int) string {
	a := &t.Attempts[i]
	steered := slices.ContainsFunc(t.Attempts[:i], func(b Attempt) bool { return !b.Own })
	switch {
	case a.Kind == roleProbe:
		return roleProbe
	case a.Own && steered:
		return roleAsWritten
	case a.Own:
		return rolePass
	}
	return string(a.Kind)
}

// answered returns the attempt whose answer the client got, nil if there is none.
func (t *Trail) answered() *Attempt {
	if t.Answered < 0 {
		return nil
	}
	return &t.Attempts[t.Answered]
}

// Nodes returns the names of the nodes listed by the attempt that was answered.
func (t *Trail) Nodes() []string {
	if a := t.answered(); a != nil {
		return Names(a.Listed)
	}
	return nil
}

// Coordinator returns the name of the node that the answer came through, empty if there
// is none.
func (t *Trail) Coordinator() string {
	if a := t.answered(); a != nil {
		return a.Node.Name
	}
	return ""
}

// Preference names what was added to the request, empty if nothing was.
func (a *Attempt) Preference() string {
	switch {
	case len(a.Listed) == 0:
		return ""
	case a.Soft:
		return "prefer_nodes"
	}
	return "only_nodes"
}

// Errors of attempts in spans.
const (
	errorCanceled  = "canceled"  // the client left, or another attempt was sooner
	errorTimeout   = "timeout"   // the node said nothing for too long
	errorConnect   = "connect"   // nothing was sent
	errorTransport = "transport" // the connection broke
)

// Errors returns the closed set of [Attempt.Error].
func Errors() []string {
	return []string{errorCanceled, errorTimeout, errorConnect, errorTransport}
}

// Error says why the attempt brought no answer, or not all of it, one of [Errors]; empty
// if it did.
func (a *Attempt) Error() string {
	var timeout net.Error
	switch {
	case a.Outcome == Canceled, a.Outcome == Abandoned, a.Outcome == "", errors.Is(a.Err, context.Canceled):
		return errorCanceled
	case a.Err == nil:
		return ""
	case errors.Is(a.Err, context.DeadlineExceeded), errors.As(a.Err, &timeout) && timeout.Timeout():
		return errorTimeout
	case a.Outcome == string(attempt.Unreachable):
		return errorConnect
	}
	return errorTransport
}

// Cause says why the answer was not the last word, empty if it was.
func (a *Attempt) Cause() string {
	switch a.Outcome {
	case Answered, Canceled:
		return ""
	}
	return a.Outcome
}

// Names returns the names of nodes.
func Names(nodes []*selection.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Name
	}
	return out
}

// Tracer records requests as spans. It is called on the way of each request, so it
// must neither block nor fail.
type Tracer interface {
	// Request starts the span of a client's request; nil if it is not recorded.
	Request(r *http.Request, t *Trail) RequestSpan
	// Probe starts the span of a search of sidestep's own and names it in the headers
	// that go upstream; nil if it is not recorded.
	Probe(h http.Header) ProbeSpan
}

// RequestSpan records one request of a client.
type RequestSpan interface {
	// Attempt starts the span of an attempt and names it in the headers that go
	// upstream, in place of the one that the client named. It is safe for concurrent use.
	Attempt(h http.Header) AttemptSpan
	// TraceID returns the id of the trace in hexadecimal digits.
	TraceID() string
	// End ends the spans of the request and of its attempts, once, when the client has
	// its answer or has left.
	End(t *Trail)
}

// AttemptSpan is the span of an attempt, which [RequestSpan.End] ends.
type AttemptSpan any

// ProbeSpan records a search of sidestep's own.
type ProbeSpan interface {
	// End is called once, with a trail of one attempt.
	End(t *Trail)
}

// Probe returns the trail of a search of sidestep's own.
func Probe(t Trail, a Attempt) *Trail {
	a.Kind = roleProbe
	t.Attempts = []Attempt{a}
	return &t
}
