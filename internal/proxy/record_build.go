package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// Bounds of a record.
const (
	maxRecordText       = 256 // bytes of a path, target or error
	maxRecordID         = 64  // of an id that the client sent
	maxRecordNodes      = 50  // names in a list
	maxRecordAttempts   = 10
	maxRecordCandidates = 20
)

// record builds the record of an exchange that is over.
func (x *exchange) record(r *http.Request, w *plainWriter, end time.Time) *Record {
	rec := &Record{
		At:        x.began.UTC().Truncate(time.Millisecond),
		Method:    bounded(x.method, maxRecordID),
		Path:      bounded(es.HideIDs(x.path), maxRecordText),
		Operation: x.request.Operation,
		Target:    bounded(x.request.Target, maxRecordText),
		Routed:    x.request.Routing != "",
		Mode:      x.mode, Reason: x.reason, Outcome: string(x.outcome),
		Status:        w.status,
		Duration:      milliseconds(end.Sub(x.began)),
		Upstream:      milliseconds(x.upstream),
		RequestBytes:  x.received.Load() + int64(len(x.body)),
		ResponseBytes: w.sent,
		Nodes:         few(x.nodes),
		Coordinator:   x.coordinator,
		OpaqueID:      bounded(r.Header.Get("X-Opaque-Id"), maxRecordID),
		TraceID:       traceID(r.Header.Get("Traceparent")),
		Attempts:      []AttemptRecord{},
		ended:         end,
	}
	rec.Client, _, _ = net.SplitHostPort(r.RemoteAddr)
	if x.span != nil {
		rec.TraceID = x.span.TraceID() // the client's, if it named one that is understood
	}
	if x.took >= 0 {
		took := milliseconds(x.took)
		rec.Took = &took
	}
	for i, s := range x.trail.steps {
		if i == maxRecordAttempts {
			break
		}
		rec.Attempts = append(rec.Attempts, x.attemptRecord(s))
	}
	return rec
}

func (x *exchange) attemptRecord(s step) AttemptRecord {
	a := AttemptRecord{
		Kind: string(s.kind), Preference: x.preferenceOf(s.decision),
		Start: milliseconds(s.began), Duration: milliseconds(s.took), Outcome: s.end, Status: s.status,
	}
	if a.Outcome == "" { // the handler was torn down
		a.Outcome = endCanceled
	}
	if s.node != nil {
		a.Node, a.NodeID = s.node.Name, s.node.ID
	}
	if s.decision != nil {
		a.Nodes = few(names(s.decision.Nodes))
	}
	if s.err != nil {
		a.Error = bounded(errorText(s.err), maxRecordText)
	}
	return a
}

// preferenceOf names what was added to the request for d.
func (x *exchange) preferenceOf(d *selection.Decision) string {
	switch {
	case d == nil || !d.Reason.Lists():
		return "none"
	case x.soft || x.steering() == es.SteerItems:
		return "prefer_nodes"
	default:
		return "only_nodes"
	}
}

// account tells of the first decision about an exchange, nil if none was made.
func (p *Proxy) account(x *exchange, end time.Time) *selection.Account {
	if x.decision == nil || x.plan == nil {
		return nil
	}
	a := p.o.Selector.Account(x.decision, p.selectionRequest(x, nil), maxRecordCandidates, end)
	return &a
}

// milliseconds returns d in milliseconds, to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// few bounds a list of names.
func few(names []string) []string {
	return names[:min(len(names), maxRecordNodes)]
}

// bounded cuts text to so many bytes, between characters.
func bounded(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return strings.Clone(text[:limit]) + "…"
}

// traceID returns the trace id of a W3C traceparent header, empty if there is none.
func traceID(traceparent string) string {
	parts := strings.Split(bounded(traceparent, maxRecordID), "-")
	if len(parts) < 4 || len(parts[1]) != 32 || strings.Trim(parts[1], "0123456789abcdef") != "" {
		return ""
	}
	return parts[1]
}

// errorText says what went wrong with a connection. Only errors that are known to hold
// nothing of a request or an answer are told in their own words.
func errorText(err error) string {
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &certificate):
		return certificate.Error()
	case errors.As(err, &authority):
		return authority.Error()
	case errors.As(err, &op):
		return op.Error()
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline exceeded"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the node closed the connection"
	case errors.Is(err, errStale), errors.Is(err, errNoUpstream):
		return err.Error()
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return fmt.Sprintf("%T", err)
}
