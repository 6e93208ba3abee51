package proxy

import (
	"net/http"
	"strings"
	"time"

	"sidestep/internal/record"
	"sidestep/internal/selection/account"
)

// outcome is how a request ended for its client. The set is closed: it is a
// metric label.
type outcome string

const (
	outcomeOK          outcome = "ok"
	outcomePartial     outcome = "partial"
	outcomeClientError outcome = "client_error" // 4xx but 429
	outcomeEngineError outcome = "engine_error" // 429, 5xx
	outcomeCanceled    outcome = "canceled"     // the client left
	outcomeCutOff      outcome = "cut_off"      // the answer broke off
	outcomeUnreachable outcome = "unreachable"  // sidestep's own 502 or 503
	outcomeRefused     outcome = "refused"      // sidestep's own 429
)

// outcomeOf returns the outcome for a status.
func outcomeOf(status int) outcome {
	switch {
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		return outcomeEngineError
	case status >= http.StatusBadRequest:
		return outcomeClientError
	default:
		return outcomeOK
	}
}

// account counts the exchange, ends its spans, and records it if records want it.
func (x *exchange) account() {
	now := time.Now()
	if x.stream != nil {
		x.stream.finish(x)
	}
	if x.bulk != nil {
		x.bulk.finish(now)
	}
	x.RequestBytes += x.discarded
	x.Finished(now)
	if x.Outcome == "" { // the exchange was aborted
		x.Outcome = string(outcomeCanceled)
	}
	if x.Reason == "" {
		x.Reason = reasonGone
	}
	x.Failed = x.Outcome == string(outcomeUnreachable) || x.Outcome == string(outcomeCutOff)
	m := x.p.metrics
	op := string(x.Operation)
	m.requests.WithLabelValues(op, x.Reason, x.Outcome).Inc()
	m.duration.WithLabelValues(op).Observe(now.Sub(x.Began).Seconds())
	if !x.headAt.IsZero() {
		own := x.headAt.Sub(x.Began) - x.Upstream - x.reading - x.Waited
		m.overhead.Observe(max(0, own.Seconds()))
	}
	if x.Span != nil {
		x.Engine, x.Collection = x.view.engine(), x.collection()
		x.Span.End(&x.Trail)
	}
	if x.p.o.Records != nil {
		x.p.o.Records.Take(&x.Trail, x.r, now, x)
	}
}

// Account implements [record.Decided]. It describes the first decision; nil if none was
// made.
func (x *exchange) Account() *account.Account {
	if x.first == nil || x.plan == nil {
		return nil
	}
	a := account.Of(x.p.o.Selector, &x.first.decision, x.selectionRequest(nil), record.MaxCandidates, time.Now())
	return &a
}

// engine is the distribution of the cluster, empty while it is unknown.
func (v *view) engine() string {
	if v.snapshot == nil {
		return ""
	}
	return v.snapshot.Engine.Distribution
}

// collection returns the target if it is one name that was resolved, so one that the
// cluster has. Clients can make up any other name.
func (x *exchange) collection() string {
	if x.plan == nil || x.Target == "_all" || strings.ContainsAny(x.Target, "*,<") {
		return ""
	}
	return x.Target
}
