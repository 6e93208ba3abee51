package record

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"sidestep/internal/es"
)

// Bounds of a record.
const (
	maxRecordText     = 256 // bytes of a path, target or error
	maxRecordID       = 64  // of an id that the client sent
	maxRecordNodes    = 50  // names in a list
	maxRecordAttempts = 10
	// MaxCandidates is how many candidates of a decision a record has.
	MaxCandidates = 20
)

// record makes the record of a request that is over at end. header is the client's.
func (t *Trail) record(r *http.Request, end time.Time) *Record {
	rec := &Record{
		At:            t.Began.UTC().Truncate(time.Millisecond),
		Method:        bounded(t.Method, maxRecordID),
		Path:          bounded(es.HideIDs(t.Path), maxRecordText),
		Operation:     t.Operation,
		Target:        bounded(t.Target, maxRecordText),
		Routed:        t.Routed,
		Mode:          t.Mode,
		Reason:        t.Reason,
		Outcome:       t.Outcome,
		Status:        t.Status,
		Duration:      milliseconds(end.Sub(t.Began)),
		Upstream:      milliseconds(t.Upstream),
		Class:         t.Class,
		Waited:        milliseconds(t.Waited),
		RequestBytes:  t.RequestBytes,
		ResponseBytes: t.ResponseBytes,
		Bulk:          t.Bulk,
		Nodes:         few(t.Nodes()),
		Coordinator:   t.Coordinator(),
		OpaqueID:      bounded(r.Header.Get("X-Opaque-Id"), maxRecordID),
		TraceID:       traceID(r.Header.Get("Traceparent")),
		Attempts:      []AttemptRecord{},
		ended:         end,
	}
	rec.Client, _, _ = net.SplitHostPort(r.RemoteAddr)
	if t.Span != nil {
		rec.TraceID = t.Span.TraceID() // the client's, if it named one that is understood
	}
	if t.Took >= 0 {
		took := milliseconds(t.Took)
		rec.Took = &took
	}
	for i := range t.Attempts[:min(len(t.Attempts), maxRecordAttempts)] {
		rec.Attempts = append(rec.Attempts, t.Attempts[i].record())
	}
	return rec
}

func (a *Attempt) record() AttemptRecord {
	r := AttemptRecord{
		Kind: string(a.Kind), Preference: cmp.Or(a.Preference(), "none"), Nodes: few(Names(a.Listed)),
		Start: milliseconds(a.Start), Duration: milliseconds(a.Head - a.Start), Outcome: a.Outcome, Status: a.Status,
	}
	if r.Outcome == "" { // the handler was torn down
		r.Outcome, r.Duration = Canceled, 0
	}
	if a.Node != nil {
		r.Node, r.NodeID = a.Node.Name, a.Node.ID
	}
	if a.Err != nil {
		r.Error = bounded(errorText(a.Err), maxRecordText)
	}
	return r
}

// milliseconds returns d in milliseconds, to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// few bounds a list of names; nil if there is none.
func few(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	return names[:min(len(names), maxRecordNodes)]
}

// bounded cuts text to so many bytes, between characters. It is a copy: what a client sent is mostly a part of its
// whole request line, which would stay in memory as long as the record does.
func bounded(text string, limit int) string {
	if len(text) <= limit {
		return strings.Clone(text)
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
	switch {
	case errors.As(err, &certificate):
		return certificate.Error()
	case errors.As(err, &op):
		return op.Error()
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline exceeded"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the node closed the connection"
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return fmt.Sprintf("%T", err)
}
